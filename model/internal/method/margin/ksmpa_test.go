package margin

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

// TestFactorsOfAKernel: a kernel is FF' down to 1e-10 of its largest entry, and coefficients of the pivots give the
// same outputs.
func TestFactorsOfAKernel(t *testing.T) {
	k := mat.NewSymDense(3, []float64{4, 2, 2, 2, 5, 1, 2, 1, 1}) // the third row is half of the first
	factor, pivots, back := factorKernel(k)
	n, r := factor.Dims()
	if n != 3 || r != 2 || !slices.Equal(pivots, []int{0, 1}) {
		t.Fatalf("%d x %d, pivots %v", n, r, pivots)
	}
	var product, outputs, want mat.Dense
	if product.Mul(factor, factor.T()); !mat.EqualApprox(&product, k, 1e-12) {
		t.Errorf("F F' is %v", mat.Formatted(&product))
	}
	a := mat.NewDense(2, 1, []float64{3, -2}) // outputs are F a, and K times the coefficients
	coefficients := mat.NewDense(2, 1, nil)
	coefficients.Mul(back, a)
	outputs.Mul(k.SliceSym(0, 2), coefficients)
	want.Mul(factor.Slice(0, 2, 0, 2), a)
	if !mat.EqualApprox(&outputs, &want, 1e-12) {
		t.Errorf("outputs %v, want %v", mat.Formatted(&outputs), mat.Formatted(&want))
	}
	if f, _, _ := factorKernel(mat.NewSymDense(2, nil)); f != nil {
		t.Error("a kernel of zeros has a factor")
	}
	for least, want := range map[float64]int{1.1e-10: 2, 0.9e-10: 1} {
		f, b := cutKernel(mat.NewDense(2, 2, []float64{1, 0, 0, math.Sqrt(least)}), linalg.Identity(2))
		if _, r := f.Dims(); r != want {
			t.Errorf("a value of %g: %d are kept, want %d", least, r, want)
		}
		if _, r := b.Dims(); r != want {
			t.Errorf("a value of %g: %d columns lead back", least, r)
		}
	}
}
