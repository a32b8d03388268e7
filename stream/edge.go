package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/registry"
)

// At a leaf node the models come from its hub. A replica there goes on with the model that it has while the hub is away,
// and says for how long: what a model that grows old may do is training.max_age.

// hubSilent is for how long a hub that says nothing is not yet said to be away: it is asked four times in it.
const hubSilent = registry.Within

// hubText says who learns, and since when nobody is known to.
func (p *pipeline) hubText() string {
	at := p.hub.Heard()
	switch {
	case at.IsZero():
		return fmt.Sprintf("the hub (domain %s) learns, and has not answered yet", p.hub.Domain())
	case time.Since(at) > hubSilent:
		return fmt.Sprintf("the hub (domain %s) learns, and is away since %s: the model of then answers on", p.hub.Domain(),
			stamp(at))
	}
	return fmt.Sprintf("the hub (domain %s) learns", p.hub.Domain())
}

// sweepWait is how long the mirror may take to remove what the hub has removed.
const sweepWait = 5 * time.Second

// sweepMirror takes out of the mirror what the hub has not any more, each time that another model has come, until ctx is
// done.
func (p *pipeline) sweepMirror(ctx context.Context) {
	for {
		select {
		case <-p.came:
		case <-ctx.Done():
			return
		}
		sweep, cancel := context.WithTimeout(ctx, sweepWait)
		if err := p.hub.Sweep(sweep, p.Name); err != nil {
			p.Log.Debug("models that the hub has removed stay in the mirror until the next comes", "error", err)
		}
		cancel()
	}
}

// lookHub notes for how long the hub has said nothing, and says once that it is away, and that it is back.
func (p *pipeline) lookHub() {
	if p.hub == nil {
		return
	}
	silence := time.Since(p.opened)
	if at := p.hub.Heard(); !at.IsZero() {
		silence = time.Since(at)
	}
	p.Series.Set(health.HubSilence, silence.Seconds())
	switch away := silence > hubSilent; {
	case away && !p.hubAway:
		p.Log.Warn("the hub does not answer; the model that is here answers on", "domain", p.hub.Domain())
		p.hubAway = true
	case !away && p.hubAway:
		p.Log.Info("the hub answers", "domain", p.hub.Domain())
		p.hubAway = false
	}
}
