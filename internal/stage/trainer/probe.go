package trainer

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// windowProbe estimates how far back the current concept extends, for methods that need the rows and are expensive to
// fit. It fits discriminants on nested suffixes, which is cheap since they come from moments, and scores them on every
// row before it is learned. The expensive method is fitted on the suffix that a stage of discriminants would follow.
type windowProbe struct {
	schedule policy.Schedule
	fitter   *fitter
	members  []*probeModel // longest suffix first
	rules    policy.Rules  // of their suffixes
}

// probeModel is the discriminant of one suffix.
type probeModel struct {
	*prequential.Model
	size int // 0: the whole window
}

// score scores the discriminants on rows that none has seen, and returns the suffix whose rule is better than that of
// the whole window, 0 if none is.
func (p *windowProbe) score(ctx context.Context, g spec.Gate, rows []window.Row, x []float64,
	sampled []evidence.Row) int {
	rules := make([]policy.RuleOutcomes, len(p.members))
	for k, c := range p.members {
		rules[k] = policy.RuleOutcomes{Size: c.size, Right: c.Score(ctx, p.fitter.data.references, rows, x, true).NearestMean}
	}
	if len(rules) > 0 && rules[0].Size == 0 { // it takes the place of a live model
		p.rules.Add(g, rules, rules[0].Right, sampled)
		p.rules.Choose(g, p.fitter.data.window.Len())
	}
	return p.rules.Followed
}

// cut starts over after a change.
func (p *windowProbe) cut(rows int) {
	p.members, p.rules = nil, policy.Rules{}
	p.schedule.Cut(rows)
}

// fitDue fits the discriminants that are due, or all of them.
func (p *windowProbe) fitDue(ctx context.Context, all bool) {
	rows := p.fitter.data.window.Len()
	due := p.schedule.Due(rows, 0)
	if all {
		due = p.schedule.Sizes(rows)
	}
	for _, size := range due {
		p.fit(ctx, size)
	}
	p.schedule.RecordFits(due, rows)
}

// fit fits a discriminant on a suffix. The evidence for the rule of the suffix stays.
func (p *windowProbe) fit(ctx context.Context, size int) {
	f := p.fitter
	n := cmp.Or(size, f.data.window.Len())
	if f.prepare(ctx) != nil {
		return
	}
	s, err := f.data.window.Newest(ctx, n)
	if err != nil {
		return
	}
	m, err := f.fitMoments(ctx, s, fit.Config{Method: "lda", Scale: f.plan.settings.Scale})
	if err != nil {
		return // a suffix without a discriminant is never chosen
	}
	at := slices.IndexFunc(p.members, func(c *probeModel) bool { return c.size == size })
	if at < 0 {
		at = len(p.members)
		p.members = append(p.members, &probeModel{size: size})
	}
	next := prequential.New(m)
	if old := p.members[at].Model; old != nil {
		next.ReuseMemory(old)
	}
	p.members[at].Model = next
	slices.SortStableFunc(p.members, func(a, b *probeModel) int { return compareSizes(b.size, a.size) })
}

// probeState is what a checkpoint saves of the window probe.
type probeState struct {
	Policy policy.Schedule `json:"policy"`
	Sizes  []int           `json:"sizes"`
	Rules  policy.Rules    `json:"rules"`
}

// restore takes the schedule and the rules from a checkpoint. It refits the discriminants, since the checkpoint stores
// only their sizes.
func (p *windowProbe) restore(ctx context.Context, s *probeState) {
	if s == nil {
		return
	}
	for _, size := range s.Sizes {
		p.fit(ctx, size)
	}
	configured := p.schedule.Config
	p.schedule, p.rules = s.Policy, s.Rules.Restored(p.fitter.plan.config.Training.Gate)
	p.schedule.Config = configured
}

// state returns the state for a checkpoint.
func (p *windowProbe) state() *probeState {
	s := &probeState{Policy: p.schedule, Rules: p.rules}
	for _, c := range p.members {
		s.Sizes = append(s.Sizes, c.size)
	}
	return s
}

// compareSizes orders sizes of suffixes; 0 is the whole window, the longest.
func compareSizes(a, b int) int {
	return cmp.Compare(cmp.Or(a, math.MaxInt), cmp.Or(b, math.MaxInt))
}
