package svm

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

// Normal is the normal w of the linear support vector machine between the rows of two groups,
//
//	min (1/2)(|w|^2 + b^2) + c sum_i max(0, 1 - s_i (w.x_i + b))^2,
//
// s_i = +1 for rows of a, -1 for rows of b, by Newton's method (Keerthi and DeCoste, JMLR 6, 2005, the modified finite
// Newton method; the bias is a constant feature there too). The objective is quadratic between changes of the set of
// rows inside the margin, so it ends at the optimum, in some tens of steps at most. Coordinate descent needs many
// thousands of passes if classes overlap, and its result depends on the order of the rows.
func Normal(ctx context.Context, a, b *mat.Dense, c float64) (w []float64, err error) {
	na, m := a.Dims()
	nb, _ := b.Dims()
	z := mat.NewDense(na+nb, m+1, nil) // s_i (x_i, 1)
	for i := range na + nb {
		row := z.RawRowView(i)
		if row[m] = 1; i < na {
			copy(row, a.RawRowView(i))
			continue
		}
		for j, v := range b.RawRowView(i - na) {
			row[j] = -v
		}
		row[m] = -1
	}
	// Divided by 2c: F(v) = (lambda |v|^2 + sum_i max(0, 1 - z_i.v)^2)/2.
	lambda := 1 / (2 * c)
	v := mat.NewVecDense(m+1, nil)
	value, inside, gradient := margins(z, v, lambda)
	for { // the value falls at each step
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		step, ok := newtonStep(z, inside, gradient, lambda)
		if !ok {
			break
		}
		slope := mat.Dot(gradient, step)
		var next mat.VecDense
		moved := false
		for t := 1.0; ; t /= 2 {
			if next.AddScaledVec(v, -t, step); mat.Equal(&next, v) {
				break
			}
			f, in, g := margins(z, &next, lambda)
			if f <= value-1e-4*t*slope && f < value {
				same := t == 1 && slices.Equal(in, inside)
				moved = !same // the minimum of the quadratic: the optimum
				value, inside, gradient = f, in, g
				v.CopyVec(&next)
				break
			}
		}
		if !moved {
			break
		}
	}
	return v.RawVector().Data[:m], nil
}

// margins are F(v), the rows inside the margin and the gradient of F.
func margins(z *mat.Dense, v *mat.VecDense, lambda float64) (value float64, inside []int, gradient *mat.VecDense) {
	var score mat.VecDense
	score.MulVec(z, v)
	value = lambda * mat.Dot(v, v) / 2
	gradient = mat.NewVecDense(v.Len(), nil)
	gradient.ScaleVec(lambda, v)
	for i := range score.Len() {
		if loss := 1 - score.AtVec(i); loss > 0 {
			value += loss * loss / 2
			inside = append(inside, i)
			gradient.AddScaledVec(gradient, -loss, z.RowView(i))
		}
	}
	return value, inside, gradient
}

// newtonStep solves (lambda I + Z'Z) step = gradient over the rows inside. It is not ok if that has no solution in
// float64, for rows or c out of range.
func newtonStep(z *mat.Dense, inside []int, gradient *mat.VecDense, lambda float64) (*mat.VecDense, bool) {
	m := gradient.Len()
	h := mat.NewSymDense(m, nil)
	if len(inside) > 0 {
		h.SymOuterK(1, linalg.Pick(z, inside).T())
	}
	for j := range m {
		h.SetSym(j, j, h.At(j, j)+lambda)
		if !linalg.IsFinite(h.At(j, j)) {
			return nil, false
		}
	}
	var factor mat.Cholesky
	if !factor.Factorize(h) {
		return nil, false
	}
	step := mat.NewVecDense(m, nil)
	if err := factor.SolveVecTo(step, gradient); err != nil && !isCondition(err) {
		return nil, false
	}
	return step, linalg.IsFinite(mat.Norm(step, math.Inf(1)))
}

func isCondition(err error) bool { _, ok := err.(mat.Condition); return ok }
