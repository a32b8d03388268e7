package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/natsx"
)

// DefaultTTL is the life of a lease where none is given.
const DefaultTTL = 10 * time.Second

// MinTTL is the shortest life of a lease: the server ends keys to the second.
const MinTTL = 2 * time.Second

// Options say how a lease is held.
type Options struct {
	Key   string
	Claim Claim
	TTL   time.Duration // default 10 s
	// Behind tells whether another that waits is to have it first: then one that nobody holds is left for that. nil: none is
	ShouldYield func() bool
	Logger      *slog.Logger
}

// Lease is the place of one replica at one lease: it holds it, or waits for it. Its methods may be called from many
// goroutines but Try, Keep and Release, which are the owner's.
type Lease struct {
	bucket  *Bucket
	options Options

	mu          sync.Mutex
	status      Status
	revision    uint64    // of our claim in the bucket, 0: we have none
	expires     time.Time // by our clock; after it the server may have ended what we hold
	lapses      uint64    // renewals that came after it: for a while what we hold did not count
	unconfirmed bool      // a write of ours, in the place of revision asked, was not confirmed: it may be there
	expected    uint64
}

// Status is how a replica stands.
type Status struct {
	// Term counts the takings of the lease: the revision at which this replica took it. 0: it does not hold it, as far
	// as it knows.
	Term uint64
	// Holder is the claim of the replica that was last seen to hold it; zero: none.
	Holder Claim
	// Differs names the settings of the configuration that the holder has otherwise.
	DifferentSettings []string
}

// Lease is a replica's place at a lease. It asks nothing.
func (b *Bucket) Lease(o Options) *Lease {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Lease{bucket: b, options: o}
}

// Status tells how the replica stands now. A lease that could not be renewed for its life is not held.
func (l *Lease) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	if s.Term != 0 && time.Now().After(l.expires) {
		s.Term = 0
	}
	return s
}

// Tenure is a lease as it is held: under one of them it was held all the time. Term is 0 where it is not.
type Tenure struct {
	Term   uint64 // see Standing
	Lapses uint64 // how often it was renewed after it had ended by our clock, which leaves the term as it was
}

// Tenure is how the lease is held now.
func (l *Lease) Tenure() Tenure {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := Tenure{l.status.Term, l.lapses}
	if time.Now().After(l.expires) {
		h.Term = 0
	}
	return h
}

// Term is Standing.Term.
func (l *Lease) Term() uint64 { return l.Status().Term }

// Acquire takes the lease where nobody holds it, and renews it where this replica does.
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

// readAndAcquire reads the lease at its leader. What was written and not confirmed may be there; what is not, is to be had.
func (l *Lease) readAndAcquire(ctx context.Context) error {
	e, err := l.bucket.read(ctx, l.options.Key)
	if err != nil {
		return err
	}
	switch mine := l.options.Claim; {
	case e.claim != nil && e.claim.Holder == mine.Holder:
		// A write of ours that was not confirmed. It is as old as our last word with the server at most, and is renewed
		// before it counts.
	case e.claim != nil && !hasDied(e.claim, &mine):
		l.setLost(*e.claim)
		return nil
	default:
		l.setLost(Claim{})
		if l.options.ShouldYield != nil && l.options.ShouldYield() {
			return nil
		}
	}
	if err = l.write(ctx, e.revision); errors.Is(err, natsx.ErrConflict) {
		return nil // another was first; the watch says so, or the next try
	}
	return err
}

// write puts our claim in the place of a revision.
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

// setHeld notes that the claim is in the bucket at a revision, by a request that was sent at a time.
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

// setLost notes that another holds it, or nobody.
func (l *Lease) setLost(to Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status, l.revision = Status{Holder: to}, 0
	if to.Holder != "" {
		l.status.DifferentSettings = differentSettings(to.Settings, l.options.Claim.Settings)
	}
}

// differentSettings are the keys of which two lists of settings say different things.
func differentSettings(a, b map[string]string) (keys []string) {
	for key, value := range a {
		if other, there := b[key]; there && other != value {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Run holds the lease for as long as it can be had, until ctx is done: it renews it, or waits for it. changed is called
// with the term at the begin, and whenever it is another, or the same again after it did not count for a while: a process
// that was stopped, or had no word from the server, renews in time for the server and too late by its own clock. While
// changed runs the lease is renewed on.
func (l *Lease) Run(ctx context.Context, changed func(ctx context.Context, term uint64)) {
	key := l.bucket.watch.Watch(l.options.Key)
	defer key.Stop()
	terms := make(chan uint64, 1)
	told, over := context.WithCancel(context.WithoutCancel(ctx))
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
				continue // a renewal, of ours or of the holder
			}
		case <-ctx.Done():
			l.renew(told, tick.C)
			return
		}
		if err := l.Acquire(ctx); err != nil && ctx.Err() == nil {
			l.options.Logger.Debug("the lease cannot be asked for; trying again", "key", l.options.Key, "error", err)
		}
		if now := l.Tenure(); now != last {
			last = now
			select {
			case <-terms: // one that nobody has heard of yet, and that is over
			default:
			}
			terms <- now.Term
		}
	}
}

// renew renews the lease at each tick, where there is something to renew, until ctx is done.
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

// IsHeld asks the leader whether anybody holds a lease.
func (b *Bucket) IsHeld(ctx context.Context, key string) (bool, error) {
	e, err := b.read(ctx, key)
	return e.claim != nil, err
}

// IsHolder asks the leader whether this replica holds the lease.
func (l *Lease) IsHolder(ctx context.Context) (bool, error) {
	e, err := l.bucket.read(ctx, l.options.Key)
	return err == nil && e.claim != nil && e.claim.Holder == l.options.Claim.Holder, err
}

// Release gives the lease back, where this replica holds it: another may take it at once. A write that was not confirmed
// is met too: it comes before the removal, which then has to be of what it wrote, or after it, and is refused.
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
	err := l.bucket.remove(ctx, l.options.Key, revision)
	if errors.Is(err, natsx.ErrConflict) {
		var e entry
		if e, err = l.bucket.read(ctx, l.options.Key); err == nil && e.claim != nil && e.claim.Holder == l.options.Claim.Holder {
			err = l.bucket.remove(ctx, l.options.Key, e.revision)
		}
	}
	if err != nil {
		l.options.Logger.Debug("the lease is not given back; it ends by itself", "key", l.options.Key, "error", err)
	}
}
