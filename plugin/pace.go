package plugin

import (
	"context"
	"sync"
	"time"
)

// pace has learning rest while answers wait. It is the context of the worker: all that learns looks at its context
// between two steps of its work, and there it rests. What is decided depends on the rows alone, so not on how long.
type pace struct {
	context.Context
	busy func() bool // answers wait

	mu    sync.Mutex // the workers of a fit rest together
	since time.Time  // the last rest, or the end of waiting for work
}

const (
	// rest is how many times as long as it worked learning rests while answers wait: it takes a tenth of one core then.
	rest = 9
	// leastWork is how long it works at least before a rest, so that it looks at the clock more often than it sleeps.
	leastWork = time.Millisecond
	// mostWork is what counts at most: some of it may have been waiting, for the store of models.
	mostWork = 200 * time.Millisecond
	// glance is how often one that rests looks whether answers still wait.
	glance = 2 * time.Millisecond
)

func newPace(ctx context.Context, busy func() bool) *pace {
	return &pace{Context: ctx, busy: busy, since: time.Now()}
}

// Err is that of the context, after a rest where one is due.
func (p *pace) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.busy() {
		p.since = now
		return p.Context.Err()
	}
	worked := now.Sub(p.since)
	if worked < leastWork {
		return p.Context.Err()
	}
	end, look := now.Add(rest*min(worked, mostWork)), time.NewTicker(glance)
	defer look.Stop()
	for now.Before(end) && p.busy() && p.Context.Err() == nil {
		select {
		case now = <-look.C:
		case <-p.Done():
		}
	}
	p.since = time.Now()
	return p.Context.Err()
}

// begin begins to work after having waited for some.
func (p *pace) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
}

// toItsEnd is a context for what must not be broken off: it has no end, and who looks at it rests all the same. That is the
// rest which the next look behind it would take, no further one, and the end of the stage ends it.
func toItsEnd(ctx context.Context) context.Context {
	return endless{Context: context.WithoutCancel(ctx), paced: ctx}
}

type endless struct {
	context.Context
	paced context.Context
}

// Err is nil, after a rest where one is due.
func (e endless) Err() error {
	_ = e.paced.Err()
	return nil
}
