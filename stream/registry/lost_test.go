package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

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
			if err := r.CatchUp(context.Background(), func(*Choice) error { return nil }); err != nil {
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
		if _, err := s.js.Conn().Request("$JS.API.STREAM.DELETE."+stream, nil, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPutWhileTheConnectionBreaks: a model is stored although the connection breaks while it is sent.
func TestPutWhileTheConnectionBreaks(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store, err := CreateJetStream(t.Context(), server.JS)
	if err != nil {
		t.Fatal(err)
	}
	once, s := sync.Once{}, store.(*jetStream)
	if _, err := server.Connect().Subscribe(chunkPrefix+">", func(*nats.Msg) {
		once.Do(func() { _ = s.js.Conn().ForceReconnect() })
	}); err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("model"), 4<<20)
	if err := s.put(t.Context(), "p", "p-1", data); err != nil {
		t.Fatal(err)
	}
	info, err := s.info(t.Context(), "p-1")
	if err != nil {
		t.Fatal(err)
	}
	object := &chunks{ctx: t.Context(), js: s.js, subject: chunkPrefix + info.NUID, all: info.Chunks}
	if got, err := io.ReadAll(object); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes are read back: %v", len(got), len(data), err)
	}
}
