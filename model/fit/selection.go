package fit

import (
	"context"
	"fmt"
	"maps"
	"math"
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
	scales  []model.Scale
	entries []*entry
	blended *entry // of the best; nil: none
	leftOut []string
}

// entry is one method, scale and set of parameters, at the dimensions it can reach.
type entry struct {
	method  *frame.Method
	scale   model.Scale
	params  map[string]string // all of them, as in the folds
	tried   map[string]string // those that are not what the configuration says
	dims    []int
	score   map[int]*model.Score // by dimension
	out     bool                 // it could not be fitted
	members []model.Member       // of a blend
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
		a.open(2, 5, 10, 20, classes-1)
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
	for _, scale := range a.scales {
		for _, m := range methods {
			if e := a.enter(m, scale, classes); len(e.dims) > 0 {
				a.entries = append(a.entries, e)
			}
		}
	}
	return a, nil
}

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

// enter is the entry of a method, without dimensions where it does not take part.
func (a *selection) enter(m *frame.Method, scale model.Scale, classes int) *entry {
	e := &entry{method: m, scale: scale, params: map[string]string{}}
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
		case chosen && scale != a.scales[0] && m.Auto.OneScale:
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
	if chosen { // a blend's members are not chosen once more
		for _, name := range append(slices.Collect(maps.Keys(m.InFolds)), "ridge") {
			if v, ok := e.params[name]; ok {
				if e.tried == nil {
					e.tried = map[string]string{}
				}
				e.tried[name] = v
			}
		}
	}
	e.begin(chosen)
	return e
}

// begin makes the scores of an entry.
func (e *entry) begin(chosen bool) {
	e.score = map[int]*model.Score{}
	for _, d := range e.dims {
		e.score[d] = &model.Score{Method: e.method.Name, Dim: d}
		if chosen && e.members == nil {
			e.score[d].Scale, e.score[d].Params = e.scale, e.tried
		}
	}
}

// ridges are tried beside the shrinkage, which is too small where there are hardly more rows than features.
var ridges = []string{"0.1", "1"}

// variants are the entries of other parameters, for the best alone: for all of them the time would be three times as
// long.
func (a *selection) variants(best []*entry) (out []*entry) {
	for _, e := range best {
		var settings []map[string]string
		if e.method.Ridge != nil && e.params["ridge"] == "oas" {
			for _, r := range ridges {
				settings = append(settings, map[string]string{"ridge": r})
			}
		}
		for _, s := range e.method.Auto.Settings {
			all := maps.Clone(e.tried)
			maps.Copy(all, s)
			settings = append(settings, all)
		}
		for _, s := range settings {
			v := &entry{method: e.method, scale: e.scale, params: maps.Clone(e.params), tried: s, dims: e.dims}
			maps.Copy(v.params, s)
			v.begin(true)
			out = append(out, v)
		}
	}
	return out
}

// foldParams are the parameters in the folds of a choice: choosing the ridge, and what else is auto, is
// left for the winner.
func foldParams(m *frame.Method, params map[string]string) map[string]string {
	params = maps.Clone(params)
	for name, v := range m.InFolds {
		if params[name] == "auto" {
			params[name] = v
		}
	}
	if m.Ridge == nil || params["ridge"] != "auto" {
		return params
	}
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
	if err := a.validate(ctx, a.entries); err != nil {
		return nil, err
	}
	if a.c.Method == Auto && a.c.Blend > 1 {
		more := a.variants(a.best(a.c.Blend))
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

// validate scores entries in every round.
func (a *selection) validate(ctx context.Context, entries []*entry) error {
	for round := range a.rounds() {
		if err := a.round(ctx, round, entries); err != nil {
			return err
		}
	}
	return nil
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

// scores are those of an entry, best first.
func (e *entry) scores() (all []model.Score) {
	for _, d := range slices.Backward(e.dims) {
		all = append(all, *e.score[d])
	}
	slices.SortStableFunc(all, byScore)
	return all
}

func byScore(x, y model.Score) int {
	if x.Correct != y.Correct {
		return y.Correct - x.Correct
	}
	return y.Dim - x.Dim
}

// best are so many entries, each the best of its method and scale, that a blend may have.
func (a *selection) best(most int) []*entry {
	var out []*entry
	for _, e := range a.entries {
		if e.method.Map == "linear" && !e.out {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(x, y *entry) int { return byScore(x.top(), y.top()) })
	type family struct {
		method string
		scale  model.Scale
	}
	seen := map[family]bool{}
	out = slices.DeleteFunc(out, func(e *entry) bool {
		f := family{e.method.Name, e.scale}
		again := seen[f]
		seen[f] = true
		return again
	})
	return out[:min(most, len(out))]
}

// top is the best score of an entry.
func (e *entry) top() model.Score { return e.scores()[0] }

// blend scores what the best make together.
func (a *selection) blend(ctx context.Context) error {
	best := a.best(a.c.Blend)
	if len(best) < 2 {
		return nil
	}
	var of []model.Member
	for _, e := range best {
		of = append(of, model.Member{Method: e.method.Name, Scale: e.scale, Dim: e.top().Dim, Params: e.tried})
	}
	e := &entry{method: &blend, scale: a.scales[0], params: map[string]string{"members": membersText(of)}, dims: a.dims,
		members: of}
	e.begin(true)
	if err := a.validate(ctx, []*entry{e}); err != nil {
		return err
	}
	if !e.out {
		a.blended = e
	}
	return nil
}

func (a *selection) rounds() int {
	if a.p.N > fewRows {
		return 1
	}
	return fewRounds
}

// round adds the scores of one deal of the rows to folds. An entry that cannot be
// fitted leaves the table.
func (a *selection) round(ctx context.Context, round int, entries []*entry) error {
	pick, fold := frame.Folds(a.p, frame.MaxValidated, 3, round)
	for f := range 3 {
		train, test := frame.HeldOut(pick, fold, f)
		rows := a.p.Subset(train)
		bases := map[model.Scale]*frame.Task{}
		for i, e := range entries {
			if a.c.Progress != nil {
				a.c.Progress("auto", float64((3*round+f)*len(entries)+i)/float64(3*a.rounds()*len(entries)))
			}
			if e.out {
				continue
			}
			base := bases[e.scale]
			if base == nil {
				base = &frame.Task{Method: &scan, Scaling: e.scale, Seed: a.c.Seed, Report: &model.Report{}}
				if a.c.Method != Auto {
					base.Method, base.Params = e.method, e.params
				}
				if err := base.Load(ctx, rows); err != nil {
					return err
				}
				bases[e.scale] = base
			}
			if base.Columns == 0 {
				continue // nothing to tell the candidates apart by
			}
			err := a.score(ctx, e, base, train, test)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil && len(a.entries) == 1 {
				return err
			}
			if err != nil {
				a.leftOut = append(a.leftOut, fmt.Sprintf("%s: %v", e.method.Name, err))
				e.out = true
			}
		}
	}
	return nil
}

// score fits an entry on the training rows of a fold and counts its test rows.
func (a *selection) score(ctx context.Context, e *entry, base *frame.Task, train, test []int) error {
	nested, into := e.method.Nested, e.score
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

// modest is the best dimension of an entry. Where that is every column, so that nothing would be reduced, it is the
// least that is worse by no more than half a standard error.
func (e *entry) modest(columns, rounds int) int {
	top := e.top()
	if top.Dim < columns {
		return top.Dim
	}
	n, p := float64(top.Scored/rounds), float64(top.Correct)/float64(top.Scored)
	slack := 0.5 * math.Sqrt(p*(1-p)*n) * float64(rounds)
	for _, d := range e.dims {
		if float64(top.Correct-e.score[d].Correct) <= slack {
			return d
		}
	}
	return top.Dim
}
