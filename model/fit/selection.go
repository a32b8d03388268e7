package fit

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/score"
)

// selection is the cross-validation of candidates.
type selection struct {
	c       Config
	p       *frame.Rows
	whole   *frame.Task // statistics of all rows
	dims    []int       // to try, ascending
	entries []entry
	leftOut []string
}

// entry is one method at the dimensions it can reach.
type entry struct {
	method *frame.Method
	params map[string]string
	dims   []int
}

// scan is what the candidates share: samples and statistics of labelled rows.
var scan = frame.Method{Name: Auto, Supervised: true, Samples: true}

func newSelection(ctx context.Context, p *frame.Rows, c Config) (*selection, error) {
	whole := &frame.Task{Method: &frame.Method{Name: Auto, Supervised: true}, Scaling: c.Scale, Report: &model.Report{}}
	if err := whole.Load(ctx, p); err != nil {
		return nil, err
	}
	if whole.Columns == 0 {
		return nil, fmt.Errorf("no feature varies over %d rows", p.N)
	}
	a := &selection{c: c, p: p, whole: whole}
	classes := whole.Stat.Classes()
	if c.Dim > 0 {
		a.dims = []int{c.Dim}
	} else {
		for _, d := range []int{2, 5, 10, 20, classes - 1} {
			a.dims = append(a.dims, max(1, min(d, whole.Columns, p.N-1)))
		}
		slices.Sort(a.dims)
		a.dims = slices.Compact(a.dims)
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
	for _, m := range methods {
		if e := a.enter(m, classes); len(e.dims) > 0 {
			a.entries = append(a.entries, e)
		}
	}
	return a, nil
}

// enter is the entry of a method, without dimensions where it does not take part.
func (a *selection) enter(m *frame.Method, classes int) entry {
	e := entry{method: m, params: map[string]string{}}
	for _, p := range m.Params {
		e.params[p.Name] = p.Default
	}
	t := *a.whole
	t.Method = m
	bound, _ := m.Bound(&t)
	chosen := a.c.Method == Auto
	for _, d := range a.dims {
		switch {
		case chosen && m.Auto.Tried != nil && !m.Auto.Tried(d, classes, a.p.N <= fewRows):
		case d <= bound:
			e.dims = append(e.dims, d)
		case !chosen && len(e.dims) == 0:
			e.dims = append(e.dims, bound)
		}
	}
	if !chosen {
		for name, v := range a.c.Params {
			e.params[name] = v
		}
	} else if ridge := a.c.Params["ridge"]; m.Ridge != nil && ridge != "" && ridge != "auto" {
		e.params["ridge"] = ridge
	}
	e.params = foldParams(m, e.params)
	return e
}

// foldParams are the parameters in the folds of a choice: choosing the ridge is
// left for the winner.
func foldParams(m *frame.Method, params map[string]string) map[string]string {
	if m.Ridge == nil || params["ridge"] != "auto" {
		return params
	}
	params = maps.Clone(params)
	params["ridge"] = "oas"
	if m.Ridge.Without > 0 {
		params["ridge"] = fmt.Sprint(m.Ridge.Without)
	}
	return params
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
		return []model.Score{{Method: a.entries[0].method.Name, Dim: a.entries[0].dims[0]}}, nil
	}
	if _, fold := frame.Folds(a.p, frame.MaxValidated, 3, 0); fold == nil {
		return nil, nil
	}
	table := make([]map[int]*model.Score, len(a.entries))
	for i, e := range a.entries {
		table[i] = map[int]*model.Score{}
		for _, d := range e.dims {
			table[i][d] = &model.Score{Method: e.method.Name, Dim: d}
		}
	}
	for round := range a.rounds() {
		if err := a.round(ctx, round, table); err != nil {
			return nil, err
		}
	}
	var ranked []model.Score
	for i, e := range a.entries {
		for _, d := range slices.Backward(e.dims) {
			if table[i] != nil {
				ranked = append(ranked, *table[i][d])
			}
		}
	}
	if len(ranked) > 0 && ranked[0].Scored == 0 {
		return nil, nil
	}
	slices.SortStableFunc(ranked, func(x, y model.Score) int {
		if x.Correct != y.Correct {
			return y.Correct - x.Correct
		}
		return y.Dim - x.Dim
	})
	return ranked, nil
}

func (a *selection) rounds() int {
	if a.p.N > fewRows {
		return 1
	}
	return fewRounds
}

// round adds the scores of one deal of the rows to folds. An entry that cannot be
// fitted leaves the table.
func (a *selection) round(ctx context.Context, round int, table []map[int]*model.Score) error {
	pick, fold := frame.Folds(a.p, frame.MaxValidated, 3, round)
	for f := range 3 {
		train, test := frame.HeldOut(pick, fold, f)
		base := &frame.Task{Method: &scan, Scaling: a.c.Scale, Seed: a.c.Seed, Report: &model.Report{}}
		if a.c.Method != Auto {
			base.Method, base.Params = a.entries[0].method, a.entries[0].params
		}
		if err := base.Load(ctx, a.p.Subset(train)); err != nil {
			return err
		}
		if base.Columns == 0 {
			continue // nothing to tell the candidates apart by
		}
		for i, e := range a.entries {
			if a.c.Progress != nil {
				a.c.Progress("auto", float64((3*round+f)*len(a.entries)+i)/float64(3*a.rounds()*len(a.entries)))
			}
			if table[i] == nil {
				continue
			}
			err := a.score(ctx, e, base, train, test, table[i])
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil && len(a.entries) == 1 {
				return err
			}
			if err != nil {
				a.leftOut = append(a.leftOut, fmt.Sprintf("%s: %v", e.method.Name, err))
				table[i] = nil
			}
		}
	}
	return nil
}

// score fits an entry on the training rows of a fold and counts its test rows.
func (a *selection) score(ctx context.Context, e entry, base *frame.Task, train, test []int,
	into map[int]*model.Score) error {
	nested := e.method.Nested
	var y *frame.OutputPair
	for _, d := range slices.Backward(e.dims) {
		into[d].Scored += len(test)
		if nested && y != nil {
			if err := count(ctx, y, into[d], a.p.Y, train, test); err != nil {
				return err
			}
			continue
		}
		t := *base
		t.Method, t.Params, t.D, t.Free, t.Report = e.method, e.params, d, true, &model.Report{}
		bound, _ := e.method.Bound(&t)
		t.D = min(d, bound)
		if err := t.SettleRidge(ctx); err != nil {
			return err
		}
		sol, err := t.Solve(ctx)
		if err != nil {
			return err
		}
		if !nested {
			correct, err := t.Score(ctx, sol, a.p, train, test)
			if err != nil {
				return err
			}
			into[d].Correct += correct
			continue
		}
		if y, err = t.OutputPair(ctx, sol, a.p, train, test); err != nil {
			return err
		}
		if err := count(ctx, y, into[d], a.p.Y, train, test); err != nil {
			return err
		}
	}
	return nil
}

// count adds to the score the test rows whose nearest training row, in its
// leading columns or as many as there are, is of their class.
func count(ctx context.Context, y *frame.OutputPair, into *model.Score, class, train, test []int) error {
	d := min(into.Dim, y.D)
	lead := func(x []float64) []float64 {
		out := make([]float64, 0, len(x)/y.D*d)
		for from := 0; from < len(x); from += y.D {
			out = append(out, x[from:from+d]...)
		}
		return out
	}
	nearest, err := score.Nearest(ctx, lead(y.Train), len(train), lead(y.Test), len(test), d)
	if err != nil {
		return err
	}
	for i, j := range nearest {
		if class[train[j]] == class[test[i]] {
			into.Correct++
		}
	}
	return nil
}
