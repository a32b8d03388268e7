package scatter

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestPairsByHand compares accuracy, gradient and start with their formulas, for three means on a line, two of them
// equal.
func TestPairsByHand(t *testing.T) {
	p := &Pairs{Means: mat.NewDense(3, 2, []float64{0, 0, 2, 0, 2, 0}), Prior: []float64{0.5, 0.3, 0.2}}
	erf := math.Erf(2 / (2 * math.Sqrt2))
	x := mat.NewDense(2, 1, []float64{1, 0})
	if got, want := p.Accuracy(x), 0.25*erf; !(math.Abs(got-want) <= 1e-15) {
		t.Errorf("F is %g, want %g", got, want)
	}
	if got := p.Accuracy(mat.NewDense(2, 1, []float64{0, 1})); got != 0 {
		t.Errorf("across F is %g", got)
	}
	// sum p_i p_j exp(-D^2/8) / (sqrt(2 pi) D) t t'O with t = (2, 0).
	g := p.Gradient(x)
	if want := 0.25 * math.Exp(-0.5) / (math.Sqrt(2*math.Pi) * 2) * 4; !(math.Abs(g.At(0, 0)-want) <= 1e-15) ||
		g.At(1, 0) != 0 {
		t.Errorf("the gradient is %v, want %g", mat.Formatted(g), want)
	}
	if o := p.start(t.Context(), 1); !(math.Abs(math.Abs(o.At(0, 0))-1) <= 1e-12) {
		t.Errorf("the search starts at %v", mat.Formatted(o))
	}
	// The axis of most variance of the means comes first.
	p.Means = mat.NewDense(3, 2, []float64{0, 0, 1, 5, -1, -5})
	o := p.rotate(t.Context(), mat.NewDense(2, 2, []float64{1, 0, 0, 1}))
	if !(math.Abs(o.At(1, 0)) > math.Abs(o.At(0, 0))) || !(math.Abs(o.At(0, 0)*o.At(0, 1)+o.At(1, 0)*o.At(1,
		1)) <= 1e-12) {
		t.Errorf("rotated to %v", mat.Formatted(o))
	}
	for kind, want := range map[string][2]float64{"group": {0.25, 0.1}, "target": {0.25, 0.25}, "positive": {0.25, 1},
		"none": {1, 1}} {
		if alpha, beta := weights(kind, 4, 10); alpha != want[0] || beta != want[1] {
			t.Errorf("%s: %g and %g", kind, alpha, beta)
		}
	}
}
