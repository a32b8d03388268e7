package svm

import (
	"context"
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestNormalByHand: for rows at 1 and -1 the minimum of w^2/2 + 2 c (1 - w)^2 is at 4c/(1 + 4c), and rows outside of
// the margin change nothing.
func TestNormalByHand(t *testing.T) {
	for _, c := range []float64{0.01, 0.5, 10, 1e4} {
		for _, more := range []float64{1, 9} {
			a, b := mat.NewDense(2, 1, []float64{1, more}), mat.NewDense(2, 1, []float64{-1, -more})
			want := 8 * c / (1 + 8*c) // each row twice
			if more > 1 {
				if want = 4 * c / (1 + 4*c); more*want < 1 { // they are within the margin
					continue
				}
			}
			w, err := Normal(t.Context(), a, b, c)
			if err != nil || !(math.Abs(w[0]-want) <= 1e-12) {
				t.Errorf("c = %g, rows at %g: %v, want %g; %v", c, more, w, want, err)
			}
		}
	}
	w, err := Normal(t.Context(), mat.NewDense(1, 1, []float64{2}), mat.NewDense(1, 1, []float64{2}), 1)
	if err != nil || !(math.Abs(w[0]) <= 1e-12) {
		t.Errorf("between equal rows: %v, %v", w, err)
	}
	v := mat.NewVecDense(2, []float64{0.5, 0.25})
	z := mat.NewDense(2, 2, []float64{1, 1, 4, 1})
	value, inside, gradient := margins(z, v, 2)
	if value != 0.3125+0.25*0.25/2 || len(inside) != 1 || inside[0] != 0 || gradient.AtVec(0) != 1-0.25 ||
		gradient.AtVec(1) != 0.5-0.25 {
		t.Errorf("F is %g, inside %v, gradient %v", value, inside, gradient)
	}
	if _, ok := newtonStep(mat.NewDense(1, 2, []float64{1e200, 1}), []int{0}, gradient, 1); ok {
		t.Error("rows whose squares exceed float64 have a step")
	}
	if step, ok := newtonStep(z, nil, gradient, 2); !ok || !(math.Abs(step.AtVec(0)-gradient.AtVec(0)/2) <= 1e-15) {
		t.Errorf("without rows inside: %v, %v", step, ok)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Normal(ctx, z, z, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
