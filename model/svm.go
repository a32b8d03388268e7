package model

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// svm is the normal w of the linear support vector machine between the rows of
// two groups,
//
//	min (1/2)(|w|^2 + b^2) + c sum_i max(0, 1 - s_i (w.x_i + b))^2,
//
// s_i = +1 for rows of a, -1 for rows of b, by dual coordinate descent in row
// order (Hsieh, Chang, Lin, Keerthi and Sundararajan, ICML 2008, algorithm 1,
// L2-SVM; the bias is a constant feature there too). It ends when no
// projected gradient exceeds 1e-6, or after 2000 passes.
func svm(ctx context.Context, a, b *mat.Dense, c float64) (w []float64, err error) {
	const passes, tolerance = 2000, 1e-6
	na, m := a.Dims()
	nb, _ := b.Dims()
	row := func(i int) ([]float64, float64) {
		if i < na {
			return a.RawRowView(i), 1
		}
		return b.RawRowView(i - na), -1
	}
	w = make([]float64, m)
	bias := 0.0
	alpha, diagonal := make([]float64, na+nb), make([]float64, na+nb)
	for i := range alpha {
		x, _ := row(i)
		diagonal[i] = floats.Dot(x, x) + 1 + 1/(2*c)
	}
	for range passes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		worst := 0.0
		for i, old := range alpha {
			x, s := row(i)
			g := s*(floats.Dot(w, x)+bias) - 1 + old/(2*c)
			if old == 0 {
				worst = max(worst, -g)
			} else {
				worst = max(worst, math.Abs(g))
			}
			alpha[i] = max(old-g/diagonal[i], 0)
			if step := s * (alpha[i] - old); step != 0 {
				floats.AddScaled(w, step, x)
				bias += step
			}
		}
		if worst <= tolerance {
			break
		}
	}
	return w, nil
}
