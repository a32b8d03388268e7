package fit

import (
	"context"
	"fmt"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
)

// selection is the cross-validation of candidates.
type selection struct {
	c       Config
	p       *frame.Rows // all rows; when rank has begun, those that cross-validation looks at
	front   *front      // of the configuration, with these rows
	whole   *frame.Task // statistics of all rows
	dims    []int       // to try, ascending
	scales  []model.Scale
	entries []*entry
	blended *entry // of the best; nil: none
	leftOut []string
}

func newSelection(ctx context.Context, p *frame.Rows, c Config) (*selection, error) {
	whole := &frame.Task{Method: &frame.Method{Name: Auto, Supervised: true}, Scaling: c.Scale, Report: &model.Report{}}
	if err := whole.Load(ctx, p); err != nil {
		return nil, err
	}
	if whole.Columns == 0 {
		return nil, fmt.Errorf("no feature varies over %d rows", p.N)
	}
	a := &selection{c: c, p: p, front: c.front, whole: whole}
	classes := whole.Stat.Classes()
	if c.Dim > 0 {
		a.dims = []int{c.Dim}
	} else {
		a.open(2, 5, 10, blendDim, classes-1)
	}
	if c.Dim > whole.Columns {
		return nil, &model.DimError{Asked: c.Dim, Max: whole.Columns,
			What: whole.Explain(frame.RankOfTotal, whole.Columns)}
	}
	methods := candidates()
	if c.Method != Auto {
		m, err := lookup(c.Method)
		if err != nil {
			return nil, err
		}
		methods = []*frame.Method{m}
	}
	a.scales = []model.Scale{c.Scale}
	if c.Scale == model.ScaleAuto {
		a.scales = []model.Scale{model.ScaleStandard, model.ScaleNone, model.ScaleMinMax}
	}
	var views []view
	for _, scale := range a.scales {
		views = append(views, view{scale: scale})
	}
	if c.Nonlinear {
		views = append(views, view{scale: model.ScaleRank})
		for _, width := range widths {
			views = append(views, view{a.scales[0], curvedLandmarks, width})
		}
	}
	for _, v := range views {
		for _, m := range methods {
			if e := a.enter(m, v, classes); len(e.dims) > 0 {
				a.entries = append(a.entries, e)
			}
		}
	}
	return a, nil
}

// curvedLandmarks are those of the candidates of auto behind landmarks, and widths are what they try: how fast classes
// change between rows is what most decides there, and nothing but the rows can tell it.
const curvedLandmarks = 300

var widths = []float64{0.25, 1, 4}

// open has dimensions compared, as far as the rows and the configuration allow them.
func (a *selection) open(dims ...int) {
	most := min(a.whole.Columns, a.p.N-1)
	if a.c.MaxDim > 0 {
		most = min(most, a.c.MaxDim)
	}
	for _, d := range dims {
		a.dims = append(a.dims, max(1, min(d, most)))
	}
	slices.Sort(a.dims)
	a.dims = slices.Compact(a.dims)
}

// without is the choice where no rows can be held out.
func (a *selection) without() *model.Choice {
	choice := byMoments(a.c, a.whole.Stat.Classes(), a.whole.Columns)
	choice.Rule = "fewer than 2 classes have the 3 rows that cross-validation needs, or nothing varies in a part of the rows"
	return choice
}

// rank scores every entry and returns the table, best first: by rows that are
// right, then by more dimensions, then by the order of the candidates. nil where
// no rows can be held out.
func (a *selection) rank(ctx context.Context) ([]model.Score, error) {
	if len(a.entries) == 0 {
		return nil, nil
	}
	if len(a.entries) == 1 && len(a.entries[0].dims) == 1 {
		return a.table(), nil
	}
	pick, fold := frame.Folds(a.p, frame.MaxValidated, 3, 0)
	if fold == nil {
		return nil, nil
	}
	a.look(pick)
	if err := a.validate(ctx, a.entries); err != nil {
		return nil, err
	}
	if a.blends() {
		more := a.variants(a.best(refined))
		if err := a.validate(ctx, more); err != nil {
			return nil, err
		}
		a.entries = append(a.entries, more...)
		if err := a.blend(ctx); err != nil {
			return nil, err
		}
	}
	ranked := a.table()
	if len(ranked) > 0 && ranked[0].Scored == 0 {
		return nil, nil
	}
	return ranked, nil
}

// look leaves the rows that cross-validation looks at: what each fold shows of rows in a view of its own is then made of
// these alone.
func (a *selection) look(pick []int) {
	if len(pick) == a.p.N {
		return
	}
	a.p = a.p.Subset(pick)
	a.whole.Rows = a.p // what was prepared of the others is not held while a model is fitted to all
	if f := a.front; f != nil {
		a.front = &front{f.rows.Subset(pick), f.view, f.of}
	}
}

// table is the scores of all entries, best first.
func (a *selection) table() (ranked []model.Score) {
	for _, e := range a.entries {
		if !e.out {
			ranked = append(ranked, e.scores()...)
		}
	}
	slices.SortStableFunc(ranked, byScore)
	return ranked
}
