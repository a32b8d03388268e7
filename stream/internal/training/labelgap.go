package training

import (
	"fmt"
	"sync"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/stream/internal/health"
)

// maxUnlabelled is the number of rows without a label after which the condition NoLabels holds.
const maxUnlabelled = 1000

// labelGap counts the rows since the last label, and sets the condition NoLabels. Late labels come later than their
// rows: then the rows must also be older than labels may be late. The zero value has seen no row. Safe for concurrent
// use.
type labelGap struct {
	mu    sync.Mutex
	rows  int
	first time.Time // of the first of them
}

// addRows counts the rows of a message; m is nil if the hot path found no label in it.
func (g *labelGap) addRows(p *Path, received *Message, m *arrowio.Message) {
	if p.Stage.Spec.Label == "" || !p.Learns() {
		return
	}
	rows, isLabelled := received.rows, false
	if m != nil {
		rows, isLabelled = m.Rows(), hasLabel(m)
	}
	if isLabelled {
		g.end(p)
		return
	}
	if reason := g.add(p, rows, received.Time); reason != "" {
		p.Log.Warn("no labels arrive", "reason", reason)
	}
}

// add counts rows, and returns the reason of the condition if it holds since then.
func (g *labelGap) add(p *Path, rows int, at time.Time) (reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rows == 0 {
		g.first = at
	}
	g.rows += rows
	if g.rows < maxUnlabelled || p.HasLateLabels() && at.Sub(g.first) < p.Running.LabelLimits().Wait {
		return ""
	}
	from := fmt.Sprintf("in column %q: check that the publishers fill it", p.Stage.Spec.Label)
	if p.HasLateLabels() {
		from = fmt.Sprintf("on %s: check that labels are published there, with column %q", p.Labels, p.Stage.Spec.Label)
	}
	reason = fmt.Sprintf("none of the last %d rows has a label %s, or set schema.label to \"\" for a method that needs "+
		"none", g.rows, from)
	if !p.Conditions.Set(health.NoLabels, reason) {
		return ""
	}
	return reason
}

// end ends the gap: a label arrived.
func (g *labelGap) end(p *Path) {
	g.mu.Lock()
	g.rows = 0
	had := p.Conditions.Clear(health.NoLabels)
	g.mu.Unlock()
	if had {
		p.Log.Info("labels arrive again")
	}
}

// hasLabel reports whether a row of a message has a label.
func hasLabel(m *arrowio.Message) bool {
	for _, b := range m.Batches() {
		for i := range b.Rows() {
			if _, ok := b.Label(i); ok {
				return true
			}
		}
	}
	return false
}
