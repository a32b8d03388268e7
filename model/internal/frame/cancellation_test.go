package frame

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestCancellation: the worst column decides, in a basis as well, and one without outputs has none.
func TestCancellation(t *testing.T) {
	s := mat.NewSymDense(2, []float64{1, 0.98, 0.98, 1}) // the difference has the variance 0.04, its terms 2
	for _, c := range []struct {
		a    []float64
		want float64
	}{
		{[]float64{1, 1, 1, -1}, math.Sqrt(2 / 0.04)}, {[]float64{1, 0, -1, 0}, math.Sqrt(2 / 0.04)},
		{[]float64{0, 0, 0, 0}, 1}, {[]float64{1, 0, 0, 1}, 1}, {[]float64{1, 1, 1, 1}, 1},
	} {
		a := mat.NewDense(2, 2, c.a)
		half := math.Sqrt(0.5)
		basis := mat.NewDense(2, 2, []float64{half, half, half, -half})
		within := mat.NewSymDense(2, []float64{1.98, 0, 0, 0.02})
		for name, got := range map[string]float64{"features": Cancellation(t.Context(), a, s, nil),
			"a basis": Cancellation(t.Context(), a, within, basis)} {
			if !(math.Abs(got-c.want) <= 1e-9) {
				t.Errorf("%v by %s: %g, want %g", c.a, name, got, c.want)
			}
		}
	}
}
