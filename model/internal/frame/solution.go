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
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/pencil"
)

// Run resolves the dimension and the ridge, fits, and makes the model.
func (t *Task) Run(ctx context.Context, features, classes []string) (*model.Model, error) {
	if t.Method.Supervised && t.Stat.Classes() < 2 {
		return nil, fmt.Errorf("only one class in %g labelled rows; it needs at least 2", t.Stat.N)
	}
	if t.Columns == 0 {
		return nil, fmt.Errorf("no feature varies over %g rows", t.Stat.N)
	}
	t.Report.Rows = int(math.Round(t.Stat.N))
	t.Report.Rank = t.Columns
	t.Report.Constant = t.Stat.constant
	if t.Stat.constant > 0 {
		t.Report.Note(fmt.Sprintf("%d of %d features are constant and carry nothing", t.Stat.constant,
			len(t.Stat.Mean)))
	}
	single := 0
	for _, n := range t.Stat.Counts {
		if n == 1 {
			single++
		}
	}
	if single > 0 {
		t.Report.Note(fmt.Sprintf("%d of %d classes have one row: they count by their mean alone", single,
			t.Stat.Classes()))
	}
	if err := t.settleDim(); err != nil {
		return nil, err
	}
	if err := t.SettleRidge(ctx); err != nil {
		return nil, err
	}
	t.ReportProgress("fit", 0)
	end := t.Report.Phase("fit")
	sol, err := t.Solve(ctx)
	if err != nil {
		return nil, err
	}
	end()
	if err := cmp.Or(ctx.Err(), t.padSolution(sol)); err != nil {
		return nil, err
	}
	t.ReportProgress("fit", 1)
	t.Report.Eigenvalues = sol.Eigenvalues
	t.Report.Informative = sol.Informative
	if t.Report.Choice != nil {
		t.Report.Choice.Dim = sol.Dim
	}
	return t.model(ctx, sol, features, classes)
}

// model makes the model of a solution.
func (t *Task) model(ctx context.Context, sol *Solution, features, classes []string) (*model.Model, error) {
	mp, wide := sol.Mapping, false
	if mp == nil {
		l := &mapping.Linear{D: sol.Dim, Components: t.unreduce(sol.Components, sol.Dim)}
		wide = Cancellation(ctx, mat.NewDense(len(t.Stat.Mean), l.D, l.Components), t.Stat.Total,
			t.basis) > maxCancellation
		mp = l
	}
	if s := t.spread(ctx, sol); s > 0 && (s < minSpread || s > maxSpread) {
		return nil, fmt.Errorf("the outputs vary by %.3g, which float32 cannot hold; scale the features, or multiply them by a constant", s)
	}
	if features == nil {
		features = make([]string, len(t.Stat.Mean))
		for j := range features {
			features[j] = fmt.Sprintf("x%d", j)
		}
	}
	c := model.Content{
		Method: t.Method.Name, Params: t.Params, Features: slices.Clone(features), Rows: t.Report.Rows,
		Unit: t.Scaling == model.ScaleUnit, Float64: wide, Mean: t.Stat.Mean, Scale: t.Stat.Scale,
		Map: mp, Eigenvalues: sol.Eigenvalues, InformativeRank: sol.Informative, Report: *t.Report,
	}
	if t.Method.Supervised {
		c.Classes = slices.Clone(classes)
	}
	return model.New(c)
}

// Outputs are float32. Some orders of magnitude are left for rows unlike those
// of the fit.
const (
	minSpread = 1e-34
	maxSpread = 1e34
)

// spread is the largest standard deviation of an output of a linear map, or the
// largest value that an embedding has; 0 for other maps, whose outputs have a
// scale of their own.
func (t *Task) spread(ctx context.Context, sol *Solution) float64 {
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
	sa := tile.Times(ctx, t.Stat.Total, a)
	for c := range sol.Dim {
		largest = max(largest, math.Sqrt(max(mat.Dot(a.ColView(c), sa.ColView(c)), 0)))
	}
	return largest
}

// settleDim replaces dimension 0 by the method's default and holds d to its bound.
func (t *Task) settleDim() error {
	bound, what := t.Method.Bound(t)
	if t.D == 0 {
		t.Free = true
		t.D = t.Method.Dim(t)
		if t.D > bound {
			t.Report.Note(fmt.Sprintf("the default dim %d was clamped to %s", t.D, t.Explain(what, bound)))
			t.D = bound
		}
	}
	if t.D > bound && bound > 0 && t.narrow(bound) {
		return nil
	}
	if t.D > bound {
		return &model.DimError{Asked: t.D, Max: bound, What: t.Explain(what, bound)}
	}
	return nil
}

func (t *Task) Explain(what string, bound int) string {
	return fmt.Sprintf("%s; n=%g, m=%d", fmt.Sprintf(what, bound), t.Stat.N, len(t.Stat.Mean))
}

// Solve runs the method. A bound that is not known before the criterion is shows
// only here: class means that lie on a line, for one.
func (t *Task) Solve(ctx context.Context) (*Solution, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sol, err := t.Method.Fit(ctx, t)
	var rank *pencil.RankError
	var bound *model.DimError
	switch {
	case errors.As(err, &rank) && rank.Max < 1:
		return nil, fmt.Errorf("the criterion has no direction (n=%g, m=%d): what it divides by is zero, or what it compares coincides, as class means or neighbours do; give more rows, or others", t.Stat.N, len(t.Stat.Mean))
	case errors.As(err, &rank):
		bound = &model.DimError{Asked: t.D, Max: rank.Max, What: t.Explain("rank %d of the criterion", rank.Max)}
	case !errors.As(err, &bound):
		return sol, err
	}
	if !t.Free && !t.narrow(bound.Max) {
		return nil, bound
	}
	if t.Free {
		t.Report.Note(fmt.Sprintf("the default dim %d was clamped to %s", t.D, bound.What))
		t.D = bound.Max
	}
	return t.Method.Fit(ctx, t)
}

// ReportProgress tells whoever started the fit which phase it is in and how much of that is done.
func (t *Task) ReportProgress(phase string, done float64) {
	if t.Progress != nil {
		t.Progress(phase, done)
	}
}

// Expand takes columns back to the scaled features: V a.
func (t *Task) Expand(a *mat.Dense) *mat.Dense {
	if t.basis == nil {
		return a
	}
	m, _ := t.basis.Dims()
	_, d := a.Dims()
	full := mat.NewDense(m, d, nil)
	full.Mul(t.basis, a)
	return full
}

// unreduce is expand with signs fixed among the features.
func (t *Task) unreduce(a []float64, d int) []float64 {
	c := mat.DenseCopyOf(t.Expand(mat.NewDense(t.M, d, a)))
	pencil.FixSigns(c)
	return c.RawMatrix().Data
}

// Found puts the evidence of an eigenproblem of the rows in the report.
func (t *Task) Found(p *pencil.Part) {
	if !math.IsInf(p.Gap, 0) {
		gap := p.Gap
		t.Report.Gap = &gap
	}
	t.Report.Ties = p.Ties
	if p.Largest > 0 {
		t.Report.Residual = p.Residual / p.Largest
	}
	for _, n := range p.Notes {
		t.Report.Note("eigenvectors: " + n)
	}
}

// maxCancellation is the cancellation up to which float32 products keep an
// output within about 1e-5 of its standard deviation: the worst row is off by
// 2^-24 times it, times 2 to 17 as measured on thirteen fits of real data.
const maxCancellation = 16

// Cancellation is how much larger the terms of an output are than the output,
// at the worst of the columns a (m x d): sqrt(sum_j a_j^2 S_jj / a'Sa), S the
// scatter of the scaled features. Nearly collinear features make it large. S
// is given as it is, or by its columns basis (m x r) and the scatter in them.
func Cancellation(ctx context.Context, a *mat.Dense, s *mat.SymDense, basis *mat.Dense) float64 {
	m, d := a.Dims()
	variance := make([]float64, m)
	within := a
	if basis == nil {
		for j := range variance {
			variance[j] = s.At(j, j)
		}
	} else {
		var reduced mat.Dense
		across := mat.DenseCopyOf(basis.T())
		scattered := tile.Times(ctx, s, across)
		for i := range s.SymmetricDim() {
			row := across.RawRowView(i)
			for j, v := range scattered.RawRowView(i) {
				variance[j] += v * row[j]
			}
		}
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

// Solution is what a fit hands back, in the coordinates of its task.
type Solution struct {
	Components  []float64 // columns x d row-major
	Dim         int
	Eigenvalues []float64
	Informative int
	Mapping     mapping.Map // for maps that are not linear: in place of components
}

// Solved makes a solution of a pencil's and puts its evidence in the report.
func (t *Task) Solved(s *pencil.Solution, informative int) *Solution {
	if !math.IsInf(s.Gap, 0) {
		gap := s.Gap
		t.Report.Gap = &gap
	}
	t.Report.Ties = s.Ties
	t.Report.Residual = s.Residual
	_, d := s.Vectors.Dims()
	return &Solution{Components: mat.DenseCopyOf(s.Vectors).RawMatrix().Data, Dim: d,
		Eigenvalues: s.Values, Informative: informative}
}
