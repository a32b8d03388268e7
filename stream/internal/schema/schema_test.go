package schema

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/statestore"
)

func contract(t *testing.T, elements ...string) *arrowio.Contract {
	t.Helper()
	c, err := arrowio.NewContract(elements, "label", "id")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stores are both kinds of store, empty.
func stores(t *testing.T) map[string]*Store {
	t.Helper()
	bucket, err := statestore.Open(t.Context(), natstest.New(t).JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Store{"bucket": In(bucket, "p"), "directory": Directory(t.TempDir(), "p")}
}

// TestFirstWriteWins checks that of several processes that fix a schema all get the one that is stored.
func TestFirstWriteWins(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			writers := 8
			if name == "directory" { // which has no compare-and-set between processes
				writers = 1
			}
			var wg sync.WaitGroup
			got := make([]*arrowio.Contract, writers)
			for i := range writers {
				wg.Go(func() {
					var err error
					if got[i], err = Fix(t.Context(), s, 1, contract(t, fmt.Sprint("f", i), "g")); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			r, revision, err := s.Read(t.Context())
			if err != nil || revision == 0 || r.Generation != 1 || r.Contract == nil {
				t.Fatalf("the record is %+v at %d: %v", r, revision, err)
			}
			for i, c := range got {
				if !c.Equal(r.Contract) {
					t.Errorf("writer %d got %v, and %v is stored", i, c, r.Contract)
				}
			}
			if c, err := Fix(t.Context(), s, 1, contract(t, "late")); err != nil || !c.Equal(r.Contract) {
				t.Errorf("a late writer got %v: %v", c, err)
			}
		})
	}
}

// TestReplace checks that a reset begins a new generation, which a process of the one before cannot write.
func TestReplace(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			created := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
			if r, revision, err := s.Read(t.Context()); err != nil || revision != 0 || r.Generation != 1 || r.IsReset() {
				t.Fatalf("an empty store has %+v at %d: %v", r, revision, err)
			}
			if _, err := Fix(t.Context(), s, 1, contract(t, "a")); err != nil {
				t.Fatal(err)
			}
			if _, err := Replace(t.Context(), s, nil, 41, created); err != nil {
				t.Fatal(err)
			}
			r, _, err := s.Read(t.Context())
			if err != nil || r.Generation != 2 || !r.IsReset() || r.After != 41 || !r.Stream.Equal(created) {
				t.Fatalf("after a reset the record is %+v: %v", r, err)
			}
			if _, err := Fix(t.Context(), s, 1, contract(t, "a")); !errors.Is(err, natsx.ErrConflict) {
				t.Errorf("a process of generation 1 wrote: %v", err)
			}
			if c, err := Fix(t.Context(), s, 2, contract(t, "b", "c")); err != nil || c.Len() != 2 {
				t.Errorf("generation 2 was fixed to %v: %v", c, err)
			}
			if r, err := Replace(t.Context(), s, contract(t, "d"), 0, time.Time{}); err != nil || r.Generation != 3 {
				t.Errorf("a replacement has generation %d: %v", r.Generation, err)
			}
		})
	}
}

// TestUnreadable checks that a record of another version, or a damaged one, is an error with a fix, which works.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	s := Directory(dir, "p")
	for _, text := range []string{`{`, `{"version":2}`,
		`{"version":1,"generation":1,"contract":{"version":1,"features":[]}}`} {
		if err := os.MkdirAll(filepath.Join(dir, "p"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "p", "schema.json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Read(t.Context()); err == nil {
			t.Errorf("%s is read", text)
		}
		if _, err := Replace(t.Context(), s, contract(t, "a"), 0, time.Time{}); err != nil {
			t.Errorf("%s cannot be replaced: %v", text, err)
		}
		if r, _, err := s.Read(t.Context()); err != nil || r.Contract.Len() != 1 {
			t.Errorf("after the replacement of %s: %+v, %v", text, r, err)
		}
	}
}
