package margin

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
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

// TestWeightsOfPairs: weights are functions of the nearness, which is from a thousandth of its median to 1.
func TestWeightsOfPairs(t *testing.T) {
	x := mat.NewDense(5, 1, []float64{0, 0, 1, 3, 4})
	task := &frame.Task{X: x, M: 1, Params: map[string]string{"k": "4", "l1": "2", "l2": "3", "l3": "5"},
		Report: &model.Report{}, Rows: &frame.Rows{N: 5, M: 1, Y: []int{0, 0, 0, 1, 1}}}
	d, s := smpaWeights(t.Context(), task)
	// Distances 1, 1, 1, 2, 3, 3, 3, 4, 4 over 4 have the median 3/4.
	for _, c := range []struct {
		i, j    int
		nearest float64
	}{{0, 1, 0.75e-3}, {0, 2, 0.25}, {3, 4, 0.25}, {0, 3, 0.75}, {4, 0, 1}, {2, 3, 0.5}} {
		want := [2]float64{2 * c.nearest, 5 / c.nearest}
		if task.Rows.Y[c.i] != task.Rows.Y[c.j] {
			want = [2]float64{3 / c.nearest, 0}
		}
		row := make([]float64, 5)
		if d.RowTo(row, c.i); !(math.Abs(row[c.j]-want[0]) <= 1e-12) || d.At(c.j, c.i) != row[c.j] ||
			!(math.Abs(s.At(c.i, c.j)-want[1]) <= 1e-9) {
			t.Errorf("rows %d and %d: %g and %g, want %v", c.i, c.j, row[c.j], s.At(c.i, c.j), want)
		}
	}
	if n, m := d.Dims(); n != 5 || m != 5 || d.At(2, 2) != 0 || s.At(0, 0) != 0 || d.T() != mat.Matrix(d) {
		t.Errorf("%d x %d", n, m)
	}
	for dim, want := range map[int]string{2: "linear gauss", 3: "linear gauss", 4: "gauss"} {
		if got := strings.Join(smpaKernels(&frame.Task{D: dim, Columns: 3}), " "); got != want {
			t.Errorf("%d outputs of 3 columns: %s", dim, got)
		}
	}
}
