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

// TestInformationByHand, of two rows of one class and one of another, each a centre.
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
		if q.settle(t.Context(), task, mat.NewDense(1, 1, []float64{1})); q.S != c.wantS || q.Lambda != c.wantLa {
			t.Errorf("s=%s, lambda=%s: %g and %g", c.s, c.lambda, q.S, q.Lambda)
		}
	}
}

// TestSums of every length up to 9, and what kernel values are weighed by.
func TestSums(t *testing.T) {
	for n := range 10 {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(i + 1)
		}
		if got := sum(x); got != float64(n*(n+1)/2) {
			t.Errorf("%d numbers: %g", n, got)
		}
	}
	kernel := []float64{2, 3}
	if weigh(kernel, []float64{5, 7, 9}, 0.5); !slices.Equal(kernel, []float64{5, 10.5}) {
		t.Errorf("weighed: %v", kernel)
	}
}

// TestLossByHand: -log of the share of the own class, of rows that weigh (1 + d^2/8)^-4, and the penalty.
func TestLossByHand(t *testing.T) {
	rows := &frame.Rows{N: 3, M: 1, Y: []int{0, 0, 1}, Classes: []string{"a", "b"}}
	l := NewNeighbourLoss(rows, 100)
	l.Project(t.Context(), mat.NewDense(3, 1, []float64{0, 1, 3}), mat.NewDense(1, 1, []float64{1}))
	weight := func(d float64) float64 { return math.Pow(1+d*d/8, -4) }
	p0, p1 := weight(1)/(weight(1)+weight(3)), weight(1)/(weight(1)+weight(2))
	want := -(math.Log(p0+1e-12) + math.Log(p1+1e-12) + math.Log(1e-12)) / 3 // the last row has no other of its class
	at := mat.NewDense(1, 1, []float64{1})
	if got := l.Value(t.Context(), at, nil); !(math.Abs(got-want) <= 1e-12) {
		t.Errorf("the loss is %g, want %g", got, want)
	}
	l.Penalty = 0.5
	if got := l.Value(t.Context(), at, nil); !(math.Abs(got-want-0.5) <= 1e-12) {
		t.Errorf("with a penalty: %g, want %g", got, want+0.5)
	}
	l.To = mat.NewDense(1, 1, []float64{3})
	if got := l.Value(t.Context(), at, nil); !(math.Abs(got-want-2) <= 1e-12) {
		t.Errorf("tied to 3: %g, want %g", got, want+2)
	}
	if got := l.leaveOneOut(t.Context(), at); !(math.Abs(got-2./3) <= 1e-15) {
		t.Errorf("%g have a neighbour of their class", got)
	}
	l.To, l.Penalty = nil, 0
	best := l.tie(t.Context(), 1)
	least, scale := math.Inf(1), 0.0
	for _, e := range []float64{-3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2} {
		l := *l
		l.To, l.Penalty = nil, 0
		if v := l.Value(t.Context(), mat.NewDense(1, 1, []float64{math.Exp2(e)}), nil); v < least {
			least, scale = v, math.Exp2(e)
		}
	}
	if best.At(0, 0) != scale || l.To != best || !(math.Abs(l.Penalty-0.3/(scale*scale)) <= 1e-12) {
		t.Errorf("the start is %g with a penalty of %g, want %g", best.At(0, 0), l.Penalty, scale)
	}
	one := NewNeighbourLoss(&frame.Rows{N: 1, M: 1, Y: []int{0}, Classes: []string{"a"}}, 100)
	one.Project(t.Context(), mat.NewDense(1, 1, []float64{2}), at)
	if got := one.Value(t.Context(), at, mat.NewDense(1, 1, nil)); got != 0 {
		t.Errorf("the loss of one row is %g", got)
	}
}
