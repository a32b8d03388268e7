// Package lease elects one replica of a pipeline for work that only one should do: training.
//
// A lease is a key of a bucket with a TTL. It is acquired by create, renewed by compare-and-set every third of its
// TTL, and deleted on a clean stop. It is no mutual exclusion: a process that slept does not know that its lease
// expired. Writes of a holder must be fenced by the term of the lease, as package registry does.
package lease

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/natsx"
)

// DefaultTTL is the TTL of a lease unless configured.
const DefaultTTL = 10 * time.Second

// MinTTL is the shortest TTL of a lease: the server expires keys with a resolution of a second.
const MinTTL = 2 * time.Second

// Options configure a lease.
type Options struct {
	Key   string
	Claim Claim
	TTL   time.Duration // default 10 s
	// ShouldYield reports whether another waiting replica should get the lease first; then this one does not acquire it
	// while it is free. nil: never.
	ShouldYield func() bool
	Logger      *slog.Logger
}

// Lease is one replica's part in a lease: it holds it or waits for it. Its methods are safe for concurrent use, except
// Acquire, Run and Release, which belong to its owner.
type Lease struct {
	bucket  *Bucket
	options Options

	mu          sync.Mutex
	status      Status
	revision    uint64    // of this replica's claim; 0: none
	expires     time.Time // by this clock; the server may have expired the claim after that
	lapses      uint64    // renewals that were confirmed after that
	claimed     uint64    // revision of the claim of another holder; 0: none
	claimedAt   time.Time // when this replica first read that
	unconfirmed bool      // a write that expected that revision was not confirmed: it may be stored
	expected    uint64
}

// Status is the state of a lease as one replica knows it.
type Status struct {
	// Term is the revision at which this replica acquired the lease; it grows with each acquisition. 0: not held.
	Term uint64
	// Holder is the last known holder; zero: none.
	Holder Claim
	// DifferentSettings are the configuration keys in which this replica and the holder differ.
	DifferentSettings []string
}

// Lease returns one replica's part in a lease. It sends no request.
func (b *Bucket) Lease(o Options) *Lease {
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Lease{bucket: b, options: o}
}

// Status returns the current state. A lease that was not renewed within its TTL is not held.
func (l *Lease) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	if s.Term != 0 && time.Now().After(l.expires) {
		s.Term = 0
	}
	return s
}

// Tenure identifies an uninterrupted time of holding a lease: two equal ones are the same. Term is 0 if it is not held.
type Tenure struct {
	Term   uint64 // see Standing
	Lapses uint64 // renewals after the lease had expired by the local clock; they keep the term
}

// Tenure returns the current tenure.
func (l *Lease) Tenure() Tenure {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := Tenure{l.status.Term, l.lapses}
	if time.Now().After(l.expires) {
		h.Term = 0
	}
	return h
}

// Term is Status().Term.
func (l *Lease) Term() uint64 { return l.Status().Term }

// Acquire acquires a lease that is free, and renews it if this replica holds it.
func (l *Lease) Acquire(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.options.TTL/3)
	defer cancel()
	l.mu.Lock()
	revision := l.revision
	l.mu.Unlock()
	if revision != 0 {
		if err := l.write(ctx, revision); !errors.Is(err, natsx.ErrConflict) {
			return err
		}
	}
	return l.readAndAcquire(ctx)
}

// readAndAcquire reads the lease at the leader and acquires it if it is free. An unconfirmed write of this replica may
// be stored.
func (l *Lease) readAndAcquire(ctx context.Context) error {
	e, err := l.bucket.read(ctx, l.options.Key)
	if err != nil {
		return err
	}
	switch mine := l.options.Claim; {
	case e.claim != nil && e.claim.Holder == mine.Holder:
		// This is an unconfirmed write of this replica. The lease counts as held only after a confirmed renewal.
	case e.claim != nil && !hasDied(e.claim, &mine):
		l.setLost(*e.claim)
		l.setClaimed(e.revision)
		return nil
	default:
		l.setLost(Claim{})
		if l.options.ShouldYield != nil && l.options.ShouldYield() {
			return nil
		}
	}
	if err = l.write(ctx, e.revision); errors.Is(err, natsx.ErrConflict) {
		return nil // another replica was first; the watch or the next attempt reports it
	}
	return err
}

// write replaces a revision by this replica's claim.
func (l *Lease) write(ctx context.Context, revision uint64) error {
	l.mu.Lock()
	l.unconfirmed, l.expected = true, revision
	l.mu.Unlock()
	sent := time.Now()
	next, err := l.bucket.write(ctx, l.options.Key, &l.options.Claim, revision, l.options.TTL)
	if err == nil {
		l.setHeld(next, sent)
	}
	return err
}

// setHeld notes that the claim is stored at a revision, by a request that was sent at a time.
func (l *Lease) setHeld(revision uint64, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status.Term == 0 {
		l.status = Status{Term: revision}
	} else if time.Now().After(l.expires) {
		l.lapses++
	}
	l.status.Holder, l.status.DifferentSettings = l.options.Claim, nil
	l.revision, l.expires, l.unconfirmed = revision, sent.Add(l.options.TTL), false
}

// setLost notes that another replica holds the lease, or none.
func (l *Lease) setLost(to Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status, l.revision = Status{Holder: to}, 0
	if to.Holder != "" {
		l.status.DifferentSettings = differentSettings(to.Settings, l.options.Claim.Settings)
	}
}

// setClaimed notes at which revision another holder has the lease.
func (l *Lease) setClaimed(revision uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claimed != revision {
		l.claimed, l.claimedAt = revision, time.Now()
	}
}

// Unrenewed returns since when the holder has not renewed the lease, if it should have expired since: its key has no
// TTL, which only a client that is no replica writes. ok is false if the holder is alive, or there is none.
func (l *Lease) Unrenewed() (since time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claimedAt, l.status.Term == 0 && l.status.Holder.Holder != "" && l.claimed != 0 &&
		time.Since(l.claimedAt) > 3*l.options.TTL
}

// differentSettings are the keys with different values in two sets of settings.
func differentSettings(a, b map[string]string) (keys []string) {
	for key, value := range a {
		if other, there := b[key]; there && other != value {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Run holds the lease or waits for it, until ctx is done. It calls changed with the current term, and again whenever
// the tenure changes. That includes the same term after a lapse: a process that was paused, or cut off from the
// server, may renew in time for the server and too late by its own clock. The lease is renewed while changed runs.
func (l *Lease) Run(ctx context.Context, changed func(ctx context.Context, term uint64)) {
	key := l.bucket.keys.Watch(l.options.Key, l.bucket.log)
	defer key.Stop()
	terms := make(chan uint64, 1)
	renewal, over := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer over()
		changed(ctx, <-terms)
		for ctx.Err() == nil {
			select {
			case term := <-terms:
				changed(ctx, term)
			case <-ctx.Done():
			}
		}
	}()
	tick := time.NewTicker(l.options.TTL / 3)
	defer tick.Stop()
	last := l.Tenure()
	terms <- last.Term
	for {
		select {
		case <-tick.C:
		case <-key.Changed():
			if !key.IsDeleted() {
				continue // a renewal
			}
		case <-ctx.Done():
			l.renew(renewal, tick.C)
			return
		}
		if err := l.Acquire(ctx); err != nil && ctx.Err() == nil {
			l.options.Logger.Debug("the lease cannot be read; trying again", "key", l.options.Key, "error", err)
		}
		if now := l.Tenure(); now != last {
			last = now
			select {
			case <-terms: // it is outdated and was not reported yet
			default:
			}
			terms <- now.Term
		}
	}
}

// renew renews the lease at each tick until ctx is done.
func (l *Lease) renew(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		claimed := l.revision != 0
		l.mu.Unlock()
		if !claimed {
			continue
		}
		if err := l.Acquire(ctx); err != nil && ctx.Err() == nil {
			l.options.Logger.Debug("the lease cannot be renewed; trying again", "key", l.options.Key, "error", err)
		}
	}
}

// IsHeld asks the leader whether any replica holds a lease.
func (b *Bucket) IsHeld(ctx context.Context, key string) (bool, error) {
	e, err := b.read(ctx, key)
	return e.claim != nil, err
}

// IsHolder asks the leader whether this replica holds the lease.
func (l *Lease) IsHolder(ctx context.Context) (bool, error) {
	e, err := l.bucket.read(ctx, l.options.Key)
	return err == nil && e.claim != nil && e.claim.Holder == l.options.Claim.Holder, err
}

// Release deletes the lease if this replica holds it, so that another can acquire it at once. An unconfirmed write
// cannot survive it: it is stored before the delete, which then expects its revision, or rejected after it.
func (l *Lease) Release(ctx context.Context) {
	l.mu.Lock()
	revision, doubt := l.revision, l.unconfirmed
	if doubt {
		revision = l.expected
	}
	l.status, l.revision, l.unconfirmed = Status{}, 0, false
	l.mu.Unlock()
	if revision == 0 && !doubt {
		return
	}
	err := l.bucket.keys.Delete(ctx, l.options.Key, revision)
	if errors.Is(err, natsx.ErrConflict) {
		var e entry
		if e, err = l.bucket.read(ctx, l.options.Key); err == nil && e.claim != nil &&
			e.claim.Holder == l.options.Claim.Holder {
			err = l.bucket.keys.Delete(ctx, l.options.Key, e.revision)
		}
	}
	if err != nil {
		l.options.Logger.Debug("the lease cannot be released; it expires", "key", l.options.Key, "error", err)
	}
}
