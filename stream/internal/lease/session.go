package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/task"
)

// sharedSession is what the leases of a process with one TTL share: its session, which their claims name, and what
// was read of the sessions of others. So neither the renewals of a holder nor the readings of sessions grow with the
// leases. The session has the key process.N with the lowest N that is free, while there is a lease that needs it. It
// has no goroutine: the first lease for which a renewal is due renews it.
type sharedSession struct {
	bucket *Bucket // of the sessions
	ttl    time.Duration
	read   *natsx.Cache[sessionReading]
	lock   chan struct{} // held by the lease that sends requests about the session for all

	current atomic.Pointer[currentSession]
	users   atomic.Int64 // leases that need the session
	// isAbandoned is set if releasing a lease failed. Its claim is valid while this session is renewed, so the next
	// renewal starts a new session, under which the other leases are acquired again.
	isAbandoned atomic.Bool
}

// currentSession is the session of a process, and when its next renewal is due.
type currentSession struct {
	lease *Lease // nil: there is no session
	due   time.Time
}

// ProcessKeys are the keys of sessions of processes.
const ProcessKeys = processKeys + "*"

// processKeys begin the keys of sessions of processes, and those of a pipeline named process, which are no numbers.
const processKeys = "process."

// isValid reports whether a claim may name a session. It is deleted when it expires, so no other key may be named.
func (s *Session) isValid() bool {
	number, isSession := strings.CutPrefix(s.Key, processKeys)
	_, err := strconv.ParseUint(number, 10, 32)
	return isSession && err == nil
}

// sessionReading is a session as it was read, and when that was answered.
type sessionReading struct {
	entry
	at time.Time
}

// errNoSession reports that the session expired before the lease was stored: the server took longer than the TTL. It is
// transient.
var errNoSession = fmt.Errorf("the session of this process expired before it was used: %w", context.DeadlineExceeded)

// sessionOf returns what leases with a TTL share.
func (b *Bucket) sessionOf(ttl time.Duration) *sharedSession {
	s := &sharedSession{bucket: &Bucket{keys: b.silent}, ttl: ttl, read: natsx.NewCache[sessionReading](ttl / 12),
		lock: make(chan struct{}, 1)}
	s.current.Store(&currentSession{})
	stored, _ := b.sessions.LoadOrStore(ttl, s)
	return stored.(*sharedSession)
}

// session returns the session and its current term. A lease that is renewed itself has none.
func (s *sharedSession) session() (*Session, uint64) {
	if s != nil {
		if l := s.current.Load().lease; l != nil {
			return &Session{l.options.Key, l.options.Claim.Holder}, l.Term()
		}
	}
	return nil, 0
}

// keep renews the session if that is due, or acquires one.
func (s *sharedSession) keep(ctx context.Context) error {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	began, l, due := time.Now(), s.current.Load().lease, s.current.Load().due
	if l != nil && began.Before(due) {
		return nil
	}
	if s.isAbandoned.Swap(false) {
		l = nil
	}
	var err error
	if l != nil {
		if err = l.Acquire(ctx); l.snapshot().isLost() {
			l = nil
		}
	}
	if l == nil && err == nil { // a new holder name, so that claims under the old session stay invalid
		o := Options{Claim: NewClaim(nats.NewInbox(), nil), TTL: s.ttl}
		l, err = s.bucket.firstFree(ctx, processKeys, o)
	}
	interval := renewalInterval(s.ttl)
	if err != nil && !errors.Is(err, errRefused) {
		interval = readInterval(s.ttl)
	}
	if ctx.Err() != nil {
		interval = 0 // the next lease tries again
	}
	pause := task.AtTick(time.Until(began.Add(interval)))
	s.current.Store(&currentSession{l, time.Now().Add(pause)})
	return err
}

// firstFree acquires the first of the keys PREFIX0, PREFIX1, ... that is free.
func (b *Bucket) firstFree(ctx context.Context, prefix string, o Options) (*Lease, error) {
	for n := 0; ; n++ {
		o.Key = fmt.Sprint(prefix, n)
		l := b.renewed(o)
		if err := l.Acquire(ctx); err != nil {
			l.Release(ctx) // the claim may be stored
			return nil, err
		}
		if l.Term() != 0 {
			return l, nil
		}
	}
}

// leave notes that a lease does not need the session any more, and releases it after the last one.
func (s *sharedSession) leave(ctx context.Context) {
	s.users.Add(-1)
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return // it expires
	}
	if l := s.current.Load().lease; l != nil && s.users.Load() <= 0 {
		s.current.Store(&currentSession{})
		l.release(ctx)
	}
}

// addSession adds the session that the claim of a lease names to the reading of the lease, and returns when the session
// was read. It shares a reading of the session that was requested after a time, since earlier ones show nothing new. A
// reading from before the lease was answered does not show that the session is over: it may have begun since.
func (s *sharedSession) addSession(ctx context.Context, r *reading, answered, after time.Time) (time.Time, error) {
	key := r.claim.Session.Key
	request := func(ctx context.Context) (sessionReading, error) {
		e, err := s.bucket.read(ctx, key, s.ttl)
		return sessionReading{e, time.Now()}, err
	}
	e, began, err := s.read.GetAt(ctx, key, after, request)
	if err == nil && began.Before(answered) && r.isOver(e.entry) {
		e, err = request(ctx)
	}
	if err == nil {
		r.withSession(e.entry)
	}
	return e.at, err
}
