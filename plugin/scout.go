package plugin

import (
	"context"
	"math"
	"slices"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/window"
)

// scouts tell a method that needs the rows how far back the world is as it is now: discriminants of nested suffixes,
// which cost little since they come from moments, are scored on every row before it is learned. The suffix whose
// discriminant is right most often is the one that the dear fit is made from.
type scouts struct {
	policy  policy
	members []*scout
}

// scout is the discriminant of one suffix.
type scout struct {
	view
	size int // 0: the whole window
	lead lead
}

// maxScoutFeatures bounds what scouts cost: a fit takes m^3.
const maxScoutFeatures = 1024

func newScouts() *scouts { return &scouts{policy: policy{nested: true}} }

// score asks every scout about rows that none has seen.
func (s *scouts) score(ctx context.Context, refs *references, rows []window.Row, x []float64) {
	var whole []float64
	for _, c := range s.members { // the whole window is the first
		right := c.judge(ctx, refs, rows, x, true).right
		if c.size == 0 {
			whole = right
			continue
		}
		for i := range rows {
			if whole != nil {
				c.lead.add(right[i] - whole[i])
			}
		}
	}
}

// best is the suffix to fit from: the one that leads the whole window by most, 0 where none does.
func (s *scouts) best() int {
	size, most := 0, 0.0
	for _, c := range s.members {
		if mean, sure := c.lead.mean(); sure && mean > most {
			size, most = c.size, mean
		}
	}
	return size
}

// cut begins anew after a change.
func (s *scouts) cut(rows int) {
	s.members = nil
	s.policy.cut(rows)
}

// lead is by how much one model is right more often than another, on the last 500 to 1,000 rows.
type lead struct {
	Last   led `json:"last"`
	Before led `json:"before"`
}

type led struct {
	Rows    float64 `json:"rows"`
	Sum     float64 `json:"sum"`
	Squares float64 `json:"squares"`
}

func (l *lead) add(v float64) {
	if l.Last.Rows >= agreementRows {
		l.Before, l.Last = l.Last, led{}
	}
	l.Last.Rows++
	l.Last.Sum += v
	l.Last.Squares += v * v
}

// mean is the lead, and whether it is more than a tie by two standard errors. A choice of rows needs less than a
// change of models: what is fitted from them has to earn its place all the same.
func (l *lead) mean() (mean float64, sure bool) {
	n := l.Last.Rows + l.Before.Rows
	if n < leastRows {
		return 0, false
	}
	mean = (l.Last.Sum + l.Before.Sum) / n
	spread := math.Sqrt(max((l.Last.Squares+l.Before.Squares)/n-mean*mean, 0) / n)
	return mean, mean > tie+2*spread
}

// scouting tells whether the method, or what auto settled on, has scouts.
func (t *trainer) scouting() bool { return t.scouts != nil && !t.byMoments() }

// scout fits the scouts that are due, or all of them.
func (t *trainer) scout(ctx context.Context, all bool) {
	if !t.scouting() {
		return
	}
	s, rows := t.scouts, t.window.Len()
	due := s.policy.due(rows)
	if all {
		due = s.policy.sizes(rows)
	}
	for _, size := range due {
		t.fitScout(ctx, size)
	}
	s.policy.began(due, rows)
}

// fitScout fits one scout anew; what its predecessors showed speaks for the suffix, as with candidates.
func (t *trainer) fitScout(ctx context.Context, size int) {
	n := size
	if n == 0 {
		n = t.window.Len()
	}
	t.sift()
	if t.draw(ctx) != nil {
		return
	}
	w, err := t.window.Newest(ctx, n)
	if err != nil {
		return
	}
	m, err := t.fitMoments(ctx, w, fit.Config{Method: "lda", Scale: t.settled.Scale})
	if err != nil {
		return // rows that a discriminant cannot be fitted from choose no suffix
	}
	at := slices.IndexFunc(t.scouts.members, func(c *scout) bool { return c.size == size })
	if at < 0 {
		at = len(t.scouts.members)
		t.scouts.members = append(t.scouts.members, &scout{size: size})
	}
	t.scouts.members[at].view = *newView(m)
	slices.SortStableFunc(t.scouts.members, func(a, b *scout) int { return longer(b.size) - longer(a.size) })
}
