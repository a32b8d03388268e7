package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/link"
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
	store, err := CreateReplicated(t.Context(), server.JS, 1)
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
	object := &chunkReader{ctx: t.Context(), js: s.js, subject: chunkPrefix + info.NUID, all: info.Chunks}
	if got, err := io.ReadAll(object); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes are read back: %v", len(got), len(data), err)
	}
}

// TestPutOverASlowLink: a model is stored over a link that carries less than putRate: the first attempt has too little
// time, and a later one has enough.
func TestPutOverASlowLink(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	if _, err := CreateReplicated(t.Context(), server.JS, 1); err != nil {
		t.Fatal(err)
	}
	const rate, size = 32 << 10, 320 << 10 // 10 s; the first attempt has 8.2 s
	l, err := link.New(strings.TrimPrefix(server.URL(), "nats://"), func(piece []byte) error {
		time.Sleep(time.Duration(len(piece)) * time.Second / rate)
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	nc, err := nats.Connect("nats://"+l.Address(), nats.Timeout(natstest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(natstest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	store, err := JetStream(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.(*jetStream).put(t.Context(), "p", "p-1", make([]byte, size)); err != nil {
		t.Error(err)
	}
}

// TestPutWithoutConfirmation: Save retries if the acknowledgement of a publish is lost. Seal does not wait for it. A
// Save that began before Seal returns an error.
func TestPutWithoutConfirmation(t *testing.T) {
	t.Parallel()
	store, err := CreateReplicated(t.Context(), natstest.New(t).JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := store.(*jetStream)
	info := func() *jetstream.StreamInfo {
		t.Helper()
		stream, err := s.js.Stream(t.Context(), objectStream)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo()
	}
	confirms := func(does bool) {
		t.Helper()
		config := info().Config
		config.NoAck = !does
		if _, err := s.js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	r := New(s, "digits", Options{})
	await := func(ended <-chan error) error {
		t.Helper()
		select {
		case err := <-ended:
			return err
		case <-time.After(natstest.Timeout):
			t.Fatal("it waits for a confirmation that was lost")
			return nil
		}
	}
	begin := func(f func() error) <-chan error {
		ended := make(chan error, 1)
		go func() { ended <- f() }()
		return ended
	}
	unconfirmed := func(seed uint64, parent string) <-chan error {
		t.Helper()
		before := info().State.LastSeq
		confirms(false)
		saved := begin(func() error {
			_, err := r.Save(t.Context(), release(t, seed, parent))
			return err
		})
		natstest.Await(t, "the model is sent", func() bool { return info().State.LastSeq > before })
		return saved
	}
	saved := unconfirmed(1, "")
	confirms(true)
	if err := await(saved); err != nil {
		t.Fatal(err)
	}
	first, _ := live(t, s)
	saved = unconfirmed(2, first.Version)
	if err := await(begin(func() error { _, err := r.Seal(t.Context(), 7, nil); return err })); err != nil {
		t.Error(err)
	}
	confirms(true)
	if err := await(saved); !errors.Is(err, ErrOvertaken) {
		t.Errorf("a save that began before the pointer was sealed: %v", err)
	}
}

// TestTidyByTheClockOfTheServer: what is being written is not removed, however far the clock of the server is behind.
func TestTidyByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	if _, err := CreateReplicated(t.Context(), server.JS, 1); err != nil {
		t.Fatal(err)
	}
	nc := server.Connect()
	times := regexp.MustCompile(`"(time|ts|first_ts|last_ts)":"([^"]*)"`)
	_, err := nc.Subscribe("behind.>", func(m *nats.Msg) {
		answer, err := nc.Request("$JS.API."+strings.TrimPrefix(m.Subject, "behind."), m.Data, natstest.Timeout)
		if err != nil {
			t.Error(err)
			return
		}
		_ = m.Respond(times.ReplaceAllFunc(answer.Data, func(field []byte) []byte {
			parts := times.FindSubmatch(field)
			at, err := time.Parse(time.RFC3339Nano, string(parts[2]))
			if err != nil {
				return field
			}
			return fmt.Appendf(nil, `"%s":"%s"`, parts[1], at.Add(-2*time.Hour).Format(time.RFC3339Nano))
		}))
	})
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.NewWithAPIPrefix(nc, "behind")
	if err != nil {
		t.Fatal(err)
	}
	store, err := JetStream(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	server.Publish(&nats.Msg{Subject: chunkPrefix + "written", Data: []byte("the beginning of a model")})
	if err := store.tidy(t.Context(), "", maxWriteIdle); err != nil {
		t.Fatal(err)
	}
	if n := server.Count(objectStream); n != 1 {
		t.Errorf("%d of 1 chunks are left", n)
	}
}
