package fit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/score"
)

// Auto as a method stands for the one that held-out rows like best.
const Auto = "auto"

// AutoDim as a dimension stands for the one that held-out rows like best, of 2,
// 5, 10, 20 and C-1. Methods that do not learn from labels take their default.
const AutoDim = -1

// auto is no method of its own: Fit and FitMoments put one in its place. It
// needs no labels, since without them it is pca.
var auto = frame.Method{
	Name: Auto, Title: "a fast method, chosen by cross-validation on the rows at hand",
	Paper:     "the rows at hand",
	Map:       "linear",
	Streaming: "window",
	Params:    []frame.Param{frame.RidgeParam("auto", "relative ridge of the chosen method, where it has one: auto (cross-validation), oas, or a number", true)},
}

// candidates of auto, in the order that decides between equal scores.
var candidates = []string{"mfa", "lfda", "lda", "dla", "lsmpa", "pca", "pairacc", "tnca", "ksmpa"}

// fewRows is the number of rows up to which auto takes its time: it deals them to
// folds fewRounds times, since which method wins depends on the deal there, and
// tries a kernel, and tnca for as many dimensions as there are classes too.
const (
	fewRows   = 500
	fewRounds = 4
)

// choose is Fit for a configuration that leaves the method, the dimension or
// both to the rows.
func choose(ctx context.Context, d *model.Data, c Config) (*model.Model, error) {
	method, _ := lookup(c.Method) // the configuration was checked
	if c.Method != Auto && !method.Supervised {
		c.Dim = 0
		return fitSettled(ctx, d, c)
	}
	if classes := presentClasses(d); c.Method == Auto && classes < 2 {
		// One class tells no more than none.
		rule := "no row has a label"
		if classes == 1 {
			rule = "all labelled rows are of one class"
		}
		return fitChosen(ctx, d, c, &model.Choice{Of: c.leftOpen(), Rule: rule, Method: "pca"})
	}
	start := time.Now()
	p, err := frame.Prepare(d, true, c.Scale == model.ScaleUnit, &model.Report{})
	if err != nil {
		return nil, err
	}
	a, err := newAuction(ctx, p, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Method, err)
	}
	ranked, err := a.rank(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Method, err)
	}
	if ranked == nil {
		choice := a.without()
		m, err := fitChosen(ctx, d, c, choice)
		if err != nil && c.Method == Auto && ctx.Err() == nil {
			// Where no class has two different rows labels tell nothing of its shape.
			choice.Method, choice.Rule = "pca", choice.Rule+"; "+err.Error()
			return fitChosen(ctx, d, c, choice)
		}
		return m, err
	}
	// On all rows the criterion may turn out to have fewer directions than there are
	// columns, or none: the next in the table takes its place.
	var first error
	for i, s := range ranked {
		choice := &model.Choice{Of: c.leftOpen(), Rule: "cv", Method: s.Method, Dim: s.Dim, Rounds: a.rounds(), Scores: ranked,
			RunnerUp: runnerUp(ranked, i, c.Method == Auto), LeftOut: a.leftOut, Seconds: time.Since(start).Seconds()}
		m, err := fitChosen(ctx, d, c, choice)
		if err == nil || ctx.Err() != nil {
			return m, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// presentClasses is the number of classes that have rows.
func presentClasses(d *model.Data) int {
	if d == nil {
		return 0
	}
	seen := map[int]bool{}
	for _, c := range d.Y {
		if c >= 0 {
			seen[c] = true
		}
	}
	return len(seen)
}

// leftOpen says what the configuration leaves to the rows.
func (c Config) leftOpen() string {
	switch {
	case c.Method != Auto:
		return "dim"
	case c.Dim > 0:
		return "method"
	}
	return "method and dim"
}

// runnerUp is the best after the one at i, of another method where methods were
// compared.
func runnerUp(ranked []model.Score, i int, methods bool) *model.Score {
	for j := range ranked {
		if j != i && (!methods || ranked[j].Method != ranked[i].Method) {
			return &ranked[j]
		}
	}
	return nil
}

// fitChosen fits what was chosen.
func fitChosen(ctx context.Context, d *model.Data, c Config, choice *model.Choice) (*model.Model, error) {
	return fitSettled(ctx, d, c.Settled(choice))
}

// Settled puts what was chosen in the place of Auto and AutoDim, so that other
// rows are fitted in the same way. The report of such a fit has the choice. A
// dimension of 0 is the method's default.
func (c Config) Settled(choice *model.Choice) Config {
	if c.Method == Auto {
		c.Params = candidateParams(choice.Method, c.Params["ridge"])
		c.Method = choice.Method
	}
	if c.Dim == AutoDim || c.Dim == 0 {
		c.Dim = choice.Dim
	}
	c.choice = choice
	return c
}

// candidateParams hands the ridge of auto on to a method that has one. auto
// itself is the default of every candidate.
func candidateParams(name, ridge string) map[string]string {
	m, err := lookup(name)
	if err != nil || m.Ridge == nil || ridge == "" || ridge == "auto" {
		return nil
	}
	return map[string]string{"ridge": ridge}
}

// auction is the cross-validation of candidates.
type auction struct {
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

func newAuction(ctx context.Context, p *frame.Rows, c Config) (*auction, error) {
	whole := &frame.Task{Method: &frame.Method{Name: Auto, Supervised: true}, Scaling: c.Scale, Report: &model.Report{}}
	if err := whole.Load(ctx, p); err != nil {
		return nil, err
	}
	if whole.Columns == 0 {
		return nil, fmt.Errorf("no feature varies over %d rows", p.N)
	}
	a := &auction{c: c, p: p, whole: whole}
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
		return nil, &model.DimError{Asked: c.Dim, Max: whole.Columns, What: whole.Explain(frame.RankOfTotal, whole.Columns)}
	}
	names := []string{c.Method}
	if c.Method == Auto {
		names = candidates
	}
	for _, name := range names {
		m, err := lookup(name)
		if err != nil {
			continue
		}
		if e := a.enter(m, classes); len(e.dims) > 0 {
			a.entries = append(a.entries, e)
		}
	}
	return a, nil
}

// enter is the entry of a method, without dimensions where it does not take part.
func (a *auction) enter(m *frame.Method, classes int) entry {
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
		case chosen && !a.wanted(m.Name, d, classes):
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

// wanted says whether auto tries a candidate at d: pairacc and tnca are made for
// fewer dimensions than the classes span, and a kernel for curved classes.
func (a *auction) wanted(name string, d, classes int) bool {
	few := a.p.N <= fewRows
	switch name {
	case "pairacc":
		return d < classes-1
	case "tnca":
		return d < classes-1 || few
	case "ksmpa":
		return classes == 2 && few
	}
	return true
}

// nestedMethods are those whose first columns at d are their answer for fewer:
// one fit scores all dimensions.
var nestedMethods = []string{"pca", "lda", "mfa", "lfda", "dla", "lsda", "lpp", "npe", "lsmpa", "ksmpa", "dawge", "mpda", "pmpda", "le", "lle", "isomap"}

// without is the choice where no rows can be held out.
func (a *auction) without() *model.Choice {
	choice := byMoments(a.c, a.whole.Stat.Classes(), a.whole.Columns)
	choice.Rule = "fewer than 2 classes have the 3 rows that cross-validation needs, or nothing varies in a part of the rows"
	return choice
}

// byMoments is the choice without scores: lda, or pairacc, which goes on past
// C-1 directions.
func byMoments(c Config, classes, columns int) *model.Choice {
	choice := &model.Choice{Of: c.leftOpen(), Rule: "no rows are kept", Method: c.Method, Dim: max(c.Dim, 0)}
	switch {
	case c.Method != Auto:
	case classes < 2:
		choice.Method = "pca"
	case c.Dim <= min(classes-1, columns):
		choice.Method = "lda"
	default:
		choice.Method = "pairacc"
	}
	return choice
}

// rank scores every entry and returns the table, best first: by rows that are
// right, then by more dimensions, then by the order of the candidates. nil where
// no rows can be held out.
func (a *auction) rank(ctx context.Context) ([]model.Score, error) {
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

func (a *auction) rounds() int {
	if a.p.N > fewRows {
		return 1
	}
	return fewRounds
}

// round adds the scores of one deal of the rows to folds. An entry that cannot be
// fitted leaves the table.
func (a *auction) round(ctx context.Context, round int, table []map[int]*model.Score) error {
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
func (a *auction) score(ctx context.Context, e entry, base *frame.Task, train, test []int, into map[int]*model.Score) error {
	nested := slices.Contains(nestedMethods, e.method.Name)
	var y *frame.OutputPair
	for _, d := range slices.Backward(e.dims) {
		into[d].Scored += len(test)
		if nested && y != nil {
			if err := count(y, into[d], a.p.Y, train, test); err != nil {
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
			correct, err := t.Score(sol, a.p, train, test)
			if err != nil {
				return err
			}
			into[d].Correct += correct
			continue
		}
		if y, err = t.OutputPair(sol, a.p, train, test); err != nil {
			return err
		}
		if err := count(y, into[d], a.p.Y, train, test); err != nil {
			return err
		}
	}
	return nil
}

// count adds to the score the test rows whose nearest training row, in its
// leading columns or as many as there are, is of their class.
func count(y *frame.OutputPair, into *model.Score, class, train, test []int) error {
	d := min(into.Dim, y.D)
	lead := func(x []float64) []float64 {
		out := make([]float64, 0, len(x)/y.D*d)
		for from := 0; from < len(x); from += y.D {
			out = append(out, x[from:from+d]...)
		}
		return out
	}
	nearest, err := score.Nearest(lead(y.Train), len(train), lead(y.Test), len(test), d)
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

// chooseByMoments settles what a configuration leaves open where no rows are
// kept. Where that is the dimension alone, it is the method's default.
func chooseByMoments(s *moments.Set, c *Config) {
	classes := 0
	for k := range s.Classes() {
		if s.Count(k) > 0 {
			classes++
		}
	}
	if c.Method != Auto {
		c.Dim = 0
		return
	}
	*c = c.Settled(byMoments(*c, classes, s.M()))
}
