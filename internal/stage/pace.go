package stage

import (
	"context"
	"sync"
	"time"
)

// pace is the context of the learning worker. Everything that learns checks its context between two steps of work;
// while transforms are waiting, that check sleeps (Invariant 12). Decisions depend on the rows alone, not on how long
// it sleeps.
type pace struct {
	context.Context
	busy func() bool // transforms are waiting

	mu    sync.Mutex // the goroutines of a fit sleep together
	since time.Time  // end of the last sleep, or of waiting for work
}

const (
	// sleepFactor is how many times as long as it worked learning sleeps: it then uses a tenth of one core.
	sleepFactor = 9
	// minWork is the minimum time of work before a sleep, so that it reads the clock more often than it sleeps.
	minWork = time.Millisecond
	// maxWork is the maximum time that counts as work: some of it may have been waiting for the store.
	maxWork = 200 * time.Millisecond
	// pollInterval is how often a sleeper checks whether transforms are still waiting.
	pollInterval = 2 * time.Millisecond
)

func newPace(ctx context.Context, busy func() bool) *pace {
	return &pace{Context: ctx, busy: busy, since: time.Now()}
}

// Err is the error of the context, after a sleep if one is due.
func (p *pace) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.busy() {
		p.since = now
		return p.Context.Err()
	}
	pause := pauseAfter(now.Sub(p.since))
	if pause == 0 {
		return p.Context.Err()
	}
	end, poll := now.Add(pause), time.NewTicker(pollInterval)
	defer poll.Stop()
	for now.Before(end) && p.busy() && p.Context.Err() == nil {
		select {
		case now = <-poll.C:
		case <-p.Done():
		}
	}
	p.since = time.Now()
	return p.Context.Err()
}

// pauseAfter is how long learning sleeps after some work, 0 after less than minWork.
func pauseAfter(worked time.Duration) time.Duration {
	if worked < minWork {
		return 0
	}
	return sleepFactor * min(worked, maxWork)
}

// begin starts counting work, after waiting for some.
func (p *pace) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
}
