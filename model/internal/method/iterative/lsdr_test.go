package iterative

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
)

// TestMedianDistance: the upper of two middle distances, and 1 if it is zero.
func TestMedianDistance(t *testing.T) {
	for _, c := range []struct {
		z    []float64
		want float64
	}{{[]float64{0, 1, 3}, 2}, {[]float64{0, 1, 3, 7}, 4}, {[]float64{5}, 1}, {[]float64{5, 5, 5}, 1}} {
		if got := medianDistance(mat.NewDense(len(c.z), 1, c.z)); got != c.want {
			t.Errorf("%v: %g, want %g", c.z, got, c.want)
		}
	}
}

// TestInformationByHand compares the estimate with its formula, for two rows of one class and one of another, each a
// centre.
func TestInformationByHand(t *testing.T) {
	rows := &frame.Rows{N: 3, M: 1, Y: []int{0, 0, 1}, Classes: []string{"a", "b", "none"}}
	x := mat.NewDense(3, 1, []float64{0, 2, 5})
	q := NewInformation(x, rows, 100)
	q.S, q.Lambda = 2, 0.5
	if !slices.Equal(q.count, []float64{2, 1, 0}) || !slices.Equal(q.Own, [][2]int{{0, 2}, {2, 3}, {3, 3}}) {
		t.Fatalf("counts %v, centres %v", q.count, q.Own)
	}
	k, _, _ := q.kernel(x, mat.NewDense(1, 1, []float64{1}))
	at := func(d float64) float64 { return math.Exp(-d * d / 8) }
	if !(math.Abs(k.At(0, 1)-at(2)) <= 1e-15) || !(math.Abs(k.At(2, 0)-at(5)) <= 1e-15) || k.At(1, 1) != 1 {
		t.Fatalf("kernels %v", mat.Formatted(k))
	}
	h, linear := q.forms(k, rows.Y, 1, 1)
	wantH, wantL := (at(5)*at(5)+at(3)*at(3)+1)/9, 1./3
	if !(math.Abs(h.At(0, 0)-wantH) <= 1e-15) || !(math.Abs(linear.AtVec(0)-wantL) <= 1e-15) {
		t.Errorf("H is %g and h %g, want %g and %g", h.At(0, 0), linear.AtVec(0), wantH, wantL)
	}
	alpha, beta, _ := q.solve(k)
	if want := wantL / (wantH + 0.5); !(math.Abs(alpha[2]-want) <= 1e-14) ||
		!(math.Abs(beta[2]-0.5*want/(wantH+0.5)) <= 1e-14) {
		t.Errorf("alpha %g and beta %g, want %g and less", alpha[2], beta[2], want)
	}
	if got, want := q.risk(k, []int{1, 1, 1}, []float64{0, 0, 2}), 3*wantH*4/2-2*(at(5)+at(3)+1)/3; !(math.Abs(got-
		want) <= 1e-14) {
		t.Errorf("the risk is %g, want %g", got, want)
	}
	// Without rows to hold out s is the median distance of the centres, and lambda 0.1; given ones stay.
	for _, c := range []struct {
		s, lambda     string
		wantS, wantLa float64
	}{{"auto", "auto", 3, 0.1}, {"7", "auto", 7, 0.1}, {"auto", "4", 3, 4}} {
		task := &frame.Task{Params: map[string]string{"s": c.s, "lambda": c.lambda}, Rows: rows, Report: &model.Report{}}
		if q.chooseParams(t.Context(), task, mat.NewDense(1, 1, []float64{1})); q.S != c.wantS || q.Lambda != c.wantLa {
			t.Errorf("s=%s, lambda=%s: %g and %g", c.s, c.lambda, q.S, q.Lambda)
		}
	}
}
