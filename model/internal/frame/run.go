package frame

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/pencil"
)

// Run chooses the dimension and the ridge, fits, and makes the model.
func (t *Task) Run(ctx context.Context, features, classes []string) (_ *model.Model, err error) {
	defer fail.Catch(&err)
	if t.Method.Supervised && t.Basis.Classes() < 2 {
		return nil, fmt.Errorf("only one class in %g labelled rows; it needs at least 2: check the label column, or use "+
			"method pca", t.Basis.N)
	}
	if t.Columns == 0 {
		return nil, fmt.Errorf("no feature varies over %g rows: give features that do", t.Basis.N)
	}
	t.Report.Rows = int(math.Round(t.Basis.N))
	t.Report.Rank = t.Columns
	for _, c := range t.Units.constant {
		if c {
			t.Report.Constant++
		}
	}
	if t.Report.Constant > 0 {
		t.Report.Note(fmt.Sprintf("%d of %d features are constant and have no effect", t.Report.Constant,
			len(t.Units.Mean)))
	}
	single := 0
	for _, n := range t.Basis.Counts {
		if n == 1 {
			single++
		}
	}
	if single > 0 {
		t.Report.Note(fmt.Sprintf("%d of %d classes have one row: only their mean is used", single,
			t.Basis.Classes()))
	}
	t.chooseDim()
	ChooseRidge(ctx, t)
	t.ReportProgress("fit", 0)
	end := t.Report.Phase("fit")
	sol := fail.Must(t.Solve(ctx))
	end()
	fail.Check(ctx.Err())
	pad(t, sol)
	t.ReportProgress("fit", 1)
	t.Report.Eigenvalues = sol.Eigenvalues
	t.Report.Informative = sol.Informative
	noteStopped(t, sol)
	if t.Report.Choice != nil {
		t.Report.Choice.Dim = sol.Dim
	}
	fill(t, sol)
	return t.model(ctx, sol, features, classes), nil
}

// noteStopped reports a search that did not converge.
func noteStopped(t *Task, sol *Solution) {
	if s := sol.search; s != nil && !s.Converged {
		t.Report.Note(fmt.Sprintf("the search stopped before it converged, after at most %d steps from a start: the "+
			"criterion was %.6g, and is %.6g with a gradient of norm %.2g", s.Limit, s.Start, s.End, s.Gradient))
	}
}

// model makes the model of a solution.
func (t *Task) model(ctx context.Context, sol *Solution, features, classes []string) *model.Model {
	fail.Check(sol.check(t.Method))
	mp, wide := sol.Mapping, false
	if mp == nil {
		l := &mapping.Linear{D: sol.Dim, Components: sol.signed(t)}
		wide = Cancellation(ctx, mat.NewDense(len(t.Units.Mean), l.D, l.Components), t.Basis.Total,
			t.axes) > maxCancellation
		mp = l
	}
	if s := spread(ctx, t, sol); s > 0 && (s < 1/maxSpread || s > maxSpread) {
		panic(fail.With(fmt.Errorf("the outputs vary by %.3g, which float32 cannot represent; scale the features, "+
			"or multiply them by a constant", s)))
	}
	if e, ok := mp.(interface{ Values() []float64 }); ok {
		noteNarrow(t, e.Values(), sol.Dim)
	}
	c := model.Content{
		Method: t.Method.Name, Params: sol.params, Features: FeatureNames(features, len(t.Units.Mean)), Rows: t.Report.Rows,
		Unit: t.Scaling == model.ScaleUnit, Float64: wide, Mean: t.Units.Mean, Scale: t.Units.Scale,
		Map: mp, Eigenvalues: sol.Eigenvalues, InformativeRank: sol.Informative, Report: *t.Report,
	}
	c.Report.Search, c.Report.Convergence = sol.search, sol.convergence
	if t.Method.Supervised {
		c.Classes = slices.Clone(classes)
	}
	return fail.Must(model.New(c))
}

// maxSpread, and its reciprocal, bound the size of outputs, which are float32. They leave some orders of magnitude for
// rows that differ from the rows of the fit.
const maxSpread = 1e34

// spread is the largest standard deviation of an output of a linear map, or the largest value of an embedding; 0 for
// other maps, whose outputs are scaled differently.
func spread(ctx context.Context, t *Task, sol *Solution) float64 {
	largest := 0.0
	if sol.Mapping != nil {
		if e, ok := sol.Mapping.(interface{ Values() []float64 }); ok {
			for _, v := range e.Values() {
				largest = max(largest, math.Abs(v))
			}
		}
		return largest
	}
	a := mat.NewDense(t.M, sol.Dim, sol.Components)
	sa := tile.Times(ctx, t.Basis.Total, a)
	for c := range sol.Dim {
		largest = max(largest, math.Sqrt(max(mat.Dot(a.ColView(c), sa.ColView(c)), 0)))
	}
	return largest
}

// chooseDim replaces dimension 0 by the method's default and checks the bound.
func (t *Task) chooseDim() {
	bound, what := t.Method.MaxDim(t)
	if t.D == 0 {
		t.DefaultDim = true
		if t.D = 2; t.Method.Dim != nil {
			t.D = t.Method.Dim(t)
		}
		if t.D > bound {
			t.Report.Note(fmt.Sprintf("the default dim %d was clamped to %s", t.D, t.Explain(what, bound)))
			t.D = bound
		}
		if hasZeros(t) {
			t.D = min(t.D, t.Outputs)
		}
		if t.MaxDim > 0 {
			t.D = min(t.D, t.MaxDim)
		}
	}
	if t.D > bound && bound > 0 && t.narrow(bound) {
		return
	}
	if t.D > bound {
		panic(fail.With(&model.DimError{Asked: t.D, Max: bound, What: t.Explain(what, bound)}))
	}
}

// fit runs the method once.
func (t *Task) fit(ctx context.Context) (_ *Solution, err error) {
	defer fail.Catch(&err)
	fail.Check(ctx.Err())
	return t.Method.Fit(ctx, t), nil
}

// Solve runs the method. Some bounds show only here, for example that class means lie on a line.
func (t *Task) Solve(ctx context.Context) (*Solution, error) {
	sol, err := t.fit(ctx)
	var rank *pencil.RankError
	var bound *model.DimError
	switch {
	case errors.As(err, &rank) && rank.Max < 1:
		return nil, fmt.Errorf("the criterion has no direction (n=%g, m=%d): its denominator is zero, or what it compares "+
			"(class means, neighbours) is equal; give more rows, or different ones", t.Basis.N, len(t.Units.Mean))
	case errors.As(err, &rank):
		bound = &model.DimError{Asked: t.D, Max: rank.Max, What: t.Explain("rank %d of the criterion", rank.Max)}
	case !errors.As(err, &bound):
		return sol, err
	}
	if !t.DefaultDim && !t.narrow(bound.Max) {
		return nil, bound
	}
	if t.DefaultDim {
		t.Report.Note(fmt.Sprintf("the default dim %d was clamped to %s", t.D, bound.What))
		t.D = bound.Max
	}
	return t.fit(ctx)
}

// maxCancellation is the cancellation up to which float32 products keep an output within about 1e-5 of its standard
// deviation: the worst row is off by 2^-24 times the cancellation, times 2 to 17 as measured on thirteen fits of real
// data.
const maxCancellation = 16

// Cancellation is the ratio of the size of an output's terms to the output, for the worst of the columns a (m x d):
// sqrt(sum_j a_j^2 S_jj / a'Sa), where S is the scatter of the scaled features. Nearly collinear features make it
// large. If basis (m x r) is not nil, s is the scatter in that basis.
func Cancellation(ctx context.Context, a *mat.Dense, s *mat.SymDense, basis *mat.Dense) float64 {
	_, d := a.Dims()
	variance, within := featureVariances(ctx, s, basis), a
	if basis != nil {
		var reduced mat.Dense
		reduced.Mul(basis.T(), a)
		within = &reduced
	}
	sa := tile.Times(ctx, s, within)
	worst := 1.0
	for c := range d {
		terms := 0.0
		for j, v := range variance {
			terms += a.At(j, c) * a.At(j, c) * v
		}
		if out := mat.Dot(within.ColView(c), sa.ColView(c)); out > 0 {
			worst = max(worst, math.Sqrt(terms/out))
		}
	}
	return worst
}

// narrow reduces the dimension to what the criterion decides, if the other outputs may be padded or zero.
func (t *Task) narrow(bound int) bool {
	if hasZeros(t) {
		t.D = bound
		return true
	}
	if !t.Pad || t.Method.Map != "linear" || t.D > t.Columns {
		return false
	}
	t.padTo, t.D = cmp.Or(t.padTo, t.D), bound
	return true
}
