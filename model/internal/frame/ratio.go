package frame

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// Ratio is the numerator N and the denominator D of a criterion. A method that chooses values for its parameters while
// it builds them reports them, and the search that it needs.
type Ratio struct {
	N, D *mat.SymDense
	// PerFeature: both are m x m, with a row for each feature. Otherwise they are in the basis of the task.
	PerFeature bool
	Used       map[string]float64 // see Solution.Use
	Search     *model.Search      // nil: none
}

// CheckSide checks a side of a ratio of rows with this many columns.
func CheckSide(name string, s *mat.SymDense, columns int) error {
	switch {
	case s == nil:
		return fmt.Errorf("there is no %s", name)
	case s.SymmetricDim() != columns:
		return fmt.Errorf("the %s has order %d; it must be %d, the columns of the rows", name, s.SymmetricDim(), columns)
	case !linalg.IsFinite(mat.Norm(s, 1)):
		return fmt.Errorf("the %s is not finite", name)
	}
	return nil
}

// Solution makes the solution of the eigenproblem of a ratio.
func (r *Ratio) Solution(t *Task, s *pencil.Solution) *Solution {
	sol := t.Solved(s, s.Rank)
	if r.PerFeature {
		sol = t.OfFeatures(s.Vectors, s.Values, s.Rank)
	}
	for name, v := range r.Used {
		sol.Use(name, v)
	}
	if r.Search != nil {
		sol.Searched(r.Search)
	}
	return sol
}

// SolveRatio solves max tr((A'DA)^-1 A'NA) for methods with a ridge: the leading pairs of (N, D + rho I), with columns
// orthonormal in that denominator. With ridge 0 it solves the literal form of the paper by a rank cut alone: if that
// is a minimum, the smallest pairs of (D, N) with columns orthonormal in N, else the largest of (N, D).
func SolveRatio(ctx context.Context, t *Task, r *Ratio, literal pencil.End) *Solution {
	if t.Ridge == 0 {
		numerator, denominator := r.N, r.D
		if literal == pencil.Min {
			numerator, denominator = r.D, r.N
		}
		q := fail.Must(pencil.Cut(denominator))
		return r.Solution(t, fail.Must(pencil.Solve(ctx, numerator, q, literal, t.D)))
	}
	q := Denominator(t, r.D)
	defer q.Release()
	return r.Solution(t, fail.Must(pencil.Solve(ctx, r.N, q, pencil.Max, t.D)))
}

// Denominator factors D + rho I of a ratio.
func Denominator(t *Task, d *mat.SymDense) *pencil.Metric {
	const rounding = 1e-12 // share of the total scatter up to which a denominator is a rounding error
	zero := fmt.Errorf("the denominator of the criterion is zero (n=%g, m=%d): "+
		"every edge joins equal rows or has weight 0; give more rows, more neighbours or wider weights",
		t.Basis.N, len(t.Units.Mean))
	if !(mat.Trace(d) > 0) {
		panic(fail.With(zero))
	}
	q, err := factored(t, d)
	if err != nil && mat.Trace(d) <= rounding*t.Basis.N*mat.Trace(t.Basis.Total) {
		panic(fail.With(zero))
	}
	fail.Check(err)
	return q
}

// Maximize is the fit of a method that is a ratio. build makes its two sides, which must not depend on the dimension,
// nor on the ridge if that is chosen by cross-validation: a task reuses them for all ridges. literal is the end of the
// form without a ridge, see SolveRatio.
func Maximize(build func(context.Context, *Task) *Ratio, literal pencil.End) func(context.Context, *Task) *Solution {
	return func(ctx context.Context, t *Task) *Solution {
		if t.ratio == nil {
			t.ratio = build(ctx, t)
		}
		return SolveRatio(ctx, t, t.ratio, literal)
	}
}

// RidgeMetric factors D + rho I with the ridge of the task.
func RidgeMetric(t *Task, d *mat.SymDense) *pencil.Metric {
	if !(mat.Trace(d) > 0) {
		panic(fail.With(fmt.Errorf("no class has two different rows (n=%g, %d classes): the within-class scatter is zero; "+
			"give more rows per class", t.Basis.N, t.Basis.Classes())))
	}
	return fail.Must(factored(t, d))
}

// factored factors D + rho I, and reports rho.
func factored(t *Task, d *mat.SymDense) (*pencil.Metric, error) {
	rho := pencil.Rho(t.Ridge, d, t.Columns)
	if t.Report.Ridge != nil {
		t.Report.Ridge.Absolute = rho
	}
	return Factor(t, d, rho)
}

// Factor is pencil.Ridge with the fix in its error.
func Factor(t *Task, d *mat.SymDense, rho float64) (*pencil.Metric, error) {
	q, err := pencil.Ridge(d, rho)
	if errors.Is(err, pencil.ErrNotDefinite) {
		return nil, fmt.Errorf("%w; raise the ridge (%g)", err, t.Ridge)
	}
	return q, err
}

// Flat is the share of the variance below which what tangent spaces do not explain is rounding error.
const Flat = 1e-9

// FlatError is the error of a denominator of tangent spaces that explain everything: near each row the rows have D
// dimensions or fewer, and the criterion cannot distinguish outputs. Its bound is the largest dimension that leaves
// something unexplained. build makes the denominator, and reports whether it is zero.
func FlatError(t *Task, build func(*Task) (*mat.SymDense, bool)) error {
	for q := t.D - 1; q > 0; q-- {
		lower := *t
		lower.D, lower.Report = q, &model.Report{}
		if _, explained := build(&lower); !explained {
			return &model.DimError{Asked: t.D, Max: q,
				What: t.Explain("%d: tangent spaces of more dimensions explain all of the variance, because near each row "+
					"the rows have no more", q)}
		}
	}
	return fmt.Errorf("tangent spaces of 1 dimension explain all of the variance (n=%g, m=%d): the rows are on lines; "+
		"give a larger k", t.Basis.N, len(t.Units.Mean))
}
