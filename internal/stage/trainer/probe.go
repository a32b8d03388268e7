package trainer

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model/fit"
)

// windowProbe estimates how far back the current concept extends, for methods that need the rows and are expensive to
// fit. It fits discriminants on nested suffixes, which is cheap since they come from moments, and scores them on every
// row before it is learned. The expensive method is fitted on the suffix whose discriminant is right most often.
type windowProbe struct {
	schedule policy.Schedule
	fitter   *fitter
	members  []*probeModel // longest suffix first
}

// probeModel is the discriminant of one suffix.
type probeModel struct {
	*prequential.Model
	size int // 0: the whole window
	lead policy.Lead
}

// score scores the discriminants on rows that none has seen.
func (p *windowProbe) score(ctx context.Context, refs *prequential.References, rows []window.Row, x []float64) {
	var whole []float64
	for _, c := range p.members { // the whole window is the first
		right := c.Score(ctx, refs, rows, x, true).Right
		if c.size == 0 {
			whole = right
			continue
		}
		for i := range rows {
			if whole != nil {
				c.lead.Add(right[i] - whole[i])
			}
		}
	}
}

// best is the suffix with the largest certain lead over the whole window, 0 if there is none.
func (p *windowProbe) best() int {
	size, most := 0, 0.0
	for _, c := range p.members {
		if mean, certain := c.lead.Mean(); certain && mean > most {
			size, most = c.size, mean
		}
	}
	return size
}

// cut starts over after a change.
func (p *windowProbe) cut(rows int) {
	p.members = nil
	p.schedule.Cut(rows)
}

// fitDue fits the discriminants that are due, or all of them.
func (p *windowProbe) fitDue(ctx context.Context, all bool) {
	rows := p.fitter.data.window.Len()
	due := p.schedule.Due(rows)
	if all {
		due = p.schedule.Sizes(rows)
	}
	for _, size := range due {
		p.fit(ctx, size)
	}
	p.schedule.Fit(due, rows)
}

// fit fits a discriminant on a suffix. The lead of its predecessors on that suffix stays.
func (p *windowProbe) fit(ctx context.Context, size int) {
	f := p.fitter
	n := cmp.Or(size, f.data.window.Len())
	f.data.sift()
	if f.draw(ctx) != nil {
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
	p.members[at].Model = prequential.New(m)
	slices.SortStableFunc(p.members, func(a, b *probeModel) int { return compareSizes(b.size, a.size) })
}

// restore takes the schedule and the leads from a checkpoint. It refits the discriminants, since the checkpoint stores
// only their sizes.
func (p *windowProbe) restore(ctx context.Context, s *probeState) {
	if s == nil {
		return
	}
	for _, size := range s.Sizes {
		p.fit(ctx, size)
	}
	for _, c := range p.members {
		if at := slices.Index(s.Sizes, c.size); at >= 0 && at < len(s.Leads) {
			c.lead = s.Leads[at]
		}
	}
	configured := p.schedule.Config
	p.schedule = s.Policy
	p.schedule.Config = configured
}

// state is what a checkpoint saves.
func (p *windowProbe) state() *probeState {
	s := &probeState{Policy: p.schedule}
	for _, c := range p.members {
		s.Sizes, s.Leads = append(s.Sizes, c.size), append(s.Leads, c.lead)
	}
	return s
}

// compareSizes orders sizes of suffixes; 0 is the whole window, the longest.
func compareSizes(a, b int) int {
	length := func(size int) int {
		if size == 0 {
			return math.MaxInt
		}
		return size
	}
	return cmp.Compare(length(a), length(b))
}
