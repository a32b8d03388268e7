package mapping

import (
	"math"
	"testing"
)

// TestFarBarycentres: neighbours whose squared distances are near the limits of float64 have the same weights.
func TestFarBarycentres(t *testing.T) {
	for _, size := range []float64{1e-160, 1, 1e150} {
		e, err := (&Barycentric{Training{1, []float64{0, size, 9 * size}, []float64{2, 4, 30}}, 2, 1e-9}).Extension(1)
		if err != nil {
			t.Fatal(err)
		}
		dst := []float64{99}
		if _, err := e.Project(dst, []float64{0.25 * size}, 1, e.Workspace()); err != nil || !(math.Abs(dst[0]-2.5) <= 1e-6) {
			t.Errorf("at a distance of %g: %g, %v", size, dst[0], err)
		}
	}
}
