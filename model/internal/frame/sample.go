package frame

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/pencil"
)

// sample makes t.x, the rows of the task, for methods that look at them: scaled,
// centred, and always in a basis of full rank, so that no method meets a
// direction without variance. It is the rank cut that stands in front of every
// graph method; the kept directions keep their scale.
func (t *Task) sample(ctx context.Context, p *Rows) error {
	if t.Columns == 0 {
		return nil // nothing varies; run says so
	}
	x := mat.NewDense(p.N, p.M, nil)
	const part = 64
	if err := parallel.Each(ctx, (p.N+part-1)/part, func(k int) {
		for i := k * part; i < min(p.N, (k+1)*part); i++ {
			row, mean, scale := x.RawRowView(i), t.Stat.Mean, t.Stat.Scale
			for j, v := range p.X[i*p.M : (i+1)*p.M] {
				row[j] = (v - mean[j]) / scale[j]
			}
		}
	}); err != nil {
		return err
	}
	if t.basis == nil && t.Columns < t.M {
		if err := t.cutRank(ctx); err != nil {
			return err
		}
	}
	t.X = x
	if t.basis != nil {
		t.X = tile.Multiply(ctx, x, t.basis)
	}
	return nil
}

// Capped is the task on at most limit of its rows, evenly spaced and, with
// labels, stratified; the scaling stays that of all rows. Methods whose cost
// grows with the square or the cube of the rows use it, and the report says so.
func (t *Task) Capped(limit int) *Task {
	if t.Rows.N <= limit {
		return t
	}
	pick := make([]int, t.Rows.N)
	for i := range pick {
		pick[i] = i
	}
	if t.Rows.Y != nil {
		pick = t.Rows.Stratified(limit)
	} else {
		pick = Spaced(pick, limit)
	}
	t.Report.Note(fmt.Sprintf("%d of %d rows were looked at, evenly spaced: the cost grows too fast with the rows",
		len(pick), t.Rows.N))
	c := *t
	c.Rows = t.Rows.Subset(pick)
	c.X = mat.NewDense(len(pick), t.M, nil)
	for i, r := range pick {
		c.X.SetRow(i, t.X.RawRowView(r))
	}
	return &c
}

// cutRank takes the statistics to an orthonormal basis of the range of the total
// scatter.
func (t *Task) cutRank(ctx context.Context) error {
	cut, err := pencil.Cut(t.Stat.Total)
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
	span.Mul(t.Stat.Total, cut.Unwhiten(unit))
	basis := pencil.Orthonormal(ctx, &span, 0)
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
	s := *t.Stat
	s.Total, s.Within = reduce(s.Total), reduce(s.Within)
	if s.Means != nil {
		k, _ := s.Means.Dims()
		means := mat.NewDense(k, r, nil)
		means.Mul(s.Means, basis)
		s.Means = means
	}
	t.Stat, t.basis, t.M, t.Columns = &s, basis, r, r
	return nil
}
