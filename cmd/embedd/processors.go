package main

import (
	"context"
	"os"
	"runtime"
	"time"
)

// processors is how many threads Go runs at a time (GOMAXPROCS) in a daemon that answers and does not learn: as many as it
// needs. Where one has nothing to do Go wakes it for each hand-over from one goroutine to the next, for nothing as a
// rule, and on a machine with other programs, other replicas among them, it takes the processor from one that has.
type processors struct{ now, most int }

const (
	// used is the share of its processors from which a daemon gets twice as many.
	used = 0.85
	// spared is the share of one fewer below which it gets that.
	spared = 0.6
	// usedFor is how long the shares are of.
	usedFor = 250 * time.Millisecond
)

// next is how many there are to be where so many were used.
func (p processors) next(busy float64) int {
	switch {
	case busy > used*float64(p.now):
		return min(2*p.now, p.most)
	case busy < spared*float64(p.now-1):
		return p.now - 1
	}
	return p.now
}

// follow sets them until ctx is done, and then to what there was.
func (p processors) follow(ctx context.Context) {
	defer runtime.GOMAXPROCS(p.most)
	tick := time.NewTicker(usedFor)
	defer tick.Stop()
	p.now = 1
	runtime.GOMAXPROCS(p.now)
	for had, at := processorTime(), time.Now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		has, now := processorTime(), time.Now()
		if next := p.next(float64(has-had) / float64(now.Sub(at))); next != p.now {
			p.now = next
			runtime.GOMAXPROCS(next)
		}
		had, at = has, now
	}
}

// mayFollow tells whether the system says what a process uses, and the environment not how many processors it has.
func mayFollow() bool { return os.Getenv("GOMAXPROCS") == "" && processorTime() > 0 }
