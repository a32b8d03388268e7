package health

import (
	"sync"
	"time"
)

// Freshness is the age of the live model: the time since it was last confirmed, that is, fitted, or scored on a
// labelled row and kept. A stream that does not change has no stale model, and one whose labels have ended has. Safe
// for concurrent use.
type Freshness struct {
	maxAge time.Duration
	clock  func() time.Time

	mu        sync.Mutex
	confirmed time.Time // zero: there is no model
	latest    time.Time // that the clock has shown: the age of a model does not shrink with a clock that is set back
}

// NewFreshness returns the freshness of a model that is stale when it is older than maxAge; 0: never.
func NewFreshness(maxAge time.Duration, clock func() time.Time) *Freshness {
	return &Freshness{maxAge: maxAge, clock: clock}
}

// now is the time. The caller holds the lock.
func (f *Freshness) now() time.Time {
	if at := f.clock(); at.After(f.latest) {
		f.latest = at
	}
	return f.latest
}

// byClock returns a time with the monotonic reading of the clock: its age does not change when the wall clock is set.
// One ahead of the clock counts as now. The caller holds the lock.
func (f *Freshness) byClock(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	now := f.now()
	return now.Add(min(at.Sub(now), 0))
}

// Age returns the age of the live model, and whether it is stale.
func (f *Freshness) Age() (age time.Duration, isStale bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); !f.confirmed.IsZero() {
		age = max(now.Sub(f.confirmed), 0)
	}
	return age, f.maxAge > 0 && age > f.maxAge
}

// Stale returns the age of the live model if it is stale.
func (f *Freshness) Stale() (age time.Duration, isStale bool) {
	if f.maxAge == 0 { // it never is, so that a message does not read the clock
		return 0, false
	}
	return f.Age()
}

// Confirm records that the live model was the best known one at a time. One before the last confirmation is ignored,
// and one ahead of the clock counts as now.
func (f *Freshness) Confirm(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at = f.byClock(at); at.After(f.confirmed) {
		f.confirmed = at
	}
}

// Replace records that another model went live, which was last confirmed at a time. One ahead of the clock counts as
// now.
func (f *Freshness) Replace(confirmed time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.confirmed = f.byClock(confirmed)
}
