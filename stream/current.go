package stream

import (
	"context"
	"fmt"
	"time"
)

// An epoch that is over must not go on at a replica that does not hear of it. So one that does not know what is live for
// AdoptWithin takes no more inputs, and gives back those that it has taken; others answer them.

// within is how soon what is live is known, of which the store is asked four times; 0: the registry's default. A hub is
// asked as often as its silence is told of (hubSilent), however long a replica may live with what it has.
func (p *pipeline) within() time.Duration {
	within := max(p.AdoptWithin, 0)
	if p.ModelsFromHub() {
		within = min(within, hubSilent)
	}
	return within
}

// outdated says why this replica may not answer, "" where it may.
func (p *pipeline) outdated() string {
	if p.models == nil || p.leases == nil || p.AdoptWithin < 0 {
		return ""
	}
	reached := p.models.Reached()
	if time.Since(reached) <= p.AdoptWithin {
		return ""
	}
	text := fmt.Sprintf("the model store has not said since %s which model is live (nats.adopt_within is %v): nothing is taken meanwhile",
		stamp(reached), p.AdoptWithin)
	if trouble := p.models.Trouble(); trouble != "" {
		text += "; " + trouble
	}
	return text
}

// awaitCurrent waits while this replica may not answer; false where ctx is done first.
func (p *pipeline) awaitCurrent(ctx context.Context) bool {
	for why := p.outdated(); why != ""; why = p.outdated() {
		p.told.outdated.Warn(p.Log, "nothing is answered here", "reason", why)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}
