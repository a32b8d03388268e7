package frame

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// CheckSide holds what Build gives to its contract.
func (t *Task) CheckSide(name string, s *mat.SymDense) error {
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

// SolveRatio solves max tr((A'DA)^-1 A'NA) as methods with a ridge do: the
// leading pairs of (N, D + rho I), columns orthonormal in that denominator. With
// ridge 0 it is the literal form of the paper, by a rank cut alone: where that
// is written as a minimum, the smallest pairs of (D, N) with columns orthonormal
// in N, else the largest of (N, D).
func (t *Task) SolveRatio(ctx context.Context, n, d *mat.SymDense, literal pencil.End) (*Solution, error) {
	if t.Ridge == 0 {
		numerator, denominator := n, d
		if literal == pencil.Min {
			numerator, denominator = d, n
		}
		q, err := pencil.Cut(denominator)
		if err != nil {
			return nil, err
		}
		s, err := pencil.Solve(ctx, numerator, q, literal, t.D)
		if err != nil {
			return nil, err
		}
		return t.Solved(s, s.Rank), nil
	}
	q, err := t.Denominator(d)
	if err != nil {
		return nil, err
	}
	s, err := pencil.Solve(ctx, n, q, pencil.Max, t.D)
	if err != nil {
		return nil, err
	}
	return t.Solved(s, s.Rank), nil
}

// Denominator factors D + rho I of a ratio.
func (t *Task) Denominator(d *mat.SymDense) (*pencil.Metric, error) {
	const rounding = 1e-12
	zero := fmt.Errorf("the denominator of the criterion is zero (n=%g, m=%d): every edge joins equal rows or weighs nothing; give more rows, more neighbours or wider weights", t.Stat.N, len(t.Stat.Mean))
	if !(mat.Trace(d) > 0) {
		return nil, zero
	}
	rho := pencil.Rho(t.Ridge, d, t.Columns)
	if t.Report.Ridge != nil {
		t.Report.Ridge.Absolute = rho
	}
	q, err := t.Factor(d, rho)
	if err != nil && mat.Trace(d) <= rounding*t.Stat.N*mat.Trace(t.Stat.Total) {
		return nil, zero
	}
	return q, err
}

// criterion is numerator and denominator of a ratio.
type criterion struct{ n, d *mat.SymDense }

// Maximize is the fit of a method that is a ratio alone. build makes its two
// sides, which do not depend on the dimension; nor on the ridge where the method
// chooses one by cross-validation, as a task keeps them for all ridges. literal
// is the end of the form without a ridge, see solveRatio.
func Maximize(build func(context.Context, *Task) (n, d *mat.SymDense, err error),
	literal pencil.End) func(context.Context, *Task) (*Solution, error) {
	return func(ctx context.Context, t *Task) (*Solution, error) {
		if t.criterion == nil {
			n, d, err := build(ctx, t)
			if err != nil {
				return nil, err
			}
			t.criterion = &criterion{n, d}
		}
		return t.SolveRatio(ctx, t.criterion.n, t.criterion.d, literal)
	}
}
