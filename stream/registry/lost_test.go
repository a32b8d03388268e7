package registry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/natstest"
)

// TestLostStore: a user deletes the store of a running daemon. It is reported once, and the next model is stored
// nevertheless; a verb that only reads creates no store.
func TestLostStore(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		var says bytes.Buffer
		r := New(s, "digits", Options{Logger: slog.New(slog.NewTextHandler(&says, nil))})
		a := save(t, r, 1, "")
		switch s := s.(type) {
		case *jetStream:
			if _, err := JetStream(t.Context(), natstest.New(t).JS); !errors.Is(err, ErrMissing) {
				t.Errorf("opening the store of a server that keeps no models: %v", err)
			}
			deleteBuckets(t, s)
		case *directory:
			if err := os.RemoveAll(filepath.Join(s.path, "digits")); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if _, err := r.CatchUp(context.Background(), func(*Choice) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(says.String(), "was emptied"); n != 1 {
			t.Errorf("it says %d times that the store was emptied:\n%s", n, says.String())
		}
		b := save(t, r, 2, a)
		if l, _ := live(t, s); l.Version != b {
			t.Errorf("live is %s, want %s", l.Version, b)
		}
	})
}

func deleteBuckets(t *testing.T, s *jetStream) {
	t.Helper()
	for _, stream := range []string{"OBJ_" + Bucket, "KV_" + Bucket} {
		if _, err := s.conn.Request("$JS.API.STREAM.DELETE."+stream, nil, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}
