package choose

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/internal/preprocess"
	"github.com/embedd/embedd/model/pencil"
)

// selection is the candidates of one choice.
type selection struct {
	c          Config
	v          *validator
	total      *frame.Task // statistics of all rows
	dims       []int       // to try, ascending
	scales     []model.Scale
	candidates []*candidate
	blend      *candidate // of the best; nil: none
	scratch    blend.Scratch
}

// Landmarks is the number of landmarks that a nonlinear choice tries.
const Landmarks = 300

// widths are the kernel widths it tries. How fast classes change from row to row decides between them, and only the
// rows show that.
var widths = []float64{0.25, 1, 4}

func newSelection(ctx context.Context, p *frame.Rows, c Config) (*selection, error) {
	total := &frame.Task{Method: &frame.Method{Name: Name, Supervised: true}, Scaling: c.Scale, Report: &model.Report{}}
	if err := total.Load(ctx, p); err != nil {
		return nil, err
	}
	if total.Columns == 0 {
		return nil, fmt.Errorf("no feature varies over %d rows: give features that do", p.N)
	}
	s := &selection{c: c, total: total, v: &validator{c: c, rows: p}}
	classes := total.Basis.Classes()
	if c.Dim > 0 {
		s.dims = []int{c.Dim}
	} else {
		s.addDims(2, 5, 10, blend.MinDim, classes-1)
	}
	if c.Dim > total.Columns {
		return nil, &model.DimError{Asked: c.Dim, Max: total.Columns,
			What: total.Explain(frame.RankOfTotal, total.Columns)}
	}
	methods := []*frame.Method{c.Method}
	if c.isAuto() {
		methods = method.Candidates()
	}
	s.scales = []model.Scale{c.Scale}
	if c.Scale == model.ScaleAuto {
		s.scales = []model.Scale{model.ScaleStandard, model.ScaleNone, model.ScaleMinMax}
	}
	s.v.inner = s.scales[0]
	var specs []preprocess.Spec
	for _, scale := range s.scales {
		specs = append(specs, preprocess.Spec{Scale: scale})
	}
	if c.Nonlinear {
		specs = append(specs, preprocess.Spec{Scale: model.ScaleRank})
		for _, width := range widths {
			specs = append(specs, preprocess.Spec{Scale: s.scales[0], Landmarks: Landmarks, Width: width})
		}
	}
	for _, spec := range specs {
		for _, m := range methods {
			if e := s.newCandidate(m, spec, classes); len(e.dims) > 0 {
				s.candidates = append(s.candidates, e)
			}
		}
	}
	s.v.single = len(s.candidates) == 1
	return s, nil
}

// newCandidate makes a candidate. It has no dimensions if the method is not tried with this preprocessing.
func (s *selection) newCandidate(m *frame.Method, spec preprocess.Spec, classes int) *candidate {
	e := &candidate{method: m, spec: spec, params: map[string]string{}}
	for _, p := range m.Params {
		e.params[p.Name] = p.Default
	}
	t := *s.total
	t.Method = m
	bound, _ := m.MaxDim(&t)
	isAuto := s.c.isAuto()
	for _, d := range s.dims {
		switch {
		case isAuto && m.Auto.Tried != nil && !m.Auto.Tried(d, classes, s.v.rows.N <= MaxFewRows):
		case isAuto && spec.Scale != s.scales[0] && m.Auto.OneScale:
		case isAuto && spec.Landmarks > 0 && m.Auto.OneScale && !s.c.hasFewOutputs():
		case spec.Landmarks > 0 && !m.Auto.Landmarks:
		case d <= bound:
			e.dims = append(e.dims, d)
		case !isAuto && len(e.dims) == 0:
			e.dims = append(e.dims, bound)
		}
	}
	if !isAuto {
		maps.Copy(e.params, s.c.Params)
	} else if ridge := s.c.Params["ridge"]; m.Ridge != nil && ridge != "" && ridge != "auto" {
		e.params["ridge"] = ridge
	}
	e.params = paramsInFolds(m, e.params)
	if isAuto { // members of a blend keep the parameters of the folds
		for _, name := range append(slices.Collect(maps.Keys(m.InFolds)), "ridge") {
			if v, ok := e.params[name]; ok {
				if e.changed == nil {
					e.changed = map[string]string{}
				}
				e.changed[name] = v
			}
		}
	}
	e.reset(isAuto)
	return e
}

// addDims adds dimensions to compare, limited by the rows and the configuration.
func (s *selection) addDims(dims ...int) {
	most := min(s.total.Columns, s.v.rows.N-1)
	if s.c.MaxDim > 0 {
		most = min(most, s.c.MaxDim)
	}
	for _, d := range dims {
		s.dims = append(s.dims, max(1, min(d, most)))
	}
	slices.Sort(s.dims)
	s.dims = slices.Compact(s.dims)
}

// maxRefined is how many of the best candidates are tried with other parameters: trying all would take three times as
// long.
const maxRefined = 5

// rank scores every candidate and returns all scores, best first: by correct rows, then by more dimensions, then in the
// order of the candidates. It returns nil if no rows can be held out.
func (s *selection) rank(ctx context.Context) ([]model.Score, error) {
	if len(s.candidates) == 0 {
		return nil, nil
	}
	if len(s.candidates) == 1 && len(s.candidates[0].dims) == 1 {
		return s.scores(), nil
	}
	pick, fold := frame.Folds(s.v.rows, frame.MaxValidated, folds, 0)
	if fold == nil {
		return nil, nil
	}
	s.keepRows(pick)
	ctx = pencil.WithoutResidual(ctx)
	if err := s.v.run(ctx, s.candidates); err != nil {
		return nil, err
	}
	if s.c.blends() {
		var more []*candidate
		for _, e := range s.bestBlendable(maxRefined) {
			// Variants cannot have more than all rows correct, but may be better by the linear classifier of few outputs.
			if best := e.best(); best.Correct < float64(best.Scored) || s.c.hasFewOutputs() {
				more = append(more, e.variants()...)
			}
		}
		if err := s.v.run(ctx, more); err != nil {
			return nil, err
		}
		s.v.intermediates = nil
		s.candidates = append(s.candidates, more...)
		if err := s.makeBlend(ctx); err != nil {
			return nil, err
		}
	}
	ranked := s.scores()
	if len(ranked) > 0 && ranked[0].Scored == 0 {
		return nil, nil
	}
	return ranked, nil
}

// keepRows keeps the rows that cross-validation uses and drops the others, so that preprocessing in the folds is made
// of these alone.
func (s *selection) keepRows(pick []int) {
	if len(pick) == s.v.rows.N && !s.v.rows.IsStored() {
		return
	}
	s.v.rows = s.v.rows.Subset(pick)
	s.total.Rows = s.v.rows
	if s.v.c.Applied != nil {
		s.v.c.Applied = s.v.c.Applied.Subset(pick)
	}
}

// scores are those of all candidates, best first.
func (s *selection) scores() (ranked []model.Score) {
	for _, e := range s.candidates {
		if !e.excluded {
			ranked = append(ranked, e.scores()...)
		}
	}
	slices.SortStableFunc(ranked, compareScores)
	return ranked
}

// candidateOf returns the candidate, or the blend, that has a score.
func (s *selection) candidateOf(score model.Score) *candidate {
	if s.blend != nil && s.blend.has(score) {
		return s.blend
	}
	return s.candidates[slices.IndexFunc(s.candidates, func(e *candidate) bool { return e.has(score) })]
}

// preferSmaller moves a smaller dimension of the best candidate to the front: of a given method the smallest that is
// not significantly worse than its best. Where methods are compared that is done only if the best dimension is every
// column, and only without a loss, unless as few as possible are asked for. The note says that another dimension has
// more correct rows.
func (s *selection) preferSmaller(ranked []model.Score) (note string) {
	best := ranked[0]
	byLoss := s.c.isAuto() && !s.c.Fewest
	if byLoss && best.Dim < s.total.Columns {
		return ""
	}
	e := s.candidateOf(best)
	d := smallest(e, best.Dim, s.v.rows.N)
	if byLoss {
		d = withoutLoss(e, best.Dim, s.total.Columns, s.v.rows.N)
	}
	moveToFront(ranked, slices.IndexFunc(ranked, func(x model.Score) bool {
		return x.Dim == d && s.candidateOf(x) == e
	}))
	if best.Correct > ranked[0].Correct {
		note = fmt.Sprintf("%s at %d has more rows right, but by less than half a standard error of the difference",
			best.Method, best.Dim)
	}
	return note
}

func (s *selection) withoutScores() *model.Choice {
	choice := WithoutScores(s.c, s.total.Basis.Classes(), s.total.Columns)
	choice.Rule = frame.ExplainFolds(s.v.rows) + ", or nothing varies in a part of the rows"
	return choice
}

// result turns the ranked scores into choices.
func (s *selection) result(ctx context.Context, ranked []model.Score, start time.Time) *Result {
	r := &Result{from: s, ranked: ranked, common: model.Choice{Chosen: s.c.Open(), Rule: "cv", Rounds: s.v.rounds(),
		LeftOut: s.v.leftOut, Seconds: time.Since(start).Seconds()}}
	r.Candidates = r.candidates
	if i := s.bestRival(ctx, ranked); i >= 0 {
		moveToFront(ranked, i)
		r.Note = "no blend: one candidate has more correct held-out rows, counted by nearest neighbours and by a linear " +
			"classifier together"
	} else if s.blend != nil {
		all := append(s.blend.scores(), ranked...)
		r.Blend = r.choice(model.Score{Method: blend.Name, Dim: s.chosenBlendDim()})
		r.Blend.Members = s.blend.members
		r.Blend.Scores = s.table(all, all[0], r.Blend.Dim)
	}
	if note := s.preferSmaller(ranked); r.Note == "" {
		r.Note = note
	}
	s.release()
	return r
}
