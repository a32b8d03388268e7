package natsx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

func newBucket(t *testing.T, js jetstream.JetStream) *Bucket {
	t.Helper()
	b, err := EnsureBucket(t.Context(), js, jetstream.KeyValueConfig{Bucket: "STATE"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestModify: of 100 concurrent changes by two clients all survive, and a create returns what was stored first.
func TestModify(t *testing.T) {
	t.Parallel()
	s := startServer(t, server.Options{})
	var wg sync.WaitGroup
	buckets := []*Bucket{newBucket(t, jetStreamOf(t, connect(t, s))), newBucket(t, jetStreamOf(t, connect(t, s)))}
	for i := range 100 {
		wg.Go(func() {
			_, err := buckets[i%2].Modify(t.Context(), "p.count", func(old []byte) ([]byte, error) {
				n, _ := strconv.Atoi(string(old))
				return strconv.AppendInt(nil, int64(n+1), 10), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	value, revision, err := buckets[0].Get(t.Context(), "p.count")
	if string(value) != "100" || err != nil {
		t.Errorf("the count is %s at revision %d, %v", value, revision, err)
	}
	if _, err := buckets[1].Update(t.Context(), "p.count", []byte("7"), revision-1); !errors.Is(err, ErrConflict) {
		t.Errorf("an update of an old revision: %v", err)
	}
	for i, b := range buckets {
		stored, created, err := b.Create(t.Context(), "p.first", []byte{'a' + byte(i)})
		if string(stored) != "a" || created != (i == 0) || err != nil {
			t.Errorf("create %d: %s is stored, %t, %v", i, stored, created, err)
		}
	}
	no := errors.New("no")
	if _, err := buckets[0].Modify(t.Context(), "p.first", func([]byte) ([]byte, error) {
		return nil, no
	}); !errors.Is(err, no) {
		t.Errorf("the error of a change is %v", err)
	}
	if _, err := buckets[0].Modify(t.Context(), "p.first", func([]byte) ([]byte, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
	if value, revision, err := buckets[1].Get(t.Context(), "p.first"); value != nil || revision == 0 || err != nil {
		t.Errorf("a deleted key has %q at %d, %v", value, revision, err)
	}
	if stored, created, err := buckets[1].Create(t.Context(), "p.first",
		[]byte("b")); string(stored) != "b" || !created || err != nil {
		t.Errorf("a create after a delete: %s, %t, %v", stored, created, err)
	}
}

// TestDeletedBucket: a bucket that was deleted is created again.
func TestDeletedBucket(t *testing.T) {
	t.Parallel()
	js := jetStreamOf(t, connect(t, startServer(t, server.Options{})))
	b := newBucket(t, js)
	if err := b.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteKeyValue(t.Context(), "STATE"); err != nil {
		t.Fatal(err)
	}
	if value, _, err := b.Get(t.Context(), "k"); value != nil || err != nil {
		t.Errorf("after the delete: %q, %v", value, err)
	}
	if stored, _, err := b.Create(t.Context(), "k", []byte("w")); string(stored) != "w" || err != nil {
		t.Errorf("after the delete: %q, %v", stored, err)
	}
}

// TestWatch: a key and a pattern that covers it are reported, each change at least once.
func TestWatch(t *testing.T) {
	t.Parallel()
	b := newBucket(t, jetStreamOf(t, connect(t, startServer(t, server.Options{}))))
	log := slog.New(slog.DiscardHandler)
	one, all := b.Watch("p.contract", log), b.Watch("p.>", log)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	var last uint64
	for i := range 3 {
		revision, err := b.Update(t.Context(), "p.contract", fmt.Append(nil, i), last)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []*KeyWatch{one, all} {
			for {
				k.mu.Lock()
				seen := k.revision
				k.mu.Unlock()
				if seen >= revision {
					break
				}
				if k.Wait(ctx, revision-1); ctx.Err() != nil {
					t.Fatal("a change is not reported")
				}
			}
		}
		last = revision
	}
	if err := b.Delete(t.Context(), "p.contract", last); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the delete is not reported", one.IsDeleted)
	one.Stop()
	all.Stop()
}

// TestEnsure: what the servers do not find yet after a create is requested again, and a bucket that cannot be created
// is an error.
func TestEnsure(t *testing.T) {
	t.Parallel()
	opens := 0
	open := func(context.Context) (int, error) {
		if opens++; opens < 4 {
			return 0, jetstream.ErrBucketNotFound
		}
		return opens, nil
	}
	got, err := Ensure(t.Context(), open, func(context.Context) error { return jetstream.ErrStreamNameAlreadyInUse })
	if got != 4 || err != nil {
		t.Errorf("opened %d times, %v", got, err)
	}
	no := errors.New("no")
	opens = 0
	if _, err := Ensure(t.Context(), open, func(context.Context) error { return no }); !errors.Is(err, no) || opens != 1 {
		t.Errorf("opened %d times, %v", opens, err)
	}
	opens = -1000
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = Ensure(ctx, open, func(context.Context) error { return nil })
	if !errors.Is(err, jetstream.ErrBucketNotFound) || !errors.Is(err, ErrNotKnownYet) {
		t.Errorf("what is never there: %v", err)
	}
}
