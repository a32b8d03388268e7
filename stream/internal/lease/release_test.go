package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
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

// TestReleasedDuringRequest: a replica that ends while it acquires or renews the lease leaves none behind for which the
// next would have to wait, whether or not the server had applied the request by then.
func TestReleasedDuringRequest(t *testing.T) {
	bucket, _ := open(t)
	random := rand.New(rand.NewPCG(1, 2))
	left := 0
	for i := range 300 {
		l := bucket.Lease(Options{Key: "q", Claim: Claim{Holder: nats.NewInbox()}, TTL: time.Minute})
		if i%2 == 0 { // then it is a renewal that is cut
			if err := l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(600))*time.Microsecond)
		_ = l.Acquire(ctx)
		cancel()
		l.release(t.Context()) // without ReleaseTimeout, which a busy machine may exceed
		revision, err := bucket.revision(t.Context(), "q", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if revision != 0 {
			left++
			if err := bucket.keys.Delete(t.Context(), "q", revision); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left > 0 {
		t.Errorf("%d of 300 replicas left the lease behind", left)
	}
	if session, err := bucket.read(t.Context(), "process.0", time.Minute); session.claim != nil || session.revision == 0 {
		t.Errorf("a session is left behind: %+v, %v", session.claim, err)
	}
}

// TestLoadsWholeValues: a value that cannot be decoded changes nothing, also no part of it that could be.
func TestLoadsWholeValues(t *testing.T) {
	bucket, _ := open(t)
	type pair struct{ A, B int }
	for text, want := range map[string]pair{`{"A":3,"B":4}`: {3, 4}, `{"A":3}`: {3, 0}, `{"A":3,"B":"x"}`: {1, 2}} {
		if err := bucket.keys.Put(t.Context(), "q", []byte(text)); err != nil {
			t.Fatal(err)
		}
		got := pair{1, 2}
		if err := Load(t.Context(), bucket, "q", &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// leaseOf is a lease on a separate server.
func leaseOf(t *testing.T) *Lease {
	t.Helper()
	bucket, _ := open(t)
	return bucket.Lease(Options{Key: "q", Claim: Claim{Holder: nats.NewInbox()}, TTL: DefaultTTL})
}

// TestRenewedLate: a lease that is renewed after it has expired by our clock, and before the server expired it, is
// reported again: a caller that looked in between saw that it was not held, and stopped.
func TestRenewedLate(t *testing.T) {
	l := leaseOf(t)
	ctx, cancel := context.WithCancel(t.Context())
	terms, ended := make(chan uint64, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx, func(context.Context, uint64) { terms <- l.Term() })
	}()
	defer func() {
		cancel()
		<-ended
	}()
	held := func(after uint64) uint64 {
		t.Helper()
		for late := time.After(3 * time.Minute); ; {
			select {
			case term := <-terms:
				if term > after {
					return term
				}
			case <-late:
				t.Fatal("it is not reported that the lease is held")
			}
		}
	}
	term := held(0)
	session := l.shared.current.Load().lease
	session.mu.Lock()
	session.state.expires = session.now() - time.Millisecond // as after a pause of the process
	session.mu.Unlock()
	held(term)
}

// TestReconnectedReadsAgain: a replica that waits reads the lease after a reconnect, since announcements may be lost.
func TestReconnectedReadsAgain(t *testing.T) {
	t.Parallel()
	bucket, js := open(t)
	bucket.keys = bucket.silent // announces nothing
	holder := bucket.Lease(Options{Key: "p", Claim: Claim{Holder: "holder"}, TTL: MaxTTL})
	if err := holder.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting := bucket.Lease(Options{Key: "p", Claim: Claim{Holder: "waiting"}, TTL: MaxTTL})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if err := waiting.Acquire(t.Context()); err != nil || waiting.Status().Holder.Holder != "holder" {
		t.Fatal(err, waiting.Status())
	}
	runs := make(chan struct{}, 2)
	wg.Go(func() { waiting.Run(ctx, func(context.Context, uint64) { runs <- struct{}{} }) })
	<-runs
	holder.Release(t.Context())
	if err := js.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the waiting replica has the lease", func() bool { return waiting.Term() != 0 })
}

// TestStartedAgainReadsAtOnce: a replica that has released a lease reads it as soon as it is started again.
func TestStartedAgainReadsAtOnce(t *testing.T) {
	t.Parallel()
	bucket, _ := open(t)
	l := bucket.Lease(Options{Key: "p", Claim: Claim{Holder: "a"}, TTL: MaxTTL})
	if err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Release(t.Context())
	defer l.Start(t.Context(), func(context.Context, uint64) {})()
	natstest.Await(t, "it has the lease", func() bool { return l.Term() != 0 })
}

// TestFloodOfAnnouncements: any client can announce changes. However many come, a replica that waits reads the lease a
// few times a second, and so do members of a group, which read announced assignments at once.
func TestFloodOfAnnouncements(t *testing.T) {
	t.Parallel()
	t.Run("lease", func(t *testing.T) { testFlood(t, nil) })
	t.Run("assignment", func(t *testing.T) {
		s := &session{lease: &Lease{options: Options{Key: "p." + sessionKeys + "0"}}, hints: newHints()}
		testFlood(t, s.hintDelay)
	})
}

func testFlood(t *testing.T, delay func() time.Duration) {
	t.Parallel()
	bucket, js := open(t)
	holder := bucket.renewed(Options{Key: "p", Claim: Claim{Holder: "holder"}, TTL: MaxTTL})
	waiting := bucket.renewed(Options{Key: "p", Claim: Claim{Holder: "waiting"}, TTL: MaxTTL, HintDelay: delay})
	for _, l := range []*Lease{holder, waiting} {
		if err := l.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var requests atomic.Int64
	if _, err := js.Conn().Subscribe("$JS.API.>", func(*nats.Msg) { requests.Add(1) }); err != nil {
		t.Fatal(err)
	}
	defer waiting.Start(t.Context(), func(context.Context, uint64) {})()
	text := []byte("p " + strconv.FormatUint(math.MaxUint64, 10))
	begin := time.Now()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if err := js.Conn().Publish(natsx.ChangedSubject("p", BucketName), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := js.Conn().FlushTimeout(ample); err != nil {
		t.Fatal(err)
	}
	if n, took := requests.Load(), time.Since(begin); float64(n) > 30*took.Seconds() {
		t.Errorf("%d requests in %v", n, took)
	}
	natstest.Await(t, "the lease is read", func() bool { return requests.Load() > 0 })
}

// TestPatienceEnds: a replica that yields to another one reads the lease once a TTL, and more often at once when it
// yields no more.
func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	bucket, _ := open(t)
	var yields atomic.Bool
	yields.Store(true)
	holder := bucket.Lease(Options{Key: "p", Claim: Claim{Holder: "holder"}, TTL: MaxTTL})
	waiting := bucket.Lease(Options{Key: "p", Claim: Claim{Holder: "waiting"}, TTL: MaxTTL, ShouldYield: yields.Load})
	for _, l := range []*Lease{holder, waiting} {
		if err := l.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if pause := waiting.pause(waiting.now()); pause < MaxTTL/2 {
		t.Errorf("it is read again after %v", pause)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { waiting.Run(ctx, func(context.Context, uint64) {}) })
	yields.Store(false)
	waiting.Recheck()
	natstest.Await(t, "it is read more often", func() bool { return waiting.pause(waiting.now()) <= MaxTTL/4 })
}

// TestExpiresBetweenReadings: a lease that has expired soon after it was read is taken at once. The last reading of the
// session, which is young enough to be shared, does not show that yet.
func TestExpiresBetweenReadings(t *testing.T) {
	t.Parallel()
	bucket, js := open(t)
	other, err := Open(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	hold(t, other.Lease(Options{Key: "p", Claim: Claim{Holder: "holder"}, TTL: MaxTTL}))
	waiting := bucket.Lease(Options{Key: "p", Claim: Claim{Holder: "waiting"}, TTL: MaxTTL})
	if err := waiting.Acquire(t.Context()); err != nil || waiting.Term() != 0 {
		t.Fatalf("term %d, %v", waiting.Term(), err)
	}
	o := &waiting.state.observed
	o.since = o.last - expiry(MaxTTL) + time.Millisecond
	time.Sleep(2 * time.Millisecond)
	if err := waiting.Acquire(t.Context()); err != nil || waiting.Term() == 0 {
		t.Errorf("the lease has expired, and is not acquired: %v", err)
	}
}

// TestLoserKnowsTheHolder: when two replicas acquire a lease concurrently, both know the holder afterwards.
func TestLoserKnowsTheHolder(t *testing.T) {
	t.Parallel()
	bucket, _ := open(t)
	for i := range 50 {
		var wg sync.WaitGroup
		var holders [2]string
		for n := range holders {
			l := bucket.Lease(Options{Key: fmt.Sprint("p", i), Claim: Claim{Holder: fmt.Sprint(n)}, TTL: MaxTTL})
			wg.Go(func() {
				acquire(t, l)
				holders[n] = l.Status().Holder.Holder
			})
		}
		wg.Wait()
		if holders[0] != holders[1] || holders[0] == "" {
			t.Fatalf("lease %d: the holders are %q", i, holders)
		}
	}
}

// TestExpiredSession: where the session of a process expires before a lease can name it, on a busy machine, the error
// is one that passes, so that an engine which starts tries again.
func TestExpiredSession(t *testing.T) {
	t.Parallel()
	bucket, _ := open(t)
	leaseOf := func(key string) *Lease {
		return bucket.Lease(Options{Key: key, Claim: Claim{Holder: key}, TTL: MaxTTL})
	}
	l := leaseOf("p")
	hold(t, l)
	session := l.shared.current.Load().lease
	session.state.expires = session.now() - time.Millisecond
	other := leaseOf("q")
	if err := other.Acquire(t.Context()); !errors.Is(err, errNoSession) || other.Term() != 0 ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with an expired session: term %d, %v", other.Term(), err)
	}
}

// TestRenewedWhileItEnds: a holder that is asked to end while it finishes its work keeps the lease until then.
func TestRenewedWhileItEnds(t *testing.T) {
	t.Parallel()
	l := leaseOf(t)
	revision := func() uint64 { // of its session
		if _, session := l.shared.session(); session == 0 {
			return 0
		}
		return l.shared.current.Load().lease.snapshot().revision
	}
	hold(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	renewed, own := false, l.snapshot().revision
	l.Run(ctx, func(context.Context, uint64) {
		cancel()
		before := revision()
		for end := time.Now().Add(3 * time.Minute); !renewed && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			now := revision() // 0: the session has expired
			renewed = now != 0 && now != before
		}
	})
	if !renewed {
		t.Error("the lease is not renewed while its holder ends")
	}
	if l.snapshot().revision != own {
		t.Error("the lease is renewed, not only its session")
	}
}

// conflicting refuses deletes as a cluster does while another write of the key is on its way.
type conflicting struct {
	jetstream.JetStream
	left int
}

func (c *conflicting) PublishMsg(ctx context.Context, msg *nats.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck,
	error) {
	if msg.Header.Get("KV-Operation") != "" && c.left > 0 {
		c.left--
		return nil, &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}
	}
	return c.JetStream.PublishMsg(ctx, msg, o...)
}

// TestReleaseAfterConflicts: a release is repeated while the key is still this replica's.
func TestReleaseAfterConflicts(t *testing.T) {
	t.Parallel()
	_, js := open(t)
	b := &Bucket{keys: natsx.NewBucket(&conflicting{js, 3}, BucketName)}
	l := b.renewed(Options{Key: "q", Claim: Claim{Holder: "a"}, TTL: MaxTTL})
	hold(t, l)
	l.release(t.Context()) // without ReleaseTimeout, which a busy machine may exceed
	if e, err := b.read(t.Context(), "q", MaxTTL); err != nil || e.claim != nil {
		t.Errorf("%v is stored after the release, %v", e.claim, err)
	}
}

// TestSessionKeyIsReused: a lease is not free because the key of its holder's session was read, for another lease,
// after a former process had deleted it and before this one stored it.
func TestSessionKeyIsReused(t *testing.T) {
	t.Parallel()
	js := natstest.New(t).JS
	process := func(key string) *Lease {
		t.Helper()
		b, err := Open(t.Context(), js, 1)
		if err != nil {
			t.Fatal(err)
		}
		return b.Lease(Options{Key: key, Claim: Claim{Holder: nats.NewInbox()}, TTL: MaxTTL})
	}
	former := process("p")
	acquire(t, former)
	waits := process("p")
	former.shared.leave(t.Context()) // the session ends, and the lease names it
	if revision, err := waits.bucket.revision(t.Context(), "p", MaxTTL); revision != 0 || err != nil {
		t.Fatalf("a lease of a session that is over has revision %d, %v", revision, err)
	}
	holder := process("q")
	acquire(t, holder)
	other := waits.bucket.Lease(Options{Key: "q", Claim: Claim{Holder: nats.NewInbox()}, TTL: MaxTTL})
	acquire(t, other)
	if isHolder, err := holder.IsHolder(t.Context()); !isHolder || other.Term() != 0 || err != nil {
		t.Errorf("another process took a lease from its holder, whose session is %s; %v",
			holder.options.Claim.Session.Key, err)
	}
}

// TestEndedSessionIsNotAnnounced: a replica that deletes the session of a holder announces it nowhere: no replica waits
// for sessions, and no user may publish on such a subject.
func TestEndedSessionIsNotAnnounced(t *testing.T) {
	t.Parallel()
	here := strings.Fields(processID())
	if len(here) != 4 {
		t.Skip("the death of a process is detected on Linux alone")
	}
	here[2] = strconv.Itoa(math.MaxInt32) // no process has this PID
	bucket, js := open(t)
	dead := bucket.Lease(Options{Key: "p", Claim: Claim{Holder: "dead", Process: strings.Join(here, " ")}, TTL: MaxTTL})
	hold(t, dead)
	other, err := Open(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	announced, err := js.Conn().SubscribeSync(natsx.ChangedSubject("process", BucketName))
	if err != nil {
		t.Fatal(err)
	}
	hold(t, other.Lease(Options{Key: "p", Claim: NewClaim("b", nil), TTL: MaxTTL}))
	if err := js.Conn().FlushTimeout(ample); err != nil {
		t.Fatal(err)
	}
	if n, _, err := announced.Pending(); n > 0 || err != nil {
		t.Errorf("%d announcements of sessions, %v", n, err)
	}
}

// refusing fails writes to one subject.
type refusing struct {
	jetstream.JetStream
	subject string
}

func (r *refusing) PublishMsg(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if m.Subject == r.subject {
		return nil, nats.ErrTimeout
	}
	return r.JetStream.PublishMsg(ctx, m, o...)
}

// TestFailedRenewal: a session whose renewal has failed is renewed again sooner than one that was renewed.
func TestFailedRenewal(t *testing.T) {
	t.Parallel()
	bucket, js := open(t)
	l := bucket.Lease(Options{Key: "q", Claim: Claim{Holder: "a"}, TTL: MaxTTL})
	hold(t, l)
	shared := l.shared
	renew := func() time.Duration {
		session := shared.current.Load().lease
		shared.current.Store(&currentSession{lease: session}) // due
		_ = shared.keep(t.Context())
		return time.Until(shared.current.Load().due)
	}
	if next := renew(); next < MaxTTL/4 {
		t.Errorf("after a renewal the next one is due after %v", next)
	}
	own := shared.current.Load().lease
	own.bucket = &Bucket{keys: natsx.NewBucket(&refusing{js, "$KV." + BucketName + "." + own.options.Key}, BucketName)}
	if next := renew(); next > MaxTTL/6 {
		t.Errorf("after one that failed the next one is due after %v", next)
	}
}

// TestUnreleased: a lease that could not be released expires, also where the process continues to hold other leases.
func TestUnreleased(t *testing.T) {
	t.Parallel()
	bucket, js := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	run := func(l *Lease) {
		wg.Go(func() { l.Run(ctx, func(context.Context, uint64) {}) })
		natstest.Await(t, "the lease is held", func() bool { return l.Term() != 0 })
	}
	other := bucket.Lease(Options{Key: "other", Claim: Claim{Holder: "a"}, TTL: DefaultTTL})
	run(other)
	first := bucket.Lease(Options{Key: "q", Claim: Claim{Holder: "a"}, TTL: DefaultTTL})
	hold(t, first)
	first.bucket = &Bucket{keys: natsx.NewBucket(&refusing{js, "$KV." + BucketName + ".q"}, BucketName)}
	first.Release(t.Context())
	second, err := Open(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	run(second.Lease(Options{Key: "q", Claim: Claim{Holder: "b"}, TTL: DefaultTTL}))
	natstest.Await(t, "the other lease is held under the next session", func() bool { return other.Term() != 0 })
}

// revision reads at the leader which revision a lease with a TTL has, or the session of its holder; 0 if it is free. It
// changes with each renewal.
func (b *Bucket) revision(ctx context.Context, key string, ttl time.Duration) (uint64, error) {
	r := reading{}
	var err error
	if r.entry, err = b.read(ctx, key, ttl); r.claim != nil && r.claim.Session != nil {
		_, err = b.sessionOf(ttl).addSession(ctx, &r, time.Now(), time.Time{})
	}
	if r.claim == nil || err != nil {
		return 0, err
	}
	return r.newest(), nil
}
