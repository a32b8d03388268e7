// Package lease elects one replica of a pipeline for work that only one should do: training, or a partition.
//
// A lease is a key of a bucket that its holder writes again by compare-and-set, and deletes on a clean stop. A replica
// that waits takes it when it has not changed for some time by the clock of that replica: see [state]. It is no mutual
// exclusion: a process whose clock stood still does not know that its lease has expired. Writes of a holder must be
// fenced by the term of the lease, as package registry does.
package lease

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/internal/task"
)

// DefaultTTL is the TTL of a lease unless configured.
const DefaultTTL = 10 * time.Second

// MinTTL and MaxTTL bound the TTL of a lease. With a shorter one, pauses of a busy machine would end it.
const (
	MinTTL = 2 * time.Second
	MaxTTL = time.Hour
)

// Options configure a lease.
type Options struct {
	Key   string
	Claim Claim
	TTL   time.Duration // how long it is held without renewal; default 10 s
	// ShouldYield reports whether another waiting replica should get the lease first; then this one does not acquire it,
	// and is patient. nil: never.
	ShouldYield func() bool
	// IsPatient reports whether it may take longer, three TTLs, until this replica has a lease that was not released; then
	// it reads the lease less often. nil: only if it should yield.
	IsPatient func() bool
	// HintDelay is how long to wait before an announced change is read. nil: natsx.AnnounceDelay.
	HintDelay func() time.Duration
	// Observe is called whenever the lease was read or stored. nil: never.
	Observe func()
	Logger  *slog.Logger
}

// Lease is one replica's part in a lease: it holds it or waits for it. Its methods are safe for concurrent use, except
// Acquire, Start, Run and Release, which belong to its owner.
type Lease struct {
	bucket  *Bucket
	shared  *sharedSession // whose session the claim names; nil: the claim is renewed
	options Options
	began   time.Time // the moment since which state counts

	attempts atomic.Pointer[task.Task] // to renew or read the lease; nil: Start was not called
	isHinted atomic.Bool               // a change of the lease was announced

	refusalLog ratelog.Limiter

	// Of the owner: the lease as it was read or written last, and when; since then it may have changed.
	stored    entry
	storedAt  time.Duration
	isStale   bool
	hasJoined bool // the process

	mu        sync.Mutex // only the owner changes what it guards, except the claim and isChanged
	state     state
	holder    Claim  // the last known one; zero: none
	former    string // the holder whose claim had expired when this replica acquired the lease; "": none
	isChanged bool   // the claim differs from the stored one
	failure   error  // of the last attempt
	// unconfirmed is set while a write that expects a revision, 0 for none, is not confirmed: it may be stored.
	unconfirmed *uint64
}

// Status is the state of a lease as one replica knows it.
type Status struct {
	// Term is the revision at which this replica acquired the lease, or renewed it after it had expired by its own clock.
	// It grows with each of these. 0: not held.
	Term uint64
	// Holder is the last known holder; zero: none.
	Holder Claim
	// Former is the holder whose claim had expired when this replica acquired the lease; "": none.
	Former string
	// Own is the claim of this replica; the stored one may be older.
	Own Claim
	// Failure is why the last attempt to renew or read the lease failed; nil if it did not.
	Failure error
}

// Lease returns one replica's part in a lease. It sends no request.
func (b *Bucket) Lease(o Options) *Lease {
	l := b.renewed(o)
	l.shared = b.sessionOf(l.options.TTL)
	return l
}

// renewed is Lease for a claim that names no session.
func (b *Bucket) renewed(o Options) *Lease {
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Claim.TTL = o.TTL.Milliseconds()
	if o.HintDelay == nil {
		o.HintDelay = natsx.AnnounceDelay
	}
	return &Lease{bucket: b, options: o, began: time.Now(), state: state{ttl: o.TTL}}
}

// now is the time since the lease was made, by the monotonic clock.
func (l *Lease) now() time.Duration { return time.Since(l.began) }

// Status returns the current state. A lease that was not renewed within its TTL is not held.
func (l *Lease) Status() Status {
	term := l.Term()
	l.mu.Lock()
	defer l.mu.Unlock()
	return Status{term, l.holder, l.former, l.options.Claim, l.failure}
}

// Term is Status().Term. It identifies an uninterrupted time of holding the lease.
func (l *Lease) Term() uint64 {
	_, session := l.shared.session()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.termAt(l.now(), session)
}

// snapshot returns a copy of the state.
func (l *Lease) snapshot() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// forget forgets the holder, until the lease is read or written again.
func (l *Lease) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = Claim{}
}

// Acquire renews the lease if this replica holds it. Otherwise it reads it, and acquires it if it is free or has
// expired.
func (l *Lease) Acquire(ctx context.Context) error {
	for range 2 { // after a conflict another replica was first, and may have announced it before Run watches
		if err := l.acquire(ctx); !errors.Is(err, natsx.ErrConflict) {
			return err
		}
	}
	return nil // the watch or the next attempt reports the other one
}

func (l *Lease) acquire(ctx context.Context) error {
	if l.shared != nil && l.snapshot().revision != 0 {
		if err := l.shared.keep(ctx); err != nil {
			return err
		}
	}
	r, err := l.read(ctx)
	if err != nil {
		return err
	}
	if l.options.Observe != nil {
		defer l.options.Observe()
	}
	next := l.decide(&r)
	if next == endSession {
		err = l.shared.bucket.delete(ctx, r.claim.Session.Key, r.session.revision, l.options.TTL)
		if r.claim, r.session = nil, (entry{}); err == nil {
			next = l.decide(&r)
		}
	}
	l.isStale = l.isStale || next != wait && !r.isOwn
	if err == nil && next == take {
		err = l.write(ctx, &r)
	}
	l.isStale = l.isStale || errors.Is(err, natsx.ErrConflict)
	return err
}

// read reads the lease, and the session that it names. The lease itself is read only if it may have changed: where it
// is renewed, the holder knows its revision, and where a session is renewed instead, it is read once a TTL.
func (l *Lease) read(ctx context.Context) (r reading, err error) {
	isRenewed := l.shared == nil && l.snapshot().revision != 0
	isKnown := isRenewed || l.shared != nil && l.stored.claim != nil && l.stored.claim.Session != nil
	age := l.options.TTL
	if l.state.isPatient && l.snapshot().revision == 0 {
		age *= 2
	}
	if !isKnown || l.isStale || !isRenewed && l.now()-l.storedAt > age {
		if l.stored, err = l.bucket.read(ctx, l.options.Key, l.options.TTL); err != nil {
			l.isStale = true
			return r, err
		}
		l.storedAt, l.isStale = l.now(), false
	}
	r = reading{entry: l.stored, at: l.now()}
	if l.shared != nil && r.claim != nil && r.claim.Session != nil && r.claim.Holder != l.options.Claim.Holder {
		var at, after time.Time
		if l.state.observed.revision != 0 {
			after = l.began.Add(l.state.observed.last)
		}
		if at, err = l.shared.addSession(ctx, &r, l.began.Add(l.storedAt), after); r.session.claim != nil {
			r.at = at.Sub(l.began)
		}
	}
	return r, err
}

// Update changes the own claim. The holder stores it at once if change returns true, and announces it.
func (l *Lease) Update(change func(*Claim) (isChanged bool)) {
	l.mu.Lock()
	isChanged := change(&l.options.Claim)
	l.isChanged = l.isChanged || isChanged
	l.mu.Unlock()
	if isChanged {
		l.Recheck()
	}
}

// Recheck renews or reads the lease now instead of at its next time, if it was started. It is called when the result of
// ShouldYield or IsPatient has changed.
func (l *Lease) Recheck() {
	if attempts := l.attempts.Load(); attempts != nil {
		attempts.Now()
	}
}

// decide notes a reading of the lease, and decides what to do.
func (l *Lease) decide(r *reading) action {
	r.yields = l.options.ShouldYield != nil && l.options.ShouldYield()
	holder, mine := Claim{}, &l.options.Claim
	if r.claim != nil {
		holder = *r.claim
		r.isOwn = holder.Holder == mine.Holder
		r.hasDied = !r.isOwn && hasDied(r.claim, mine)
	}
	isPatient := r.yields || l.options.IsPatient != nil && l.options.IsPatient()
	_, session := l.shared.session()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.isPatient = isPatient
	r.isCurrent = l.shared != nil && !l.isChanged && l.state.sessionTerm == session
	next := l.state.step(*r)
	if !r.isOwn {
		l.holder = holder
	}
	return next
}

// renewSession returns the session that the claim is to name, and its term; none if the claim itself is renewed.
func (l *Lease) renewSession(ctx context.Context) (*Session, uint64, error) {
	if l.shared == nil {
		return nil, 0, nil
	}
	if !l.hasJoined {
		l.hasJoined = true
		l.shared.users.Add(1)
	}
	err := l.shared.keep(ctx)
	session, term := l.shared.session()
	if err == nil && term == 0 {
		err = errNoSession
	}
	return session, term, err
}

// write replaces what was read by this replica's claim. It continues the assignment of the former holder.
func (l *Lease) write(ctx context.Context, r *reading) error {
	session, sessionTerm, err := l.renewSession(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.state.revision == 0 { // a claim of this process too: an unconfirmed one, or of a lease that was not released
		l.options.Claim.Assignment = r.assignment
	}
	if !r.isOwn {
		if l.former = ""; r.claim != nil {
			l.former = r.claim.Holder
		}
	}
	l.options.Claim.Session = session
	l.unconfirmed = &r.revision
	claim, isNew := l.options.Claim, l.state.term == 0 || l.isChanged
	l.isChanged = false
	l.mu.Unlock()
	sent := l.now()
	next, err := l.bucket.write(ctx, l.options.Key, &claim, r.revision, l.options.TTL)
	if err == nil && isNew {
		l.bucket.keys.Announce(l.options.Key, next)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.isChanged = l.isChanged || isNew
		return err
	}
	before := l.state.term
	if l.state.confirm(next, sent, l.now(), sessionTerm); before != 0 && l.state.term != before {
		l.former = "" // whatever its session was then, it is not known now
	}
	l.stored, l.storedAt, l.isStale = entry{&claim, next, claim.Assignment}, sent, false
	l.unconfirmed, l.holder = nil, claim
	return nil
}

// Start holds the lease or waits for it, until ctx is done or stop, which waits for the end. It calls changed with the
// current term, and again whenever that changes. A process that was paused, or cut off from the server, may renew the
// lease before another replica takes it and too late by its own clock: then it has another term.
// The lease is renewed while changed runs. Between two renewals it uses no goroutine.
func (l *Lease) Start(ctx context.Context, changed func(ctx context.Context, term uint64)) (stop func()) {
	var term atomic.Uint64
	term.Store(l.Term())
	reports := task.Every(ctx, 0, func(ctx context.Context) { changed(ctx, term.Load()) })
	reports.Now()
	var attempts *task.Task
	attempts = task.Every(context.WithoutCancel(ctx), 0, func(running context.Context) {
		attempts.Within(l.attempt(running, ctx))
		if now := l.Term(); term.Swap(now) != now && ctx.Err() == nil {
			reports.Now()
		}
	})
	key := l.bucket.keys.Watch(l.options.Key, func(change natsx.Change) {
		// Without a key the connection was restored: only a replica that waits may have missed a change. Further
		// announcements do not make the attempt earlier.
		own := l.snapshot().revision
		isNews := change.Revision != own && (change.Key != "" || own == 0)
		if isNews && !l.isHinted.Swap(true) {
			attempts.Within(l.options.HintDelay())
		}
	})
	l.attempts.Store(attempts)
	attempts.Now()
	end := sync.OnceFunc(func() {
		reports.Stop()
		key.Stop()
		attempts.Stop()
		l.attempts.Store(nil)
	})
	forget := context.AfterFunc(ctx, end)
	return func() {
		forget()
		end()
	}
}

// attempt renews or reads the lease, and returns when to do that again. After started is done it only renews.
func (l *Lease) attempt(ctx, started context.Context) time.Duration {
	l.isStale = l.isHinted.Swap(false) || l.isStale
	began, longest := l.now(), MaxTTL
	if started.Err() == nil || l.snapshot().revision != 0 {
		err := l.Acquire(ctx)
		l.mu.Lock()
		l.failure = err
		l.mu.Unlock()
		switch {
		case err == nil || started.Err() != nil:
		case errors.Is(err, errRefused): // it would be again, for instance while the disk is full
			l.refusalLog.Warn(l.options.Logger, "a lease cannot be stored; trying again", "key", l.options.Key, "error", err)
			return task.AtTick(renewalInterval(l.options.TTL))
		default:
			longest = readInterval(l.options.TTL)
			l.options.Logger.Debug("the lease cannot be read or renewed; trying again", "key", l.options.Key, "error", err)
		}
	}
	return min(l.pause(began), longest)
}

// Run is Start until ctx is done.
func (l *Lease) Run(ctx context.Context, changed func(ctx context.Context, term uint64)) {
	stop := l.Start(ctx, changed)
	<-ctx.Done()
	stop()
}

// pause is how long to wait for the next attempt after one that began at a time.
func (l *Lease) pause(began time.Duration) time.Duration {
	if l.shared != nil && l.snapshot().revision != 0 {
		return time.Until(l.shared.current.Load().due)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return task.AtTick(max(l.state.next(began)-l.now(), 0))
}

// IsHolder asks the leader whether this replica holds the lease.
func (l *Lease) IsHolder(ctx context.Context) (bool, error) {
	e, err := l.bucket.read(ctx, l.options.Key, l.options.TTL)
	return err == nil && e.claim != nil && e.claim.Holder == l.options.Claim.Holder, err
}

// ReleaseTimeout is how long the end of a process waits for the server to take a lease back; after that it expires.
const ReleaseTimeout = 2 * time.Second

// Release deletes the lease if this replica holds it, or hands it over, so that another can acquire it at once, however
// this process ends. An unconfirmed write cannot survive it: it is stored before the delete, which then expects its
// revision, or rejected after it. It returns false if the lease expires instead, as when no server answers.
func (l *Lease) Release(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReleaseTimeout)
	defer cancel()
	return l.release(ctx)
}

func (l *Lease) release(ctx context.Context) bool {
	if l.hasJoined {
		l.hasJoined = false
		defer l.shared.leave(ctx)
	}
	l.isStale = true
	l.mu.Lock()
	revision, isHeld := l.state.revision, l.state.revision != 0 || l.unconfirmed != nil
	if l.unconfirmed != nil {
		revision = *l.unconfirmed
	}
	l.state.lose()
	l.holder, l.unconfirmed = Claim{}, nil
	claim := l.options.Claim
	claim.IsLeft = claim.Assignment != nil // the next holder continues with it
	l.mu.Unlock()
	if !isHeld {
		return true
	}
	key, ttl := l.options.Key, l.options.TTL
	err := l.bucket.end(ctx, key, &claim, revision, ttl)
	for attempt := 0; errors.Is(err, natsx.ErrConflict); attempt++ { // an unconfirmed write may still be on its way
		var e entry
		if e, err = l.bucket.read(ctx, key, ttl); err == nil && e.claim != nil && e.claim.Holder == claim.Holder {
			err = l.bucket.end(ctx, key, &claim, e.revision, ttl)
		}
		if errors.Is(err, natsx.ErrConflict) && !natsx.Backoff(ctx, attempt) {
			break
		}
	}
	if err != nil {
		l.options.Logger.Debug("the lease cannot be released; it expires", "key", key, "error", err)
		if l.shared != nil {
			l.shared.isAbandoned.Store(true)
		}
	}
	return err == nil
}
