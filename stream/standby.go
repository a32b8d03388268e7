package stream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/lease"
)

// turns say when this replica reads to learn: while it learns, and of those that wait for that one does, who has a second
// lease. So a pipeline is read three times, however many replicas it has: once to be answered, once by who learns, once by
// who would be next. Rows whose labels come apart are read by all: the two readers go side by side.
type turns struct {
	second  *lease.Lease                       // nil: whoever waits rests
	leave   atomic.Pointer[context.CancelFunc] // gives the second lease up, once this replica learns
	waits   chan struct{}                      // signalled when it does not any more
	changed chan struct{}                      // signalled when it may be another's turn
	resting atomic.Bool
}

func newTurns() turns {
	return turns{waits: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// everyone tells whether all replicas read, whoever learns.
func (p *pipeline) everyone() bool {
	return p.tenure.Lease == nil || p.Labels != "" || p.Input == nil ||
		p.Input.CachedInfo().Config.Retention != jetstream.LimitsPolicy
}

// mayRead tells whether it is this replica's turn.
func (p *pipeline) mayRead() bool {
	return p.everyone() || p.tenure.Term() != 0 || p.turns.second != nil && p.turns.second.Term() != 0
}

// behind tells whether another replica is to have the lease of learning before this one.
func (p *pipeline) behind() bool {
	if p.turns.second == nil {
		return false
	}
	s := p.turns.second.Standing()
	return s.Term == 0 && s.Holder.Holder != ""
}

// keepSecond holds the second lease, or waits for it, while this replica does not learn.
func (p *pipeline) keepSecond(ctx context.Context) {
	t := &p.turns
	for ctx.Err() == nil {
		waiting, leave := context.WithCancel(ctx)
		t.leave.Store(&leave)
		if p.tenure.Term() == 0 {
			if err := t.second.Try(waiting); err != nil && waiting.Err() == nil {
				p.Log.Debug("the lease of the standby cannot be asked for; trying again", "error", err)
			}
			t.second.Keep(waiting, func(context.Context, uint64) { wake(t.changed) })
			p.giveBack(t.second)
			wake(t.changed)
		}
		leave()
		select {
		case <-t.waits:
		case <-ctx.Done():
		}
	}
}

// passes is called when this replica learns from now on, or does not any more.
func (p *pipeline) passes(learns bool) {
	t := &p.turns
	if leave := t.leave.Load(); learns && leave != nil {
		(*leave)()
	} else if !learns {
		wake(t.waits)
	}
	wake(t.changed)
	p.lookAgain() // who learns counts what is not answered
}

// learning is a reader of what is learned: of messages, or of summaries.
type learning interface {
	run(ctx context.Context)  // until ctx is done; it may be run again
	skipTo(live *plugin.Live) // to where the window of a model begins
}

// learnInTurn reads to learn whenever it is this replica's turn.
func (p *pipeline) learnInTurn(ctx context.Context) {
	var r learning
	switch {
	case p.arrived != nil:
		r = newGatherer(p)
	case p.shares():
		r = newMerger(p)
	default:
		// A lesson that was begun when the turn ends is learned: the place in the stream is behind it already.
		r = newReader(p, func(_ context.Context, l *lesson) { p.learn(ctx, l) })
	}
	every := time.NewTicker(p.leaseLife() / 3) // a lease ends in silence where it cannot be renewed
	defer every.Stop()
	for ctx.Err() == nil {
		p.turns.resting.Store(!p.mayRead())
		if p.turns.resting.Load() {
			select {
			case <-every.C:
			case <-p.turns.changed:
			case <-ctx.Done():
			}
			continue
		}
		r.skipTo(p.Running.Live())
		p.learnNow(ctx, r, every.C)
	}
}

// learnNow reads until it is another's turn.
func (p *pipeline) learnNow(ctx context.Context, r learning, every <-chan time.Time) {
	turn, over := context.WithCancel(ctx)
	defer over()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.run(turn)
	}()
	for p.mayRead() && ctx.Err() == nil {
		select {
		case <-every:
		case <-p.turns.changed:
		case <-ctx.Done():
		}
	}
	over()
	<-ended
}

// skipTo moves to where the window of a model begins: what is before it nobody needs any more.
func (r *reader) skipTo(live *plugin.Live) {
	r.at.next = max(r.at.next, needs.WindowStart(live, r.at.stream))
}
