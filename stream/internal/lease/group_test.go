package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
)

// open opens the leases on a separate server.
func open(t *testing.T) (*Bucket, jetstream.JetStream) {
	t.Helper()
	js := natstest.New(t).JS
	bucket, err := Open(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	return bucket, js
}

// acquire acquires a lease, again while the server of a busy machine answers too late.
func acquire(t *testing.T, l *Lease) {
	t.Helper()
	var err error
	for end := time.Now().Add(ample); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = l.Acquire(t.Context()); err == nil || !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// hold is acquire, until the lease is held.
func hold(t *testing.T, l *Lease) {
	t.Helper()
	natstest.Await(t, "the lease is held", func() bool {
		acquire(t, l)
		return l.Term() != 0 || t.Failed()
	})
}

// assigned is the assignment that is stored.
func assigned(t *testing.T, b *Bucket) (a Assignment) {
	t.Helper()
	natstest.Await(t, "an assignment is read", func() bool {
		e, err := b.read(t.Context(), "g.assignment", time.Minute)
		if err == nil && e.assignment != nil {
			a = *e.assignment
		}
		return err == nil
	})
	return a
}

// TestGroup: members share the parts, a member that stopped without releasing its key is forgotten, and what a
// member that leaves had, others continue; the coordinator assigns it to them before it leaves. Junk is no member,
// whether it is stored or announced, members that come and go leave no keys behind, and no consumer is needed.
func TestGroup(t *testing.T) {
	t.Parallel()
	bucket, js := open(t)
	if err := bucket.keys.Put(t.Context(), "g.session.0", []byte("junk")); err != nil {
		t.Fatal(err)
	}
	hold(t, bucket.renewed(Options{Key: "g.session.1", Claim: Claim{Holder: "stopped"}, TTL: MinTTL}))
	var mu sync.Mutex
	owners := map[string][]string{"x": nil, "y": nil}
	isTwice := false
	join := func(name string) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		g := Group{Bucket: bucket, Name: "g", Own: Claim{Holder: name}, TTL: time.Minute, Parts: [][]string{{"x", "y"}},
			Report: func(error) {}, Logger: slog.New(slog.DiscardHandler)}
		g.Work = func(ctx context.Context, part string, session *Lease, term uint64) {
			mu.Lock()
			owners[part] = append(owners[part], name)
			isTwice = isTwice || len(owners[part]) > 1
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			owners[part] = slices.DeleteFunc(owners[part], func(o string) bool { return o == name })
			mu.Unlock()
		}
		var wg sync.WaitGroup
		wg.Go(func() { g.Run(ctx) })
		return func() {
			cancel()
			wg.Wait()
		}
	}
	await := func(want ...string) {
		t.Helper()
		for end := time.Now().Add(ample); ; time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			have := slices.Concat(owners["x"], owners["y"])
			mu.Unlock()
			if slices.Sort(have); slices.Equal(have, want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the parts are owned by %v, want %v", have, want)
			}
		}
	}
	leaveA := join("a")
	await("a", "a")
	junk := "g.session." + strings.Repeat("x", 1<<20-20) // a request for it is too large for the server
	nc := js.Conn()
	if err := nc.Publish("embedd.g.changed."+BucketName, []byte(junk+" 5")); err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
	leaveB := join("b")
	await("a", "b")
	began := time.Now()
	leaveA()
	isInTime := time.Since(began) < ReleaseTimeout // which a busy machine may exceed
	if a := assigned(t, bucket); slices.Contains(a.owners(), "a") && isInTime {
		t.Errorf("the coordinator has left, and its parts are not assigned to others: %v", a.Parts)
	}
	await("b", "b")
	for i := range 3 {
		leave := join(fmt.Sprint("c", i))
		await("b", fmt.Sprint("c", i))
		leave()
	}
	leaveB()
	if isTwice {
		t.Error("two members owned a part at the same time")
	}
	names, err := bucket.keys.Names(t.Context(), "g.")
	if slices.Contains(names, "session.4") || len(names) > 6 || err != nil {
		t.Errorf("the keys are %v, want four sessions at most: %v", names, err)
	}
	info, err := js.Stream(t.Context(), Stream)
	if err != nil || info.CachedInfo().State.Consumers != 0 {
		t.Errorf("%d consumers of the leases, %v", info.CachedInfo().State.Consumers, err)
	}
}

// TestOwnAssignmentIsContinued: a coordinator that finds a claim of its own process, which it had not confirmed or not
// released, continues from the assignment in that.
func TestOwnAssignmentIsContinued(t *testing.T) {
	t.Parallel()
	bucket, _ := open(t)
	options := Options{Key: "g.assignment", Claim: Claim{Holder: "a"}, TTL: MaxTTL}
	earlier := bucket.renewed(options)
	hold(t, earlier)
	earlier.Update(func(c *Claim) bool {
		c.Assignment = &Assignment{Number: 7, Parts: map[string]Part{"x": {Owner: "b"}}}
		return true
	})
	hold(t, earlier)
	l := bucket.renewed(options)
	hold(t, l)
	if a := l.Status().Own.Assignment; a.Number != 7 || a.Parts["x"].Owner != "b" {
		t.Errorf("it continues from assignment %v, want number 7", a)
	}
	e, err := bucket.read(t.Context(), options.Key, options.TTL)
	if err != nil || e.assignment == nil || e.assignment.Number != 7 {
		t.Errorf("%v is stored, %v; want number 7", e.assignment, err)
	}
}

// TestFormerHolder: the holder whose claim had expired when the lease was acquired is no longer reported after a lapse.
func TestFormerHolder(t *testing.T) {
	t.Parallel()
	bucket, _ := open(t)
	options := Options{Key: "g.assignment", Claim: Claim{Holder: "dead"}, TTL: MinTTL}
	acquire(t, bucket.renewed(options))
	options.Claim.Holder, options.TTL = "next", MaxTTL
	l := bucket.renewed(options)
	hold(t, l) // once the claim has expired
	if got := l.Status().Former; got != "dead" {
		t.Errorf("the former holder is %q", got)
	}
	before := l.Term()
	l.mu.Lock()
	l.state.expires = l.now() - time.Millisecond // as after a pause of the process
	l.mu.Unlock()
	hold(t, l)
	if got, term := l.Status().Former, l.Term(); got != "" || term <= before {
		t.Errorf("after the lapse of term %d, with term %d, the former holder is %q", before, term, got)
	}
}

// interrupted calls a function before the first request for a stream.
type interrupted struct {
	jetstream.JetStream
	once sync.Once
	f    func()
}

func (i *interrupted) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	i.once.Do(i.f)
	return i.JetStream.Stream(ctx, name)
}

// TestFormerCoordinator: what a coordinator has found out under an earlier term replaces no assignment: while it
// asked, another process was the coordinator.
func TestFormerCoordinator(t *testing.T) {
	t.Parallel()
	bucket, js := open(t)
	lead := func(l *Lease, number uint64) {
		t.Helper()
		for range 2 { // the second stores what has changed
			if err := l.Acquire(t.Context()); err != nil || l.Term() == 0 {
				t.Errorf("%v, term %d", err, l.Term())
			}
			l.Update(func(c *Claim) bool {
				c.Assignment = &Assignment{Number: number, Parts: map[string]Part{"x": {Owner: "c"}}}
				return true
			})
		}
	}
	options := Options{Key: "g.assignment", Claim: Claim{Holder: "a"}, TTL: time.Minute}
	l := bucket.renewed(options)
	lead(l, 1)
	options.Claim.Holder = "b"
	other := bucket.renewed(options)
	between := &interrupted{JetStream: js, f: func() {
		l.Release(t.Context())
		lead(other, 9)
		other.Release(t.Context())
		if err := l.Acquire(t.Context()); err != nil || l.Term() == 0 {
			t.Errorf("%v, term %d", err, l.Term())
		}
	}}
	g := Group{Bucket: &Bucket{keys: natsx.NewBucket(between, BucketName)}, Name: "g", Own: Claim{Holder: "a"},
		TTL: time.Minute, Parts: [][]string{{"x"}}, Logger: slog.New(slog.DiscardHandler), began: time.Now()}
	g.coordinate(t.Context(), l, l.Term())
	if a := l.Status().Own.Assignment; a.Number != 9 {
		t.Errorf("the assignment is %v, want number 9", a)
	}
}

// TestLeavesWithoutServer: a coordinator that leaves while its session cannot be released does not wait until
// its parts are assigned to others.
func TestLeavesWithoutServer(t *testing.T) {
	t.Parallel()
	_, js := open(t)
	server := &unreachable{JetStream: js}
	ctx, leave := context.WithCancel(t.Context())
	g := Group{Bucket: &Bucket{keys: natsx.NewBucket(server, BucketName)}, Name: "g", Own: Claim{Holder: "a"},
		TTL: time.Minute, Parts: [][]string{{"x"}}, Logger: slog.New(slog.DiscardHandler), Report: func(error) {}}
	var began time.Time
	g.Work = func(ctx context.Context, _ string, _ *Lease, _ uint64) {
		server.isDown.Store(true)
		leave()
		<-ctx.Done()
		began = time.Now()
	}
	g.Run(ctx)
	if waited := time.Since(began); !(waited < ReleaseTimeout) {
		t.Errorf("it has left after %v", waited)
	}
}

// unreachable is a server to which nothing can be published while isDown is set.
type unreachable struct {
	jetstream.JetStream
	isDown atomic.Bool
}

func (u *unreachable) PublishMsg(ctx context.Context, msg *nats.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck,
	error) {
	if u.isDown.Load() {
		return nil, nats.ErrNoResponders
	}
	return u.JetStream.PublishMsg(ctx, msg, o...)
}

// TestDeletedBucket: a bucket that was deleted is created again, and a replica acquires its lease again.
func TestDeletedBucket(t *testing.T) {
	t.Parallel()
	bucket, js := open(t)
	l := bucket.Lease(Options{Key: "q", Claim: Claim{Holder: "a"}, TTL: DefaultTTL})
	hold(t, l)
	if err := js.DeleteStream(t.Context(), Stream); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { l.Run(ctx, func(context.Context, uint64) {}) })
	for end := time.Now().Add(ample); ; time.Sleep(5 * time.Millisecond) {
		if revision, err := bucket.revision(t.Context(), "q", DefaultTTL); err == nil && revision != 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the lease is not acquired again")
		}
	}
}

// TestRefusedLease: a lease that the server does not store, as with a full disk, is logged at WARN, and the next
// attempt is as far away as a renewal, also for the session that the leases of a process share.
func TestRefusedLease(t *testing.T) {
	t.Parallel()
	bucket, js := open(t)
	s, err := js.Stream(t.Context(), Stream)
	if err == nil {
		config := s.CachedInfo().Config
		config.MaxMsgSize = 1
		_, err = js.UpdateStream(t.Context(), config)
	}
	if err != nil {
		t.Fatal(err)
	}
	const ttl = time.Minute // much longer than the requests take on a busy machine
	for name, lease := range map[string]func(Options) *Lease{"renewed": bucket.renewed, "of a session": bucket.Lease} {
		var log strings.Builder
		l := lease(Options{Key: "k", Claim: Claim{Holder: "a"}, TTL: ttl, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if pause := l.attempt(t.Context(), t.Context()); pause <= readInterval(ttl) {
			t.Errorf("%s: the next attempt is in %v", name, pause)
		}
		if text := log.String(); !strings.Contains(text, `level=WARN msg="a lease cannot be stored`) {
			t.Errorf("%s: the log has %q", name, text)
		}
	}
	if next := time.Until(bucket.sessionOf(ttl).current.Load().due); next <= readInterval(ttl) {
		t.Errorf("the next attempt to store the session is in %v", next)
	}
}

// TestObserveWithoutLock: Observe is called without the lock of the lease, of which it may ask the status.
func TestObserveWithoutLock(t *testing.T) {
	t.Parallel()
	bucket, _ := open(t)
	var l *Lease
	var holders []string
	l = bucket.Lease(Options{Key: "k", Claim: Claim{Holder: "a"}, Observe: func() {
		if !l.mu.TryLock() {
			t.Error("the lease is locked")
			return
		}
		l.mu.Unlock()
		holders = append(holders, l.Status().Holder.Holder)
	}})
	hold(t, l)
	if n := len(holders); n == 0 || holders[n-1] != "a" {
		t.Errorf("the holders %q are observed", holders)
	}
}
