package relay

import (
	"context"
	"time"

	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

// reasons is the set of reasons for which a pipeline answers nothing now. It answers when the set is empty.
type reasons uint8

const (
	noModel    reasons = 1 << iota // there is no model yet, and until_ready is not skip
	staleModel                     // the live model is stale, and when_stale is hold
	halted                         // too many messages were bad
	outdated                       // this replica does not know which model is live; other replicas can answer

	// waitsForModel is while inputs wait for a model. Then training needs the inputs that only the hot path reads.
	waitsForModel = noModel | staleModel
	anyReason     = noModel | staleModel | halted | outdated
)

// String returns the first of the reasons.
func (r reasons) String() string {
	switch {
	case r&noModel != 0:
		return "there is no model yet"
	case r&halted != 0:
		return "the pipeline is halted"
	case r&staleModel != 0:
		return "the live model is stale"
	case r&outdated != 0:
		return "the model store does not report which model is live"
	}
	return "nothing"
}

// answerGate decides whether a pipeline may answer. All steps of the hot path ask it, so that none checks less than
// another.
type answerGate struct {
	*scope.Scope
	replica  *replica.Replica // reports why it does not know which model is live
	halt     health.Halt
	progress func() string // of the first model
	logged   struct{ noModel, stale, outdated ratelog.Limiter }
}

// reasons returns why nothing may be answered now. It takes no lock that training holds.
func (g *answerGate) reasons() (why reasons) {
	if g.Running.Live() == nil && g.Stage.Until != plugin.UntilSkip {
		why |= noModel
	}
	if g.WhenStale == spec.StaleHold {
		if _, isStale := g.Freshness.Age(); isStale {
			why |= staleModel
		}
	}
	if g.halt.Reason() != "" {
		why |= halted
	}
	if g.replica.Outdated() != "" {
		why |= outdated
	}
	return why
}

// check is reasons with a freshness that is up to date.
func (g *answerGate) check() reasons {
	why := g.reasons()
	if why&staleModel != 0 {
		g.replica.RefreshAge()
		why = g.reasons()
	}
	return why
}

// isWaitingForModel reports whether inputs wait for a model.
func (g *answerGate) isWaitingForModel() bool { return g.reasons()&waitsForModel != 0 }

// gatePoll is how often a waiting pipeline checks the gate. The first model is not polled for.
const gatePoll = 50 * time.Millisecond

// wait blocks while one of these reasons closes the gate. It returns false when ctx is done first.
func (g *answerGate) wait(ctx context.Context, among reasons) bool {
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
			ready = g.Running.Ready()
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
func (g *answerGate) report(why reasons) {
	switch {
	case why&outdated != 0:
		g.logged.outdated.Warn(g.Log, "nothing is answered here", "reason", g.replica.Outdated())
	case why&halted != 0: // an error was logged when it halted
	case why&staleModel != 0:
		age, _ := g.Freshness.Age()
		g.logged.stale.Warn(g.Log, "nothing is answered until the live model is confirmed or replaced", "age", age,
			"progress", g.progress())
	default:
		g.logged.noModel.Warn(g.Log, "nothing is answered until a first model exists", "progress", g.progress())
	}
}
