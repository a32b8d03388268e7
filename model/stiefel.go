package model

import (
	"context"

	"gonum.org/v1/gonum/mat"
)

// climb is an ascent over matrices with orthonormal columns.
type climb struct {
	steps    int
	relative float64 // ends where a step gains less than this share of the value
	value    func(*mat.Dense) float64
	gradient func(*mat.Dense) *mat.Dense
}

// from climbs from o: gradient projected to the tangent space, step doubled and
// then halved until Armijo's rule holds, QR retraction.
func (c *climb) from(ctx context.Context, o *mat.Dense, s *Search) (*mat.Dense, error) {
	const armijo, flat, shortest = 1e-4, 1e-10, 1e-14
	f, step := s.Start, 1.0
	s.End = f
	for ; s.Steps < c.steps; s.Steps++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		g := c.gradient(o)
		var og mat.Dense
		og.Mul(o.T(), g)
		var back mat.Dense
		back.Mul(o, symmetric(&og))
		g.Sub(g, &back)
		s.Gradient = mat.Norm(g, 2)
		if s.Gradient <= flat {
			break
		}
		step *= 2
		var next *mat.Dense
		reached := f
		for ; step > shortest; step /= 2 {
			var moved mat.Dense
			moved.Scale(step, g)
			moved.Add(o, &moved)
			next = retract(&moved)
			if reached = c.value(next); reached >= f+armijo*step*s.Gradient*s.Gradient {
				break
			}
		}
		if step <= shortest || reached <= f {
			break
		}
		small := reached-f < c.relative*max(reached, -reached)
		o, f = next, reached
		s.End = f
		if small {
			break
		}
	}
	return o, nil
}

// retract is the Q of a QR decomposition with positive diagonal of R.
func retract(a *mat.Dense) *mat.Dense {
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
