package health

import (
	"sync"
	"time"
)

// Freshness is the age of the live model: the time since it was last confirmed, that is, fitted, or scored on a
// labelled row and kept. A stream that does not change has no stale model, and one whose labels have ended has. Safe
// for concurrent use.
type Freshness struct {
	clock func() time.Time

	mu    sync.Mutex
	state staleness
}

// NewFreshness returns the freshness of a model that is stale when it is older than maxAge; 0: never.
func NewFreshness(maxAge time.Duration, clock func() time.Time) *Freshness {
	return &Freshness{clock: clock, state: staleness{maxAge: maxAge}}
}

// Age returns the age of the live model, and whether it is stale.
func (f *Freshness) Age() (age time.Duration, isStale bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.tick(f.clock())
	return f.state.age(), f.state.stale()
}

// Confirm records that the live model was the best known one at a time.
func (f *Freshness) Confirm(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.confirm(at, f.clock())
}

// Replace records that another model went live, which was last confirmed at a time.
func (f *Freshness) Replace(confirmed time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.replace(confirmed, f.clock())
}

// staleness is a pure function of its events in virtual time.
type staleness struct {
	maxAge    time.Duration
	confirmed time.Time // zero: there is no model
	now       time.Time
}

// tick advances the virtual time; it never moves backwards.
func (s *staleness) tick(at time.Time) {
	if at.After(s.now) {
		s.now = at
	}
}

func (s *staleness) replace(confirmed, at time.Time) {
	s.tick(at)
	s.confirmed = confirmed
}

// confirm ignores times before the last confirmation; times ahead of the clock count as now.
func (s *staleness) confirm(confirmed, at time.Time) {
	s.tick(at)
	if confirmed.After(s.now) {
		confirmed = s.now
	}
	if confirmed.After(s.confirmed) {
		s.confirmed = confirmed
	}
}

func (s *staleness) age() time.Duration {
	if s.confirmed.IsZero() {
		return 0
	}
	return max(s.now.Sub(s.confirmed), 0)
}

func (s *staleness) stale() bool { return s.maxAge > 0 && s.age() > s.maxAge }
