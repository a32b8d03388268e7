package fit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
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
	view    view
	params  map[string]string // all of them, as in the folds
	tried   map[string]string // those that are not what the configuration says
	dims    []int
	score   map[int]*model.Score // by dimension
	out     bool                 // it could not be fitted
	members []model.Member       // of a blend
	// What a blend is made of: by fold and dimension; of a nested method at the largest alone.
	outputs map[int]map[int]*frame.OutputPair
	right   map[int][]int // in how many rounds each row was right, by dimension
	lined   map[int][]int // and was so by a linear classifier, of the blend and of what no blend can have
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

// enter is the entry of a method, without dimensions where it does not take part.
func (a *selection) enter(m *frame.Method, v view, classes int) *entry {
	e := &entry{method: m, view: v, params: map[string]string{}}
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
		case chosen && v != view{scale: a.scales[0]} && m.Auto.OneScale:
		case v.landmarks > 0 && !m.Auto.Landmarks:
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
	e.score, e.right, e.lined = map[int]*model.Score{}, map[int][]int{}, map[int][]int{}
	e.outputs = map[int]map[int]*frame.OutputPair{}
	for _, d := range e.dims {
		e.score[d] = &model.Score{Method: e.method.Name, Dim: d}
		if chosen && e.members == nil {
			s := e.score[d]
			s.Scale, s.Landmarks, s.Width, s.Params = e.view.scale, e.view.landmarks, e.view.width, e.tried
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
			v := &entry{method: e.method, view: e.view, params: maps.Clone(e.params), tried: s, dims: e.dims}
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
		return a.table(), nil
	}
	if _, fold := frame.Folds(a.p, frame.MaxValidated, 3, 0); fold == nil {
		return nil, nil
	}
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

// blends tells whether the best candidates are to make one model.
func (a *selection) blends() bool { return a.c.Method == Auto && a.c.Blend != 1 }

// refined is how many of the best candidates are tried with other parameters.
const refined = 5

// best are so many entries, each the best of its method and view, that a blend may have. Behind landmarks they are of
// one width, that of the best one there: a row has one set of kernels this way.
func (a *selection) best(most int) []*entry {
	var out []*entry
	for _, e := range a.entries {
		if e.blendable() && !e.out {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(x, y *entry) int { return byScore(x.top(), y.top()) })
	if i := slices.IndexFunc(out, func(e *entry) bool { return e.view.landmarks > 0 }); i >= 0 {
		of := out[i].view
		out = slices.DeleteFunc(out, func(e *entry) bool { return e.view.landmarks > 0 && e.view != of })
	}
	type family struct {
		method string
		view   view
	}
	seen := map[family]bool{}
	out = slices.DeleteFunc(out, func(e *entry) bool {
		f := family{e.method.Name, e.view}
		again := seen[f]
		seen[f] = true
		return again
	})
	return out[:min(most, len(out))]
}

// blendable tells whether a blend may have the entry: its outputs are columns.
func (e *entry) blendable() bool { return e.method.Map == "linear" }

// top is the best score of an entry.
func (e *entry) top() model.Score { return e.scores()[0] }

// toldApart is by how many standard errors of the difference, on the same rows, a candidate must be worse than the best
// one to be left out of a blend. Some forty are compared with it: luck alone puts one of as many equals two behind, and
// hardly ever one three.
const toldApart = 3

// blend scores what the best make together: of each method and scale the best, as far as the rows do not tell it apart
// from the best of all. More members cost the model nothing, and each takes from the luck of the others.
func (a *selection) blend(ctx context.Context) error {
	most := a.c.Blend
	if most == 0 {
		most = len(a.entries)
	}
	best := a.best(most)
	if a.c.Blend == 0 && len(best) > 0 {
		top := best[0].rightAt(best[0].top().Dim, a.p.N)
		best = slices.DeleteFunc(best, func(e *entry) bool {
			behind, deviation := paired(top, e.rightAt(e.top().Dim, a.p.N))
			return behind > toldApart*deviation
		})
	}
	if len(best) < 2 {
		return nil
	}
	e := &entry{method: &blend, view: view{scale: a.scales[0]}, dims: a.dims}
	for _, one := range best {
		e.members = append(e.members, model.Member{Method: one.method.Name, Scale: one.view.scale,
			Landmarks: one.view.landmarks, Width: one.view.width, Dim: one.top().Dim, Params: one.tried})
	}
	e.params = map[string]string{"members": membersText(e.members)}
	e.begin(true)
	err := a.together(ctx, e, best, a.rounds())
	if err == nil && e.top().Scored == 0 {
		return nil
	}
	if err == nil {
		a.blended = e
		err = a.contributions(ctx, best)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil { // the candidates stand without it
		a.leaveOut(e, err)
		a.blended = nil
	}
	return nil
}

// together scores a blend of entries.
func (a *selection) together(ctx context.Context, e *entry, of []*entry, rounds int) error {
	for round := range rounds {
		pick, fold := frame.Folds(a.p, frame.MaxValidated, 3, round)
		for f := range 3 {
			train, test := frame.HeldOut(pick, fold, f)
			y, err := sideBySide(ctx, of, 3*round+f, e.dims[len(e.dims)-1])
			if err != nil {
				return err
			}
			if y == nil {
				continue // nothing varied there
			}
			for _, d := range e.dims {
				e.score[d].Scored += len(test)
				if err := a.judge(ctx, e, y, d, train, test); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// contributions finds what each member adds: the rows of one round that are right in the blend, less those that are
// right in the blend of the others.
func (a *selection) contributions(ctx context.Context, of []*entry) error {
	d := a.dims[0]
	if a.c.Dim <= 0 {
		d = a.blendedDim()
	}
	right := func(of []*entry) (int, error) {
		e := &entry{method: &blend, dims: []int{d}}
		e.begin(false)
		err := a.together(ctx, e, of, 1)
		return e.score[d].Correct, err
	}
	all, err := right(of)
	if err != nil {
		return err
	}
	for i := range of {
		others, err := right(slices.Concat(of[:i], of[i+1:]))
		if err != nil {
			return err
		}
		a.blended.members[i].Adds = all - others
	}
	return nil
}

// sideBySide are the d leading principal components of what the entries put out in a fold, as fitBlend makes them of
// directions; nil where none could be fitted.
func sideBySide(ctx context.Context, of []*entry, fold, d int) (*frame.OutputPair, error) {
	var side, query []*mat.Dense
	var kept []opinion
	width := 0
	for _, e := range of {
		dim := e.top().Dim
		y := e.outputs[fold][dim]
		if e.method.Nested {
			y = e.outputs[fold][e.dims[len(e.dims)-1]]
		}
		if y == nil {
			continue
		}
		dim = min(dim, y.D)
		train := mat.DenseCopyOf(mat.NewDense(len(y.Train)/y.D, y.D, y.Train).Slice(0, len(y.Train)/y.D, 0, dim))
		test := mat.DenseCopyOf(mat.NewDense(len(y.Test)/y.D, y.D, y.Test).Slice(0, len(y.Test)/y.D, 0, dim))
		n, _ := train.Dims()
		variance := 0.0
		for c := range dim {
			mean := mat.Sum(train.ColView(c)) / float64(n)
			for i := range n {
				v := train.At(i, c) - mean
				train.Set(i, c, v)
				variance += v * v / float64(n)
			}
			for i := range test.RawMatrix().Rows {
				test.Set(i, c, test.At(i, c)-mean)
			}
		}
		if !(variance > 0) {
			continue
		}
		train.Scale(1/math.Sqrt(variance), train)
		test.Scale(1/math.Sqrt(variance), test)
		side, query, width = append(side, train), append(query, test), width+dim
		kept = append(kept, opinion{e.method.Name, e.view.kind()})
	}
	if width == 0 {
		return nil, nil
	}
	for i, weight := range votes(kept) {
		side[i].Scale(weight, side[i])
		query[i].Scale(weight, query[i])
	}
	a, b := abreast(side, width), abreast(query, width)
	var products mat.Dense
	products.Mul(a.T(), a)
	components, err := principal(ctx, linalg.Symmetric(&products), d)
	if err != nil {
		return nil, err
	}
	var train, test mat.Dense
	train.Mul(a, components.Vectors)
	test.Mul(b, components.Vectors)
	return &frame.OutputPair{Train: train.RawMatrix().Data, Test: test.RawMatrix().Data,
		D: train.RawMatrix().Cols}, nil
}

// abreast is one matrix of several with as many rows.
func abreast(of []*mat.Dense, width int) *mat.Dense {
	n, _ := of[0].Dims()
	out, at := mat.NewDense(n, width, nil), 0
	for _, a := range of {
		_, d := a.Dims()
		out.Slice(0, n, at, at+d).(*mat.Dense).Copy(a)
		at += d
	}
	return out
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
		rows, err := a.behind(ctx, train)
		if errors.Is(err, errConstant) {
			continue // nothing to tell the candidates apart by
		}
		if err != nil {
			return err
		}
		views := map[view]*seen{}
		for i, e := range entries {
			if a.c.Progress != nil {
				a.c.Progress("auto", float64((3*round+f)*len(entries)+i)/float64(3*a.rounds()*len(entries)))
			}
			if e.out {
				continue
			}
			s := views[e.view]
			if s == nil {
				var err error
				s, err = a.look(ctx, e, rows, train)
				if err != nil && e.view.curved() && len(a.entries) > 1 && ctx.Err() == nil {
					a.leaveOut(e, err) // no feature varies in this fold, say
					continue
				}
				if err != nil {
					return err
				}
				views[e.view] = s
			}
			if s.base.Columns == 0 {
				continue // nothing to tell the candidates apart by
			}
			err := a.score(ctx, e, s, 3*round+f, train, test)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil && len(a.entries) == 1 {
				return err
			}
			if err != nil {
				a.leaveOut(e, err)
			}
		}
	}
	return nil
}

func (a *selection) leaveOut(e *entry, err error) {
	a.leftOut = append(a.leftOut, fmt.Sprintf("%s: %v", e.method.Name, err))
	e.out = true
}

// behind are all rows as what stands before the fit shows them that has learned from the training rows of a fold.
func (a *selection) behind(ctx context.Context, train []int) (*frame.Rows, error) {
	front := a.c.front
	if front == nil {
		return a.p, nil
	}
	s, err := front.view.look(ctx, front.rows, train, front.of, a.c.Seed)
	if err != nil {
		return nil, err
	}
	return s.rows, nil
}

// look shows an entry the rows of a fold. A method that was given has its own way to look at them.
func (a *selection) look(ctx context.Context, e *entry, p *frame.Rows, train []int) (*seen, error) {
	if a.c.Method == Auto {
		return e.view.look(ctx, p, train, a.scales[0], a.c.Seed)
	}
	base := &frame.Task{Method: e.method, Params: e.params, Scaling: e.view.scale, Seed: a.c.Seed, Report: &model.Report{}}
	return &seen{base: base, rows: p}, base.Load(ctx, p.Subset(train))
}

// score fits an entry on the training rows of a fold and counts its test rows.
func (a *selection) score(ctx context.Context, e *entry, s *seen, fold int, train, test []int) error {
	nested, into := e.method.Nested, e.score
	kept := map[int]*frame.OutputPair{}
	if a.blends() && e.blendable() {
		e.outputs[fold] = kept
	}
	var y *frame.OutputPair
	for _, d := range slices.Backward(e.dims) {
		into[d].Scored += len(test)
		if y == nil || !nested {
			t := *s.base
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
			if sol.Mapping != nil && !nested { // as views, which classify by themselves
				correct, err := t.Score(ctx, sol, s.rows, train, test)
				if err != nil {
					return err
				}
				into[d].Correct += correct
				continue
			}
			if y, err = t.OutputPair(ctx, sol, s.rows, train, test); err != nil {
				return err
			}
			kept[d] = y
		}
		if err := a.judge(ctx, e, y, d, train, test); err != nil {
			return err
		}
	}
	return nil
}

// judge counts the test rows that are right in d leading columns, or as many as there are: whose nearest training row is
// of their class, and, where it matters, those that a linear classifier has right.
func (a *selection) judge(ctx context.Context, e *entry, y *frame.OutputPair, d int, train, test []int) error {
	ref, query, dim := leading(y.Train, y.D, d), leading(y.Test, y.D, d), min(d, y.D)
	nearest, err := score.Nearest(ctx, ref, len(train), query, len(test), dim)
	if err != nil {
		return err
	}
	right := make([]int, a.p.N)
	for i, j := range nearest {
		if a.p.Y[train[j]] == a.p.Y[test[i]] {
			right[test[i]]++
			e.score[d].Correct++
		}
	}
	e.right[d] = plusRows(e.right[d], right)
	if !a.blends() || e.method != &blend && e.blendable() {
		return nil
	}
	known := make([]int, len(train))
	for i, at := range train {
		known[i] = a.p.Y[at]
	}
	class, err := score.Linear(ref, known, query, dim, len(a.p.Classes))
	if err != nil {
		return err
	}
	right = make([]int, a.p.N)
	for i, c := range class {
		if c == a.p.Y[test[i]] {
			right[test[i]]++
		}
	}
	e.lined[d] = plusRows(e.lined[d], right)
	return nil
}

// plusRows adds counts of rows, nil for none yet.
func plusRows(to, right []int) []int {
	for i, v := range to {
		right[i] += v
	}
	return right
}

// leading are the d leading columns of rows of width numbers, or all of fewer.
func leading(x []float64, width, d int) []float64 {
	d = min(d, width)
	out := make([]float64, 0, len(x)/width*d)
	for from := 0; from < len(x); from += width {
		out = append(out, x[from:from+d]...)
	}
	return out
}

// rightAt is in how many rounds each of n rows was right at a dimension.
func (e *entry) rightAt(d, n int) []int {
	if right := e.right[d]; right != nil {
		return right
	}
	return make([]int, n)
}

// blendedDim is the dimension of a blend where none is asked for: 20, or C-1 where that is more, since it holds the
// directions of more than one method. Which one cross-validation has best is luck for the most part, and fewer lose; so
// others have to be better.
func (a *selection) blendedDim() int {
	e := a.blended
	full := e.dims[len(e.dims)-1]
	best, most := full, 0
	for _, d := range e.dims {
		right := 0
		for _, n := range e.uses(d, a.p.N) {
			right += n
		}
		if right >= most && a.better(e, d, e, full) {
			best, most = d, right
		}
	}
	if best < full {
		return best
	}
	return a.modest(e, full)
}

// modest is a dimension of an entry. Where that is every column, so that nothing would be reduced, it is the least one
// that is not worse.
func (a *selection) modest(e *entry, full int) int {
	if full < a.whole.Columns || e.right[full] == nil { // maps that classify by themselves keep no rows
		return full
	}
	for _, d := range e.dims {
		if !a.better(e, full, e, d) {
			return d
		}
	}
	return full
}

// half is by how many standard errors of the difference a challenger must win.
const half = 0.5

// better tells whether an entry at a dimension is better than another one: by half a standard error of the difference, on
// the same rows.
func (a *selection) better(x *entry, dx int, y *entry, dy int) bool {
	more, deviation := paired(x.uses(dx, a.p.N), y.uses(dy, a.p.N))
	return more > half*deviation
}

// beats is better for neighbours alone. Of a map that classifies by itself only the number of rows is known.
func (a *selection) beats(x, y model.Score) bool {
	right, other := a.entryOf(x).right[x.Dim], a.entryOf(y).right[y.Dim]
	if right == nil || other == nil {
		return x.Correct > y.Correct
	}
	more, deviation := paired(right, other)
	return more > half*deviation
}

// uses is how often each of n rows was right. Who takes outputs draws lines through them as well as looking for
// neighbours, so what a linear classifier has right counts as much where it is known.
func (e *entry) uses(d, n int) []int {
	return plusRows(e.lined[d], slices.Clone(e.rightAt(d, n)))
}

// paired is by how much the sum of x is more than that of y, and the standard error of that, of rows one by one.
func paired(x, y []int) (more, deviation float64) {
	difference := make([]float64, len(x))
	for i := range x {
		difference[i] = float64(x[i] - y[i])
	}
	more = floats.Sum(difference)
	for _, v := range difference {
		deviation += (v - more/float64(len(x))) * (v - more/float64(len(x)))
	}
	return more, math.Sqrt(deviation)
}

// entryOf is the one that has the score.
func (a *selection) entryOf(s model.Score) *entry {
	at := slices.IndexFunc(a.entries, func(e *entry) bool {
		mine := e.score[s.Dim]
		return mine != nil && mine.Method == s.Method && maps.Equal(mine.Params, s.Params) &&
			mine.Scale == s.Scale && mine.Landmarks == s.Landmarks && mine.Width == s.Width
	})
	return a.entries[at]
}
