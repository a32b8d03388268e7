package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/embedd/embedd/stream/internal/health"
)

// On a leaf node the models come from its hub. A replica there continues with the model that it has while the hub is
// unreachable, and reports for how long; training.max_age bounds how old a model may get.

// hubText says that the hub is the trainer, and since when it is unreachable.
func (r *Replica) hubText() string {
	at := r.Hub.HubAnsweredAt()
	switch {
	case at.IsZero():
		return fmt.Sprintf("the hub (domain %s) is the trainer, and has not answered yet", r.Hub.Domain())
	case time.Since(at) > hubSilence:
		return fmt.Sprintf("the hub (domain %s) is the trainer, and is unreachable since %s: its model of then stays live", r.Hub.Domain(),
			at.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the hub (domain %s) is the trainer", r.Hub.Domain())
}

// sweepTimeout is how long the mirror may take to remove what the hub has removed.
const sweepTimeout = 5 * time.Second

// sweepMirror removes from the mirror what the hub has removed, each time that another model was adopted, until ctx is
// done.
func (r *Replica) sweepMirror(ctx context.Context) {
	for {
		select {
		case <-r.adopted:
		case <-ctx.Done():
			return
		}
		sweep, cancel := context.WithTimeout(ctx, sweepTimeout)
		if err := r.Hub.Sweep(sweep, r.Name); err != nil {
			r.Log.Debug("models that the hub has removed stay in the mirror until the next one is adopted", "error", err)
		}
		cancel()
	}
}

// ReportHub updates the metric of the hub's silence, and logs once that it is unreachable, and that it is back. One
// goroutine calls it.
func (r *Replica) ReportHub() {
	if r.Hub == nil {
		return
	}
	silence := time.Since(r.opened)
	if at := r.Hub.HubAnsweredAt(); !at.IsZero() {
		silence = time.Since(at)
	}
	r.Series.Set(health.HubSilence, silence.Seconds())
	switch isAway := silence > hubSilence; {
	case isAway && !r.hubAway:
		r.Log.Warn("the hub does not answer; the model that is here stays live", "domain", r.Hub.Domain())
		r.hubAway = true
	case !isAway && r.hubAway:
		r.Log.Info("the hub answers", "domain", r.Hub.Domain())
		r.hubAway = false
	}
}
