package lease

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestGroup: members that renew their leases stay, and one that stopped without releasing its own is removed by the
// coordinator, which is called for it and can free what it held. It has not announced itself, as members of earlier
// versions. When the coordinator leaves, another one continues. Junk is no member,
// whether it is stored or announced, and no consumer is needed.
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
	bucket.AnnounceChanges()
	if err := bucket.keys.Put(t.Context(), "g.member.junk", []byte("junk")); err != nil {
		t.Fatal(err)
	}
	for key, holder := range map[string]string{"g.member.stopped": "stopped", "g.work": "stopped", "g.other": "another"} {
		l := bucket.Lease(Options{Key: key, Claim: Claim{Holder: holder}, TTL: MinTTL})
		if err := l.Acquire(t.Context()); err != nil || l.Term() == 0 {
			t.Fatalf("%s: %v, term %d", key, err, l.Term())
		}
	}
	var mu sync.Mutex
	known, calls := map[string][]string{}, []string{}
	join := func(name string) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		g := Group{Bucket: bucket, Name: "g", Own: Claim{Holder: name}, TTL: MinTTL, Logger: slog.New(slog.DiscardHandler)}
		g.Changed = func(members []string) {
			mu.Lock()
			defer mu.Unlock()
			known[name] = members
		}
		g.Stopped = func(ctx context.Context, member string) {
			for _, key := range []string{"g.work", "g.other"} {
				if err := bucket.Free(ctx, key, member, MinTTL); err != nil {
					t.Error(err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, member)
		}
		var wg sync.WaitGroup
		wg.Go(func() { g.Run(ctx) })
		return func() {
			cancel()
			wg.Wait()
		}
	}
	await := func(want []string, of ...string) {
		t.Helper()
		for end := time.Now().Add(ample); ; time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			isRight := true
			for _, name := range of {
				isRight = isRight && slices.Equal(known[name], want)
			}
			text := fmt.Sprint(known)
			mu.Unlock()
			if isRight {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the members are %v, want %v", text, want)
			}
		}
	}
	leaveA := join("a")
	await([]string{"a", "stopped"}, "a")
	junk := "g.member." + strings.Repeat("x", 1<<20-20) // a request for it is too large for the server
	if err := nc.Publish("embedd.g.changed."+BucketName, []byte(junk+" 5")); err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
	leaveB := join("b")
	defer leaveB()
	await([]string{"a", "b", "stopped"}, "b")
	await([]string{"a", "b"}, "a", "b")
	if !slices.Equal(calls, []string{"stopped"}) {
		t.Errorf("called for %v", calls)
	}
	for key, want := range map[string]bool{"g.member.stopped": false, "g.work": false, "g.other": true} {
		if revision, err := bucket.Revision(t.Context(), key, MinTTL); (revision != 0) != want || err != nil {
			t.Errorf("%s is at revision %d, %v", key, revision, err)
		}
	}
	leaveA()
	await([]string{"b"}, "b")
	info, err := js.Stream(t.Context(), Stream)
	if err != nil || info.CachedInfo().State.Consumers != 0 {
		t.Errorf("%d consumers of the leases, %v", info.CachedInfo().State.Consumers, err)
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
