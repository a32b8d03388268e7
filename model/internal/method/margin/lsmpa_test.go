package margin

import (
	"math/rand/v2"
	"testing"

	"github.com/embedd/embedd/model/internal/linalg"
)

// TestMedianPositive: the median of the positive numbers above a diagonal is that of their copy, bit by bit, also if
// many are equal, or most much smaller than the largest.
func TestMedianPositive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"uniform": r.Float64,
		"equal":   func() float64 { return float64(r.IntN(3)) },
		"wide":    func() float64 { return 1e-9*r.Float64() + 1e9*float64(r.IntN(20)/19) },
		"tiny":    func() float64 { return 5e-324 * float64(r.IntN(9)) },
	} {
		for n := 3; n < 40; n++ {
			g := make([]float64, n*n)
			for i := range g {
				g[i] = -1
			}
			g[1] = draw() + 5e-324
			positive, largest := []float64{g[1]}, g[1]
			for i := range n {
				for j := max(i+1, 2-i); j < n; j++ {
					if g[i*n+j] = draw(); g[i*n+j] > 0 {
						positive, largest = append(positive, g[i*n+j]), max(largest, g[i*n+j])
					}
				}
			}
			if got, want := medianPositive(g, n, largest), linalg.Median(positive); got != want {
				t.Errorf("%s, %d rows: %g, want %g", name, n, got, want)
			}
		}
	}
}
