package model

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/pencil"
)

// sample makes t.x, the rows of the task, for methods that look at them: scaled,
// centred, and always in a basis of full rank, so that no method meets a
// direction without variance. It is the rank cut that stands in front of every
// graph method; the kept directions keep their scale.
func (t *task) sample(ctx context.Context, p *prepared) error {
	if t.columns == 0 {
		return nil // nothing varies; run says so
	}
	x := mat.NewDense(p.n, p.m, nil)
	for i := range p.n {
		row := x.RawRowView(i)
		for j, v := range p.x[i*p.m : (i+1)*p.m] {
			row[j] = (v - t.stat.mean[j]) / t.stat.scale[j]
		}
	}
	if t.basis == nil && t.columns < t.m {
		if err := t.cutRank(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t.x = x
	if t.basis != nil {
		t.x = mat.NewDense(p.n, t.m, nil)
		t.x.Mul(x, t.basis)
	}
	return nil
}

// capped is the task on at most limit of its rows, evenly spaced and, with
// labels, stratified; the scaling stays that of all rows. Methods whose cost
// grows with the square or the cube of the rows use it, and the report says so.
func (t *task) capped(limit int) *task {
	if t.rows.n <= limit {
		return t
	}
	pick := make([]int, t.rows.n)
	for i := range pick {
		pick[i] = i
	}
	if t.rows.y != nil {
		pick = t.rows.stratified(limit)
	} else {
		pick = spaced(pick, limit)
	}
	t.report.note(fmt.Sprintf("%d of %d rows were looked at, evenly spaced: the cost grows too fast with the rows", len(pick), t.rows.n))
	c := *t
	c.rows = t.rows.subset(pick)
	c.x = mat.NewDense(len(pick), t.m, nil)
	for i, r := range pick {
		c.x.SetRow(i, t.x.RawRowView(r))
	}
	return &c
}

// cutRank takes the statistics to an orthonormal basis of the range of the total
// scatter.
func (t *task) cutRank() error {
	cut, err := pencil.Cut(t.stat.total)
	if err != nil {
		return err
	}
	r := cut.Rank()
	unit := mat.NewDense(r, r, nil)
	for i := range r {
		unit.Set(i, i, 1)
	}
	// S_t Z spans the range of S_t, and the equilibration of the cut has made Z well conditioned.
	var span mat.Dense
	span.Mul(t.stat.total, cut.Unwhiten(unit))
	basis := pencil.Orthonormal(&span, 0)
	if basis == nil {
		return fmt.Errorf("the total scatter of rank %d has no basis", r)
	}
	_, r = basis.Dims()
	reduce := func(s *mat.SymDense) *mat.SymDense {
		if s == nil {
			return nil
		}
		var half, full mat.Dense
		half.Mul(basis.T(), s)
		full.Mul(&half, basis)
		out := mat.NewSymDense(r, nil)
		for i := range r {
			for j := i; j < r; j++ {
				out.SetSym(i, j, (full.At(i, j)+full.At(j, i))/2)
			}
		}
		return out
	}
	s := *t.stat
	s.total, s.within = reduce(s.total), reduce(s.within)
	if s.means != nil {
		k, _ := s.means.Dims()
		means := mat.NewDense(k, r, nil)
		means.Mul(s.means, basis)
		s.means = means
	}
	t.stat, t.basis, t.m, t.columns = &s, basis, r, r
	return nil
}

// solveRatio solves max tr((A'DA)^-1 A'NA) as methods with a ridge do: the
// leading pairs of (N, D + rho I), columns orthonormal in that denominator. With
// ridge 0 it is the literal form of the paper, by a rank cut alone: where that
// is written as a minimum, the smallest pairs of (D, N) with columns orthonormal
// in N, else the largest of (N, D).
func (t *task) solveRatio(n, d *mat.SymDense, literal pencil.End) (*solution, error) {
	if t.ridge == 0 {
		numerator, denominator := n, d
		if literal == pencil.Min {
			numerator, denominator = d, n
		}
		q, err := pencil.Cut(denominator)
		if err != nil {
			return nil, err
		}
		s, err := pencil.Solve(numerator, q, literal, t.d)
		if err != nil {
			return nil, err
		}
		return t.solved(s, s.Rank), nil
	}
	q, err := t.denominator(d)
	if err != nil {
		return nil, err
	}
	s, err := pencil.Solve(n, q, pencil.Max, t.d)
	if err != nil {
		return nil, err
	}
	return t.solved(s, s.Rank), nil
}

// denominator factors D + rho I of a ratio.
func (t *task) denominator(d *mat.SymDense) (*pencil.Metric, error) {
	const rounding = 1e-12
	zero := fmt.Errorf("the denominator of the criterion is zero (n=%g, m=%d): every edge joins equal rows or weighs nothing; give more rows, more neighbours or wider weights", t.stat.n, len(t.stat.mean))
	if !(mat.Trace(d) > 0) {
		return nil, zero
	}
	rho := pencil.Rho(t.ridge, d, t.columns)
	if t.report.Ridge != nil {
		t.report.Ridge.Absolute = rho
	}
	q, err := t.factor(d, rho)
	if err != nil && mat.Trace(d) <= rounding*t.stat.n*mat.Trace(t.stat.total) {
		return nil, zero
	}
	return q, err
}

// criterion is numerator and denominator of a ratio.
type criterion struct{ n, d *mat.SymDense }

// maximize is the fit of a method that is a ratio alone. build makes its two
// sides, which do not depend on the dimension; nor on the ridge where the method
// chooses one by cross-validation, as a task keeps them for all ridges. literal
// is the end of the form without a ridge, see solveRatio.
func maximize(build func(context.Context, *task) (n, d *mat.SymDense, err error), literal pencil.End) func(context.Context, *task) (*solution, error) {
	return func(ctx context.Context, t *task) (*solution, error) {
		if t.criterion == nil {
			n, d, err := build(ctx, t)
			if err != nil {
				return nil, err
			}
			t.criterion = &criterion{n, d}
		}
		return t.solveRatio(t.criterion.n, t.criterion.d, literal)
	}
}
