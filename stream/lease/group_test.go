package lease

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestGroup: members that renew their leases stay, and one that stopped without releasing its own is removed by all
// others, one of which is called for it and can free what it held. Junk is no member.
func TestGroup(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(serve(t), nats.Timeout(ample))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ample))
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := Open(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.keys.Put(t.Context(), "g.junk", []byte("junk")); err != nil {
		t.Fatal(err)
	}
	acquire := func(key, holder string) *Lease {
		l := bucket.Lease(Options{Key: key, Claim: Claim{Holder: holder}, TTL: MinTTL})
		if err := l.Acquire(t.Context()); err != nil || l.Term() == 0 {
			t.Fatalf("%s: %v, term %d", key, err, l.Term())
		}
		return l
	}
	stopped := acquire("g.stopped", "stopped")
	acquire("work", "stopped")
	acquire("other", "another")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var mu sync.Mutex
	known, calls := map[string][]string{}, []string{}
	for _, name := range []string{"a", "b"} {
		l := acquire("g."+name, name)
		wg.Go(func() { l.Run(ctx, func(context.Context, uint64) {}) })
		g := Group{Bucket: bucket, Name: "g", Own: Claim{Holder: name}, TTL: MinTTL, Logger: slog.New(slog.DiscardHandler)}
		g.Changed = func(members []string) {
			mu.Lock()
			defer mu.Unlock()
			known[name] = members
		}
		g.Stopped = func(ctx context.Context, member string) {
			for _, key := range []string{"work", "other"} {
				if err := bucket.Free(ctx, key, member, MinTTL); err != nil {
					t.Error(err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, member)
		}
		wg.Go(func() { g.Watch(ctx) })
	}
	both := func(want ...string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(known["a"], want) && slices.Equal(known["b"], want)
	}
	for end := time.Now().Add(ample); !both("a", "b", "stopped"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the members are %v", known)
		}
	}
	for end := time.Now().Add(ample); !both("a", "b"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the members are %v", known)
		}
	}
	if stopped.Term() != 0 {
		t.Error("a member was removed while it held its lease")
	}
	time.Sleep(2 * MinTTL) // the others stay
	if !both("a", "b") || !slices.Equal(calls, []string{"stopped"}) {
		t.Errorf("the members are %v; called for %v", known, calls)
	}
	for key, want := range map[string]bool{"g.stopped": false, "work": false, "other": true} {
		if revision, err := bucket.Revision(t.Context(), key, MinTTL); (revision != 0) != want || err != nil {
			t.Errorf("%s is at revision %d, %v", key, revision, err)
		}
	}
}

// TestDeletedBucket: a bucket that was deleted is created again, and a replica acquires its lease again.
func TestDeletedBucket(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(serve(t), nats.Timeout(ample))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ample))
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := Open(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := bucket.Lease(Options{Key: "q", Claim: Claim{Holder: "a"}, TTL: MinTTL})
	if err := l.Acquire(t.Context()); err != nil || l.Term() == 0 {
		t.Fatalf("%v, term %d", err, l.Term())
	}
	if err := js.DeleteStream(t.Context(), Stream); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { l.Run(ctx, func(context.Context, uint64) {}) })
	for end := time.Now().Add(ample); ; time.Sleep(5 * time.Millisecond) {
		if revision, err := bucket.Revision(t.Context(), "q", MinTTL); err == nil && revision != 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the lease is not acquired again")
		}
	}
}
