package natsx

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
)

// jetStreamOf is JetStream of another connection to a server.
func jetStreamOf(s *natstest.Server) jetstream.JetStream {
	s.Helper()
	js, err := jetstream.New(s.Connect(), jetstream.WithDefaultTimeout(natstest.Timeout))
	if err != nil {
		s.Fatal(err)
	}
	return js
}

func newBucket(t *testing.T, js jetstream.JetStream) *Bucket {
	t.Helper()
	b, err := EnsureBucket(t.Context(), js, jetstream.KeyValueConfig{Bucket: "STATE"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestModifyUnanswered: a write that gets no reply is repeated after a quarter of HedgeWait. If a server stores it
// later, and rejects the repeated ones until then, the change succeeds.
func TestModifyUnanswered(t *testing.T) {
	for name, delay := range map[string]time.Duration{"lost": 0, "stored late": HedgeWait/4 + 5*time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began, writes := time.Now(), 0
			var stored []byte
			read := func(context.Context) ([]byte, uint64, error) {
				if delay > 0 && time.Since(began) >= delay {
					stored = []byte("x")
				}
				return stored, uint64(len(stored)), nil
			}
			write := func(ctx context.Context, value []byte, _ uint64) (uint64, error) {
				switch writes++; {
				case writes == 1:
					<-ctx.Done()
					return 0, ctx.Err()
				case delay > 0:
					return 0, ErrConflict
				}
				stored = value
				return 1, nil
			}
			value, _, err := Modify(t.Context(), read, write, func([]byte, uint64) ([]byte, error) { return []byte("x"), nil })
			if string(value) != "x" || err != nil {
				t.Errorf("%s: %q, %v", name, value, err)
			}
			if took := time.Since(began); took > max(delay, HedgeWait/4)+time.Second {
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
}

// TestModify: of 100 concurrent changes by two clients all survive, and a change returns what was stored first.
func TestModify(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	var wg sync.WaitGroup
	buckets := []*Bucket{newBucket(t, jetStreamOf(s)), newBucket(t, jetStreamOf(s))}
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
		stored, err := b.Modify(t.Context(), "p.first", func(old []byte) ([]byte, error) {
			if old != nil {
				return old, nil
			}
			return []byte{'a' + byte(i)}, nil
		})
		if string(stored) != "a" || err != nil {
			t.Errorf("create %d: %s is stored, %v", i, stored, err)
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
	if err := buckets[1].Put(t.Context(), "p.first", []byte("b")); err != nil {
		t.Errorf("a create after a delete: %v", err)
	}
}

// TestDeletedBucket: a bucket that was deleted is created again, not before the server has deleted its files.
func TestDeletedBucket(t *testing.T) {
	t.Parallel()
	js := natstest.New(t).JS
	b := newBucket(t, js)
	if err := b.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteKeyValue(t.Context(), "STATE"); err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	short, cancel := context.WithTimeout(t.Context(), RecreateDelay/4)
	defer cancel()
	if _, _, err := b.Get(short, "k"); err == nil {
		t.Error("it is created again at once")
	}
	if value, _, err := b.Get(t.Context(), "k"); value != nil || err != nil {
		t.Errorf("after the delete: %q, %v", value, err)
	}
	if took := time.Since(deleted); !(took >= RecreateDelay) {
		t.Errorf("it is created again after %v", took)
	}
	if err := b.Put(t.Context(), "k", []byte("w")); err != nil {
		t.Errorf("after the delete: %v", err)
	}
}

// TestAnnouncedWhenReadBack: a write whose confirmation was lost is announced, once, when it is read back.
func TestAnnouncedWhenReadBack(t *testing.T) {
	t.Parallel()
	b := newBucket(t, natstest.New(t).JS)
	b.AnnounceChanges()
	changes := make(chan Change, 100)
	defer b.Watch("p.key", func(c Change) { changes <- c }).Stop()
	lost, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Update(lost, "p.key", []byte("v"), 0); err == nil {
		t.Fatal("the write is confirmed")
	}
	if _, _, err := b.Get(t.Context(), "p.key"); err != nil { // not stored yet
		t.Fatal(err)
	}
	first, err := b.Renew(t.Context(), "p.key", []byte("v"), 0) // now the server stores it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Update(t.Context(), "p.key", []byte("v"), 0); !errors.Is(err, ErrConflict) {
		t.Fatalf("a repeated write: %v", err)
	}
	for range 2 {
		if _, _, err := b.Get(t.Context(), "p.key"); err != nil {
			t.Fatal(err)
		}
	}
	second, err := b.Update(t.Context(), "p.key", []byte("w"), first)
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range []uint64{first, second} {
		select {
		case c := <-changes:
			if c != (Change{"p.key", revision}) {
				t.Errorf("announced is %+v, want revision %d", c, revision)
			}
		case <-time.After(natstest.Timeout):
			t.Fatalf("revision %d is not announced", revision)
		}
	}
}

// TestFollow: keys are read at once, when a change was announced or not, and again after an error, during which the
// others are followed.
func TestFollow(t *testing.T) {
	t.Parallel()
	b := newBucket(t, natstest.New(t).JS)
	ctx := t.Context()
	read, isBroken := make(chan uint64, 1000), atomic.Bool{}
	isBroken.Store(true)
	follow := func(key string) FollowedKey {
		return FollowedKey{Key: key, Read: func(ctx context.Context) (uint64, error) {
			if key == "p.second" && isBroken.Load() {
				return 0, errors.New("broken")
			}
			_, revision, err := b.Get(ctx, key)
			read <- revision
			return revision, err
		}}
	}
	defer b.Follow(ctx, "p", []FollowedKey{follow("p.first"), follow("p.second")})()
	await := func(revision uint64) {
		t.Helper()
		for end := time.After(natstest.Timeout); ; {
			select {
			case got := <-read:
				if got == revision {
					return
				}
			case <-end:
				t.Fatalf("revision %d is not read", revision)
			}
		}
	}
	await(0)
	store := func(key string) uint64 {
		t.Helper()
		_, revision, _ := b.Get(ctx, key)
		revision, err := b.Update(ctx, key, []byte("v"), revision)
		if err != nil {
			t.Fatal(err)
		}
		return revision
	}
	b.AnnounceChanges()
	for range 3 {
		await(store("p.first"))
	}
	second := store("p.second")
	isBroken.Store(false)
	await(second)
	b.announces.Store(false)
	await(store("p.first"))
}

// TestFollowPolls: a change that was not announced is read while another key cannot be read, or is announced again and
// again.
func TestFollowPolls(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"broken": errors.New("broken"), "announced": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t, natstest.New(t).JS)
			ctx := t.Context()
			var read atomic.Uint64
			defer b.Follow(ctx, "p", []FollowedKey{{Key: "p.first", Read: func(ctx context.Context) (uint64, error) {
				_, revision, err := b.Get(ctx, "p.first")
				read.Store(revision)
				return revision, err
			}}, {Key: "p.second", Read: func(context.Context) (uint64, error) { return 1, err }}})()
			for revision := range uint64(2) { // the first poll reads all keys in any case
				if _, err := b.Update(ctx, "p.first", []byte("v"), revision); err != nil {
					t.Fatal(err)
				}
				natstest.Await(t, "the change is read", func() bool {
					if err == nil {
						b.Touch("p.second")
					}
					return read.Load() == revision+1
				})
			}
		})
	}
}

// TestFollowRecreatedBucket: a key is read again after its bucket was deleted and recreated between two polls, with as
// many writes as before.
func TestFollowRecreatedBucket(t *testing.T) {
	t.Parallel()
	js := natstest.New(t).JS
	create := func(value string) *Bucket {
		t.Helper()
		b, err := EnsureBucket(t.Context(), js, jetstream.KeyValueConfig{Bucket: "STATE",
			Storage: jetstream.MemoryStorage}, 1) // without the files of the deleted one
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Update(t.Context(), "p.first", []byte(value), 0); err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := create("before")
	var reads atomic.Int64
	var read atomic.Value
	defer b.Follow(t.Context(), "p", []FollowedKey{{Key: "p.first", Read: func(ctx context.Context) (uint64, error) {
		value, revision, err := b.Get(ctx, "p.first")
		read.Store(string(value))
		reads.Add(1)
		return revision, err
	}}})()
	natstest.Await(t, "the bucket is polled", func() bool { return reads.Load() > 1 })
	if err := js.DeleteKeyValue(t.Context(), "STATE"); err != nil {
		t.Fatal(err)
	}
	create("after")
	natstest.Await(t, "the key is read again", func() bool { return read.Load() == "after" })
}

// TestFollowMissing: keys of a source that does not exist are read at each poll, since a read may create it, and are
// not reported as unchanged.
func TestFollowMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		stop := FollowKeys(t.Context(), KeySource{
			State: func(context.Context) (KeySourceState, time.Time, error) { return KeySourceState{}, time.Now(), nil },
			Watch: func(func(Change)) (stop func()) { return func() {} },
			Poll:  func() time.Duration { return time.Second },
		}, []FollowedKey{{Key: "p.k", Read: func(context.Context) (uint64, error) {
			reads.Add(1)
			return 0, nil
		}, Unchanged: func(time.Time) { t.Error("the key of a missing source is reported as unchanged") }}})
		defer stop()
		time.Sleep(3500 * time.Millisecond)
		if n := reads.Load(); n != 4 {
			t.Errorf("the key was read %d times in three polls, want 4", n)
		}
	})
}

// TestFollowEnds: the end of the context ends the watch, and the stop function may be called more than once.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	b := newBucket(t, natstest.New(t).JS)
	ctx, cancel := context.WithCancel(t.Context())
	stop := b.Follow(ctx, "p", nil)
	cancel()
	natstest.Await(t, "the watch ends", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.watches) == 0
	})
	stop()
	stop()
}

// TestWatch: changes of a key and of a prefix are reported when they are announced, also after reconnects.
// No watch needs a consumer, and none hears of another pipeline or of renewals.
func TestWatch(t *testing.T) {
	t.Parallel()
	b := newBucket(t, natstest.New(t).JS)
	var changes [3]chan Change
	var watches []*KeyWatch
	for i, pattern := range []string{"p.contract", "p.", "q.contract"} {
		changes[i] = make(chan Change, 100)
		watches = append(watches, b.Watch(pattern, func(change Change) { changes[i] <- change }))
	}
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Timeout)
	defer cancel()
	silent, err := b.Update(ctx, "p.contract", []byte("v"), 0)
	if err != nil {
		t.Fatal(err)
	}
	b.AnnounceChanges()
	last := silent
	for i := range 3 {
		revision, err := b.Update(ctx, "p.contract", fmt.Append(nil, i), last)
		if err != nil {
			t.Fatal(err)
		}
		for _, changed := range changes[:2] {
			if c := <-changed; c != (Change{"p.contract", revision}) {
				t.Errorf("announced is %+v", c)
			}
		}
		last = revision
	}
	if last, err = b.Renew(ctx, "p.contract", []byte("renewed"), last); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(ctx, "p.contract", last); err != nil {
		t.Fatal(err)
	}
	for _, changed := range changes[:2] {
		if c := <-changed; c != (Change{"p.contract", last + 1}) {
			t.Errorf("announced is %+v", c)
		}
	}
	for _, text := range []string{"", "p.contract", "p.contract x", "p.contract -1"} {
		if err := b.js.Conn().Publish(ChangedSubject("p", b.Name()), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.js.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	for _, changed := range changes {
		select {
		case c := <-changed:
			if c != (Change{Revision: math.MaxUint64}) {
				t.Errorf("after a reconnect: %+v", c)
			}
		case <-ctx.Done():
			t.Error("a watch is not notified of a reconnect")
		}
	}
	info, err := b.js.Stream(ctx, b.stream())
	if err != nil || info.CachedInfo().State.Consumers != 0 || ctx.Err() != nil {
		t.Errorf("%d consumers, %v", info.CachedInfo().State.Consumers, err)
	}
	for _, k := range watches {
		k.Stop()
	}
	if len(b.watches) != 0 {
		t.Errorf("%d pipelines are still watched", len(b.watches))
	}
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

// TestFollowersHaveNoGoroutines: following the keys of many pipelines takes no goroutine for each.
func TestFollowersHaveNoGoroutines(t *testing.T) {
	const pipelines = 50
	b := newBucket(t, natstest.New(t).JS)
	before := runtime.NumGoroutine()
	for i := range pipelines {
		read := make(chan bool, 1)
		defer b.Follow(t.Context(), fmt.Sprint("p", i), []FollowedKey{{Key: fmt.Sprintf("p%d.k", i),
			Read: func(context.Context) (uint64, error) {
				select {
				case read <- true:
				default:
				}
				return 1, nil
			}}})()
		<-read
	}
	natstest.Await(t, "the readings end", func() bool { return runtime.NumGoroutine() < before+pipelines/5 })
}
