package frame

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// CheckSide checks a matrix that Build returned.
func CheckSide(t *Task, name string, s *mat.SymDense) error {
	switch {
	case s == nil:
		return fmt.Errorf("there is no %s", name)
	case s.SymmetricDim() != t.M:
		return fmt.Errorf("the %s has order %d; it must be %d, the columns of the rows", name, s.SymmetricDim(), t.M)
	case !linalg.IsFinite(mat.Norm(s, 1)):
		return fmt.Errorf("the %s is not finite", name)
	}
	return nil
}

// SolveRatio solves max tr((A'DA)^-1 A'NA) for methods with a ridge: the leading pairs of (N, D + rho I), with columns
// orthonormal in that denominator. With ridge 0 it solves the literal form of the paper by a rank cut alone: if that
// is a minimum, the smallest pairs of (D, N) with columns orthonormal in N, else the largest of (N, D).
func SolveRatio(ctx context.Context, t *Task, n, d *mat.SymDense, literal pencil.End) *Solution {
	if t.Ridge == 0 {
		numerator, denominator := n, d
		if literal == pencil.Min {
			numerator, denominator = d, n
		}
		q := fail.Must(pencil.Cut(denominator))
		s := fail.Must(pencil.Solve(ctx, numerator, q, literal, t.D))
		return t.Solved(s, s.Rank)
	}
	s := fail.Must(pencil.Solve(ctx, n, Denominator(t, d), pencil.Max, t.D))
	return t.Solved(s, s.Rank)
}

// Denominator factors D + rho I of a ratio.
func Denominator(t *Task, d *mat.SymDense) *pencil.Metric {
	const rounding = 1e-12
	zero := fmt.Errorf("the denominator of the criterion is zero (n=%g, m=%d): "+
		"every edge joins equal rows or has weight 0; give more rows, more neighbours or wider weights",
		t.Stat.N, len(t.Stat.Mean))
	if !(mat.Trace(d) > 0) {
		panic(fail.With(zero))
	}
	rho := pencil.Rho(t.Ridge, d, t.Columns)
	if t.Report.Ridge != nil {
		t.Report.Ridge.Absolute = rho
	}
	q, err := Factor(t, d, rho)
	if err != nil && mat.Trace(d) <= rounding*t.Stat.N*mat.Trace(t.Stat.Total) {
		panic(fail.With(zero))
	}
	fail.Check(err)
	return q
}

// Maximize is the fit of a method that is a ratio. build makes its two sides, which must not depend on the dimension,
// nor on the ridge if that is chosen by cross-validation: a task reuses them for all ridges. literal is the end of the
// form without a ridge, see SolveRatio.
func Maximize(build func(context.Context, *Task) (n, d *mat.SymDense),
	literal pencil.End) func(context.Context, *Task) *Solution {
	return func(ctx context.Context, t *Task) *Solution {
		if t.criterion == nil {
			n, d := build(ctx, t)
			t.criterion = &criterion{n, d}
		}
		return SolveRatio(ctx, t, t.criterion.n, t.criterion.d, literal)
	}
}

// RidgeMetric factors D + rho I with the ridge of the task.
func RidgeMetric(t *Task, d *mat.SymDense) *pencil.Metric {
	if !(mat.Trace(d) > 0) {
		panic(fail.With(fmt.Errorf("no class has two different rows (n=%g, %d classes): the within-class scatter is zero; "+
			"give more rows per class", t.Stat.N, t.Stat.Classes())))
	}
	rho := pencil.Rho(t.Ridge, d, t.Columns)
	if t.Report.Ridge != nil {
		t.Report.Ridge.Absolute = rho
	}
	return fail.Must(Factor(t, d, rho))
}

// Factor is pencil.Ridge with the fix in its error.
func Factor(t *Task, d *mat.SymDense, rho float64) (*pencil.Metric, error) {
	q, err := pencil.Ridge(d, rho)
	if errors.Is(err, pencil.ErrNotDefinite) {
		return nil, fmt.Errorf("%w; raise the ridge (%g)", err, t.Ridge)
	}
	return q, err
}
