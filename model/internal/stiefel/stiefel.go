// Package stiefel maximises a criterion over matrices with orthonormal columns, the Stiefel manifold.
package stiefel

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/lbfgs"
)

// Ascent is a search for the maximum of a criterion that depends on the space alone that the columns span: a rotation
// among them must not change it.
type Ascent struct {
	Steps    int
	Gain     float64 // it has converged when a step gains at most this share of the value
	Value    func(*mat.Dense) float64
	Gradient func(*mat.Dense) *mat.Dense
}

// From starts at o. The search is over all matrices Z = O R with O'O = I and upper triangular R; the value depends on O
// alone. A change of Z by dZ changes O by (I - O O') dZ R^-1, and by a rotation.
func (c *Ascent) From(ctx context.Context, o *mat.Dense, s *model.Search) *mat.Dense {
	m, k := o.Dims()
	f := func(x, g []float64) float64 {
		z := mat.NewDense(m, k, x)
		o := Retract(z)
		value, up := c.Value(o), c.Gradient(o)
		var r, along, down, out mat.Dense
		r.Mul(o.T(), z)
		along.Mul(o.T(), up)
		down.Mul(o, &along)
		down.Sub(&down, up)
		_ = out.Solve(&r, down.T()) // the error reports the condition of R
		mat.NewDense(m, k, g).Copy(out.T())
		return -value
	}
	x := lbfgs.Minimize(ctx, mat.DenseCopyOf(o).RawMatrix().Data, c.Steps, c.Gain, s, f)
	if s.Steps > 0 {
		o = Retract(mat.NewDense(m, k, x))
	}
	g := mat.NewDense(m, k, nil)
	s.Start, s.End = -s.Start, -f(mat.DenseCopyOf(o).RawMatrix().Data, g.RawMatrix().Data)
	s.Gradient = mat.Norm(g, 2) // by columns of length 1
	return o
}

// Retract is the Q of a QR decomposition with positive diagonal of R.
func Retract(a *mat.Dense) *mat.Dense {
	_, k := a.Dims()
	out := mat.DenseCopyOf(a)
	for j := range k {
		col := out.ColView(j).(*mat.VecDense)
		for range 2 {
			for i := range j {
				e := out.ColView(i)
				col.AddScaledVec(col, -mat.Dot(e, col), e)
			}
		}
		col.ScaleVec(1/mat.Norm(col, 2), col)
	}
	return out
}
