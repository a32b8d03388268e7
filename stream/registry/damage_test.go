package registry

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/plugin"
)

func damage(t *testing.T, s Store, version string) {
	t.Helper()
	switch s := s.(type) {
	case *jetStream:
		info, err := s.info(t.Context(), version)
		if err != nil {
			t.Fatal(err)
		}
		j, _ := jetstream.New(s.js.Conn(), jetstream.WithDefaultTimeout(natstest.Timeout))
		st, err := j.Stream(t.Context(), "OBJ_"+Bucket)
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Purge(t.Context(), jetstream.WithPurgeSubject("$O."+Bucket+".C."+info.NUID)); err != nil {
			t.Fatal(err)
		}
	case *directory:
		path := filepath.Join(s.path, "digits", version+modelEnd)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// ruin writes something in place of the pointer.
func ruin(t *testing.T, s Store, value string) {
	t.Helper()
	_, revision, err := s.load(t.Context(), "digits")
	if err != nil {
		t.Fatal(err)
	}
	switch s := s.(type) {
	case *jetStream:
		_, err = s.bucket.Update(t.Context(), "digits", []byte(value), revision)
	case *directory:
		err = os.WriteFile(s.pointerFile("digits", revision), []byte(value), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedModel: a start continues with the newest earlier version that can be read, and without a model if there is
// none; the pointer records it from then on, and the next model is stored again.
func TestDamagedModel(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{})
		a := save(t, r, 1, "")
		b := save(t, r, 2, a)
		c := save(t, r, 3, b)
		d := save(t, r, 4, c)
		damage(t, s, c)
		damage(t, s, d)
		if _, err := New(s, "digits", Options{Strict: true}).Live(t.Context()); !errors.Is(err, ErrDamaged) &&
			!errors.Is(err, ErrMissing) {
			t.Fatalf("with Strict: %v", err)
		}
		begin := func() (*Registry, *Choice) {
			t.Helper()
			fresh := New(s, "digits", Options{})
			l, err := fresh.Live(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return fresh, l
		}
		fresh, l := begin()
		if l.Live == nil || l.Live.Version != b || !strings.Contains(l.Damage, d) ||
			!strings.Contains(l.Damage, "embedd model rollback") {
			t.Fatalf("live is %+v: %s", l.Live, l.Damage)
		}
		var states []string
		p, _ := fresh.Pointer(t.Context())
		for _, line := range p.List("digits") {
			states = append(states, line.State)
		}
		if !slices.Equal(states, []string{"kept", "live", "damaged", "damaged"}) {
			t.Errorf("the versions are %v", states)
		}
		if _, l = begin(); l.Damage != "" || l.Live.Version != b {
			t.Errorf("at the next start live is %s: %s", l.Live.Version, l.Damage)
		}
		e := save(t, fresh, 5, b)
		if _, l = begin(); l.Live.Version != e {
			t.Errorf("after the next save live is %s", l.Live.Version)
		}
		for _, v := range []string{a, b, e} {
			damage(t, s, v)
		}
		fresh, l = begin()
		if l.Live != nil || !strings.Contains(l.Damage, "a first model is fitted") || l.Epochs != 1 || l.New {
			t.Fatalf("without a model that can be read live is %+v", l)
		}
		if err := fresh.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := save(t, fresh, 6, "")
		if _, l = begin(); l.Live.Version != f || l.Damage != "" {
			t.Errorf("after a first model live is %+v", l)
		}
	})
}

// TestDamagedPointer: a start continues with the pointer before, or without one with what the models' notes contain. No
// model is removed.
func TestDamagedPointer(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"{", `{"format":2,"live":"digits-9-00000000"}`, "\x00\x01"} {
		eachStore(t, func(t *testing.T, s Store) {
			r := New(s, "digits", Options{})
			a := save(t, r, 1, "")
			b := save(t, r, 2, a)
			if err := r.RecordRefusal(t.Context(), plugin.Outcome{Reason: "a test"}); err != nil {
				t.Fatal(err)
			}
			ruin(t, s, value)
			if _, err := New(s, "digits", Options{Strict: true}).Live(t.Context()); !errors.Is(err, ErrDamaged) {
				t.Errorf("with Strict: %v", err)
			}
			if p, err := New(s, "digits", Options{}).Pointer(t.Context()); err != nil || p.Damage() == "" || p.Live != b {
				t.Fatalf("who looks has %+v, %v", p, err)
			}
			fresh := New(s, "digits", Options{})
			l, err := fresh.Live(t.Context())
			if err != nil || l.Live == nil || l.Live.Version != b || !strings.Contains(l.Damage, "the previous pointer") {
				t.Fatalf("live is %+v, %v", l, err)
			}
			if err := fresh.Sweep(t.Context()); err != nil || !slices.Equal(there(t, s), []string{a, b}) {
				t.Errorf("there are %v, %v", there(t, s), err)
			}
			c := save(t, fresh, 3, b)
			if l, p := live(t, s); l.Version != c || p.Damage() != "" {
				t.Errorf("after the next save live is %s: %s", l.Version, p.Damage())
			}
		})
	}
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{})
		a := save(t, r, 1, "")
		b := save(t, r, 2, a)
		switch s := s.(type) {
		case *jetStream:
			stream, err := s.js.Stream(t.Context(), pointerStream)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		case *directory:
			for _, path := range glob(t, filepath.Join(s.path, "digits", "pointer-*")) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		}
		fresh := New(s, "digits", Options{})
		l, err := fresh.Live(t.Context())
		if err != nil || l.Live == nil || l.Live.Version != b || !l.New || !strings.Contains(l.Damage, "newest version") {
			t.Fatalf("live is %+v, %v", l, err)
		}
		if err := fresh.Sweep(t.Context()); err != nil || !slices.Equal(there(t, s), []string{a, b}) {
			t.Errorf("there are %v, %v", there(t, s), err)
		}
		if _, err := fresh.Rollback(t.Context(), Request{Version: a}); err != nil {
			t.Error(err)
		}
	})
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v, %v", pattern, paths, err)
	}
	return paths
}

// TestDamagedWhileRunning: the process that runs the pipeline rewrites the pointer with its live model.
func TestDamagedWhileRunning(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{})
		a := save(t, r, 1, "")
		b := save(t, r, 2, a)
		ruin(t, s, "{")
		adopted := 0
		if err := r.CatchUp(t.Context(), func(*Choice) error { adopted++; return nil }); err != nil || adopted > 0 {
			t.Fatalf("%d models were adopted: %v", adopted, err)
		}
		if l, p := live(t, s); l.Version != b || p.Damage() != "" {
			t.Errorf("live is %s: %s", l.Version, p.Damage())
		}
		save(t, r, 3, b)
	})
}

// TestNewerModelFile: a program whose release does not read the version of the live model's file keeps the model that
// it has, reports why, and leaves the pointer to the release that stored it. At a start it continues with the newest
// version that it reads.
func TestNewerModelFile(t *testing.T) {
	dir := t.TempDir()
	s, err := Directory(dir)
	if err != nil {
		t.Fatal(err)
	}
	old, newer := New(s, "digits", Options{}), New(s, "digits", Options{})
	a := save(t, newer, 1, "")
	if l, err := old.Live(t.Context()); err != nil || l.Live.Version != a {
		t.Fatalf("live is %+v: %v", l, err)
	}
	b := save(t, newer, 2, a)
	path := filepath.Join(dir, "digits", b+modelEnd)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[8] = 99 // the version of the file
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	adopted := 0
	err = old.CatchUp(t.Context(), func(*Choice) error { adopted++; return nil })
	if adopted > 0 || err == nil || !strings.Contains(err.Error(), "version 99, this program reads") {
		t.Errorf("%d models were adopted: %v", adopted, err)
	}
	if p, err := old.Pointer(t.Context()); err != nil || p.Live != b {
		t.Errorf("the pointer's live version is %v: %v", p, err)
	}
	l, err := New(s, "digits", Options{}).Live(t.Context())
	if err != nil || l.Live == nil || l.Live.Version != a || !strings.Contains(l.Damage, b) {
		t.Errorf("a start continues with %+v: %v", l, err)
	}
}

// TestRetire: a pipeline without a live model stores its next one nevertheless, and the model that was live is the
// previous one.
func TestRetire(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{})
		a := save(t, r, 1, "")
		if err := r.Retire(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if l, err := New(s, "digits", Options{}).Live(t.Context()); err != nil || l.Live != nil || l.Epochs != 1 || l.New {
			t.Errorf("live is %+v, %v", l, err)
		}
		b := save(t, r, 2, "")
		if l, p := live(t, s); l.Version != b || p.Previous != a {
			t.Errorf("live is %s, previous %s", l.Version, p.Previous)
		}
		if _, err := r.Pin(t.Context(), Request{}); err != nil {
			t.Fatal(err)
		}
		if err := r.Retire(t.Context(), 0); !errors.Is(err, ErrPinned) {
			t.Errorf("a pinned model was retired: %v", err)
		}
	})
}
