package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/embedd/embedd/internal/task"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/registry"
)

// On a leaf node the models come from its hub. A replica there continues with the model that it has while the hub is
// unreachable, and reports for how long; training.max_age bounds how old a model may get.

// mirror is the copy of the hub's models on a leaf node. A nil mirror is a replica whose models do not come from a hub.
type mirror struct {
	*scope.Scope
	edge   *registry.Edge
	opened time.Time
	sweeps *task.Task // sweep, at the start and when another model was adopted
	isAway bool       // whether the silence of the hub was logged; used by one goroutine
}

// text says that the hub is the trainer, and since when it is unreachable.
func (m *mirror) text() string {
	at := m.edge.HubAnsweredAt()
	switch {
	case at.IsZero():
		return fmt.Sprintf("the hub (domain %s) is the trainer, and has not answered yet", m.edge.Domain())
	case time.Since(at) > hubSilence:
		return fmt.Sprintf("the hub (domain %s) is the trainer, and has been unreachable since %s: its last model "+
			"stays live", m.edge.Domain(), health.Timestamp(at))
	}
	return fmt.Sprintf("the hub (domain %s) is the trainer", m.edge.Domain())
}

// sweepTimeout is how long the mirror may take to remove what the hub has removed.
const sweepTimeout = 5 * time.Second

// sweep removes from the mirror what the hub has removed.
func (m *mirror) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if err := m.edge.Sweep(ctx, m.Name); err != nil {
		m.Log.Debug("models that the hub has removed stay in the mirror until the next one is adopted", "error", err)
	}
}

// silence is how long ago the hub last answered or, if it has not yet, the mirror was opened.
func (m *mirror) silence() time.Duration {
	if at := m.edge.HubAnsweredAt(); !at.IsZero() {
		return time.Since(at)
	}
	return time.Since(m.opened)
}

// ReportHub logs once that the hub is unreachable, and that it is back. One goroutine calls it.
func (m *mirror) ReportHub() {
	if m == nil {
		return
	}
	switch away := m.silence() > hubSilence; {
	case away && !m.isAway:
		m.Log.Warn("the hub does not answer; its last model stays live", "domain", m.edge.Domain())
		m.isAway = true
	case !away && m.isAway:
		m.Log.Info("the hub answers", "domain", m.edge.Domain())
		m.isAway = false
	}
}
