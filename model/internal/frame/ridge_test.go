package frame

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestShrinkageOfAnyUnit: the shrinkage does not depend on the unit of the features.
func TestShrinkageOfAnyUnit(t *testing.T) {
	s := mat.NewSymDense(3, []float64{4, 1, -0.5, 1, 2, 0.25, -0.5, 0.25, 1})
	want, ridge := OAS(s, 20, 3)
	if !(want > 0.05 && want < 0.5) {
		t.Fatalf("shrinkage %g", want)
	}
	for _, unit := range []float64{1e-307, 1e-170, 1e-81, 1e77, 1e155, 1e307} { // of the variances
		var scaled mat.SymDense
		scaled.ScaleSym(unit, s)
		got, r := OAS(&scaled, 20, 3)
		if !(math.Abs(got-want) <= 1e-12 && math.Abs(r-ridge) <= 1e-12) {
			t.Errorf("variances times %g: shrinkage %g and ridge %g, want %g and %g", unit, got, r, want, ridge)
		}
	}
}

// TestShrinkageByHand: ((tr S^2)/p^2 + u^2) / ((n+1) ((tr S^2)/p^2 - u^2/p)) with the mean u of the diagonal.
func TestShrinkageByHand(t *testing.T) {
	s := []float64{4, 1, 1, 2} // the numerator is 14.5, the denominator n+1
	for _, c := range []struct {
		s                []float64
		n                float64
		columns          int
		shrinkage, ridge float64
	}{
		{s, 20, 2, 14.5 / 21, 14.5 / 6.5},
		{s, 14, 2, 14.5 / 15, 10},
		{s, 13.5, 2, 1, 10},
		{s, 14.5e9 - 1, 2, 1e-9, 1e-6},
		{[]float64{1, 0, 0, 1}, 20, 2, 1, 10}, // no number of rows would tell it from the identity
		{[]float64{0, 0, 0, 0}, 20, 2, 0, 1e-6},
		{[]float64{3, 0, 0, 0}, 20, 1, 0, 1e-6},
	} {
		shrinkage, ridge := OAS(mat.NewSymDense(2, c.s), c.n, c.columns)
		if !(math.Abs(shrinkage-c.shrinkage) <= 1e-12*c.shrinkage) || !(math.Abs(ridge-c.ridge) <= 1e-12*c.ridge) {
			t.Errorf("%v, n = %g: %g and %g, want %g and %g", c.s, c.n, shrinkage, ridge, c.shrinkage, c.ridge)
		}
	}
}
