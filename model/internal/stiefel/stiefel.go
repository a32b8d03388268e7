// Package stiefel maximises a criterion over matrices with orthonormal columns, the Stiefel manifold.
package stiefel

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
)

// Ascent is a gradient ascent over matrices with orthonormal columns.
type Ascent struct {
	Steps    int
	Relative float64 // stop when a step gains less than this share of the value
	Value    func(*mat.Dense) float64
	Gradient func(*mat.Dense) *mat.Dense
}

// From starts at o: the gradient is projected to the tangent space, the step doubled and then halved until Armijo's
// rule holds, with QR retraction.
func (c *Ascent) From(ctx context.Context, o *mat.Dense, s *model.Search) *mat.Dense {
	const armijo, shortest = 1e-4, 1e-14
	f, step := s.Start, 1.0
	s.End, s.Limit, s.Converged = f, c.Steps, true
	for ; s.Steps < c.Steps; s.Steps++ {
		fail.Check(ctx.Err())
		g := c.Gradient(o)
		var og mat.Dense
		og.Mul(o.T(), g)
		var back mat.Dense
		back.Mul(o, linalg.Symmetric(&og))
		g.Sub(g, &back)
		s.Gradient = mat.Norm(g, 2)
		step *= 2
		var next *mat.Dense
		reached := f
		for ; step > shortest; step /= 2 {
			var moved mat.Dense
			moved.Scale(step, g)
			moved.Add(o, &moved)
			next = Retract(&moved)
			if reached = c.Value(next); reached >= f+armijo*step*s.Gradient*s.Gradient {
				break
			}
		}
		if step <= shortest || reached <= f {
			return o
		}
		small := reached-f < c.Relative*max(reached, -reached)
		o, f = next, reached
		s.End = f
		if small {
			return o
		}
	}
	s.Converged = false
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
