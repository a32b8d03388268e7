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
