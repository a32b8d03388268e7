package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/stream/internal/health"
)

// closure is why a pipeline answers nothing now; several reasons can apply, and none means that it answers.
type closure uint8

const (
	noModel    closure = 1 << iota // there is no model yet, and until_ready is not skip
	staleModel                     // the live model is stale, and when_stale is hold
	halted                         // too many messages were bad
	outdated                       // this replica does not know which model is live; other replicas can answer

	// holding is while inputs wait for a model. Then learning needs those that nothing else reads.
	holding  = noModel | staleModel
	anything = noModel | staleModel | halted | outdated
)

// String returns the first of the reasons.
func (c closure) String() string {
	switch {
	case c&noModel != 0:
		return "there is no model yet"
	case c&halted != 0:
		return "the pipeline is halted"
	case c&staleModel != 0:
		return "the live model is stale"
	case c&outdated != 0:
		return "the model store does not say which model is live"
	}
	return "nothing"
}

// gate decides whether a pipeline may answer. All parts of the hot path ask it, so that none checks less than another.
type gate struct {
	stage    *stage.Stage
	skips    bool // messages without a model are skipped, not held
	holds    bool // a stale model answers nothing
	fresh    *health.Freshness
	refresh  func() // asks learning how fresh the live model is; takes a lock that learning holds
	halt     *health.Halt
	outdated func() string // why this replica does not know which model is live; "" if it does
	progress func() string // of the first model
	log      *slog.Logger
	logged   struct{ noModel, stale, outdated ratelog.Limiter }
}

// closed returns why nothing may be answered now. It takes no lock that learning holds.
func (g *gate) closed() (why closure) {
	if g.stage.Live() == nil && !g.skips {
		why |= noModel
	}
	if g.holds {
		if _, isStale := g.fresh.Age(); isStale {
			why |= staleModel
		}
	}
	if g.halt.Reason() != "" {
		why |= halted
	}
	if g.outdated() != "" {
		why |= outdated
	}
	return why
}

// check is closed after a look at whether the live model was confirmed just now.
func (g *gate) check() closure {
	why := g.closed()
	if why&staleModel != 0 {
		g.refresh()
		why = g.closed()
	}
	return why
}

// gatePoll is how often a waiting pipeline checks the gate. A first model is not polled for.
const gatePoll = 50 * time.Millisecond

// wait blocks while one of these reasons closes the gate. It returns false when ctx is done first.
func (g *gate) wait(ctx context.Context, among closure) bool {
	why := g.check() & among
	if why == 0 {
		return true
	}
	remind := time.NewTicker(time.Minute)
	defer remind.Stop()
	for first := true; why != 0; first = false {
		var ready <-chan struct{}
		var poll <-chan time.Time
		if why == noModel {
			ready = g.stage.Ready()
		} else {
			poll = time.After(gatePoll)
		}
		if !first || why != noModel {
			g.report(why)
		}
		select {
		case <-ready:
		case <-poll:
		case <-remind.C:
		case <-ctx.Done():
			return false
		}
		why = g.check() & among
	}
	return true
}

// report logs why nothing is answered, at most once a minute.
func (g *gate) report(why closure) {
	switch {
	case why&outdated != 0:
		g.logged.outdated.Warn(g.log, "nothing is answered here", "reason", g.outdated())
	case why&halted != 0: // an error was logged when it halted
	case why&staleModel != 0:
		age, _ := g.fresh.Age()
		g.logged.stale.Warn(g.log, "nothing is answered until the live model is confirmed or replaced", "age", age,
			"progress", g.progress())
	default:
		g.logged.noModel.Warn(g.log, "nothing is answered until a first model exists", "progress", g.progress())
	}
}
