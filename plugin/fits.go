package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/window"
)

// candidate is a model that is scored beside the live one.
type candidate struct {
	view
	size  int // of its suffix, 0: the whole window
	rows  int // that it was fitted on
	first window.Position
	last  window.Position
	standing
}

// fitAll fits every suffix.
func (t *trainer) fitAll(ctx context.Context) {
	sizes := t.policy.sizes(t.window.Len())
	for _, size := range sizes {
		t.fitCandidate(ctx, size)
	}
	t.policy.began(sizes, t.window.Len())
}

// fitOthers fits every suffix but that of the model that is to go live.
func (t *trainer) fitOthers(ctx context.Context, c *candidate) {
	var sizes []int
	for _, size := range t.policy.sizes(t.window.Len()) {
		if c != nil && size != c.size && t.policy.nested {
			t.fitCandidate(ctx, size)
			sizes = append(sizes, size)
		}
	}
	t.policy.began(sizes, t.window.Len())
}

// fitFirst makes the first model, which needs no evidence.
func (t *trainer) fitFirst(ctx context.Context) {
	begin := t.config.Clock()
	t.marks = landmarks{} // of a first fit that failed
	s, m, err := t.fit(ctx, 0, t.settled)
	t.policy.began([]int{0}, t.window.Len())
	if err == nil {
		t.settle(m, m.Report().Choice)
		t.policy.chose(t.window.Len())
		err = t.promote(ctx, m, s, nil, fmt.Sprintf("the first model, of %d rows", s.Rows), begin)
	}
	t.failed(ctx, err, t.window.Len())
}

// settle keeps the number of outputs and what auto chose: readers rely on the one, and a change of method moves all.
func (t *trainer) settle(m *model.Model, choice *model.Choice) {
	if choice != nil && choice.Rule == "cv" {
		t.choice = choice
		t.settled = t.config.Fit.Settled(choice)
		t.settled.Pad = true
	}
	t.settled.Dim = m.Dim()
	if method, err := t.settled.Describe(); err == nil && method.Name != fit.Auto {
		t.method = method
		t.policy.nested = t.byMoments()
	}
}

// choose asks auto again, with more rows than it had, or others. The method stays while no other is better by more than
// the noise; where one is, the candidates from now on are fitted by it, and have to earn their place as any.
func (t *trainer) choose(ctx context.Context) {
	t.policy.chose(t.window.Len())
	c := t.config.Fit
	c.Dim, c.Pad = t.settled.Dim, true
	t.sift()
	if err := t.draw(ctx); err != nil {
		t.failed(ctx, err, t.window.Len())
		return
	}
	s := t.window.NewestRows(t.window.Len())
	m, err := t.fitRows(ctx, s, c)
	t.stage.learner.counted()
	if err != nil {
		t.failed(ctx, fmt.Errorf("choosing the method from %d rows: %w", s.Rows, err), t.window.Len())
		return
	}
	choice := m.Report().Choice
	if choice == nil || choice.Rule != "cv" || choice.Method == t.method.Name || near(choice, t.method.Name) {
		return
	}
	t.log.Info("auto takes another method for candidates", "before", t.method.Name, "now", choice.Method, "rows", s.Rows)
	t.settle(m, choice)
	t.candidates, t.policy.Fitted = nil, nil
}

// near tells whether a method scored within one standard error of the one that was chosen, at its dimension.
func near(c *model.Choice, method string) bool {
	chosen := c.Scores[0]
	for _, s := range c.Scores {
		if s.Method == method && s.Dim == c.Dim && s.Scored > 0 {
			p, n := float64(chosen.Correct)/float64(chosen.Scored), float64(chosen.Scored)
			return float64(chosen.Correct-s.Correct) <= math.Sqrt(n*p*(1-p))
		}
	}
	return false
}

// data is a suffix as a fit from rows takes it.
func (t *trainer) data(s *window.Suffix) *model.Data {
	d := &model.Data{X: s.X, N: s.Rows, M: t.policy.features, Features: t.stage.Features()}
	if t.labelled() {
		d.Y, d.Classes = s.Y, s.Classes
	}
	return d
}

// fitCandidate fits a suffix anew. A candidate of that suffix that was there goes on with the evidence that its
// predecessors gathered: each row was scored before a model saw it, so the evidence is for the suffix, however often it
// was fitted.
func (t *trainer) fitCandidate(ctx context.Context, size int) {
	if ctx.Err() != nil {
		return
	}
	s, m, err := t.fit(ctx, size, t.settled)
	if err != nil {
		t.failed(ctx, err, t.window.Len())
		return
	}
	if !t.policy.nested && size > 0 { // it takes the place of the suffix before
		t.candidates = slices.DeleteFunc(t.candidates, func(c *candidate) bool { return c.size > 0 && c.size != size })
	}
	c := t.candidateOf(size)
	growing := grown(s.Rows, t.live.model.Rows()) || appeared(s, t.live.model)
	if c == nil {
		c = &candidate{size: size}
		c.Test = t.config.Training.Gate.begin(growing)
		c.Growing = growing
		t.candidates = append(t.candidates, c)
		slices.SortFunc(t.candidates, func(a, b *candidate) int { return longer(b.size) - longer(a.size) })
	} else if growing && !c.Growing {
		c.Growing, c.Test = true, t.config.Training.Gate.begin(true)
	}
	agree := c.agree
	c.view = *newView(m)
	c.view.agree = agree
	c.rows, c.first, c.last = s.Rows, s.First, s.Last
}

func longer(size int) int {
	if size == 0 {
		return math.MaxInt
	}
	return size
}

func (t *trainer) candidateOf(size int) *candidate {
	for _, c := range t.candidates {
		if c.size == size {
			return c
		}
	}
	return nil
}

// fit fits one suffix.
func (t *trainer) fit(ctx context.Context, size int, c fit.Config) (s *window.Suffix, m *model.Model, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fitting %s panicked: %v; please report it", t.method.Name, p)
		}
	}()
	n := size
	if n == 0 {
		n = t.window.Len()
	}
	t.sift()
	if err := t.draw(ctx); err != nil {
		return nil, nil, err
	}
	if t.byMoments() {
		s, err = t.window.Newest(ctx, n)
		if err != nil {
			return nil, nil, err
		}
		m, err = t.fitMoments(ctx, s, c)
	} else {
		s = t.window.NewestRows(n)
		m, err = t.fitRows(ctx, s, c)
	}
	t.stage.learner.counted()
	if err != nil {
		return nil, nil, fmt.Errorf("fitting on %d rows: %w", s.Rows, err)
	}
	return s, m, nil
}

// failed tells of an error, now and then where many fits fail.
func (t *trainer) failed(ctx context.Context, err error, rows int) {
	if err == nil || ctx.Err() != nil {
		return
	}
	if t.failedAt > 0 && t.policy.Learned-t.failedAt < failedRows && t.policy.Learned >= t.failedAt {
		return
	}
	t.failedAt = max(t.policy.Learned, 1)
	attrs := []any{"rows", rows, "error", err}
	if p := model.Panic(nil); errors.As(err, &p) {
		attrs = append(attrs, "stack", string(p.Stack()))
	}
	what := "a fit failed; the live model stays"
	if t.stage.Live() == nil {
		what = "a fit failed; no model is live yet"
	}
	t.log.Error(what, attrs...)
	t.stage.learner.ended(Outcome{Live: t.stage.Live(), Candidate: math.NaN(), Previous: math.NaN(), Rows: rows,
		Reason: err.Error(), Err: err})
}

// failedRows is how many rows go by between two reports of failed fits.
const failedRows = 1000
