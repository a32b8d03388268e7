package similarity

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
)

// TestWidthsByHand computes distances, widths and heat kernels of rows at 0, 1 and 3.
func TestWidthsByHand(t *testing.T) {
	d := SquaredDistances(t.Context(), mat.NewDense(3, 1, []float64{0, 1, 3}))
	if want := mat.NewDense(3, 3, []float64{0, 1, 9, 1, 0, 4, 9, 4, 0}); !mat.Equal(d, want) {
		t.Fatalf("squared distances %v", mat.Formatted(d))
	}
	if w := Width(d, 0.5); w != 2 {
		t.Errorf("the width is %g, want half of 4", w)
	}
	if m := MeanNearest(d); m != 2 {
		t.Errorf("the mean is %g, want that of 1, 1 and 4", m)
	}
	for width, rate := range map[float64]float64{2: 0.5, 0: 0, -1: 0, 1e-320: math.MaxFloat64} {
		s, got := Heat(d, width)
		if got != rate || s.At(1, 1) != 0 || s.At(0, 1) != math.Exp(-rate) || s.At(2, 0) != math.Exp(-9*rate) {
			t.Errorf("width %g: rate %g, %v", width, got, mat.Formatted(s))
		}
	}
}

// TestObjectiveByHand compares the objective with tr G - 2 tr(GW) + tr(WGW) + alpha |W - S|^2 + beta sum W, also from
// products split by sign.
func TestObjectiveByHand(t *testing.T) {
	g := mat.NewDense(2, 2, []float64{3, -1, -1, 2})
	w, s := mat.NewDense(2, 2, []float64{0, 0.5, 0.5, 0}), mat.NewDense(2, 2, []float64{0, 2, 2, 0})
	var product mat.Dense
	product.Mul(w, g) // (-0.5, 1; 1.5, -0.5)
	r := Rule{Alpha: 0.1, Beta: 0.2}
	want := 5 - 2*-1 + 0.5*(1+1.5) + 0.1*2*2.25 + 0.2
	if got := r.Objective(g, s, w, &product, nil); !(math.Abs(got-want) <= 1e-14) {
		t.Errorf("%g, want %g", got, want)
	}
	plus, minus := mat.NewDense(2, 2, []float64{0, 1, 1.5, 0}), mat.NewDense(2, 2, []float64{0.5, 0, 0, 0.5})
	if got := r.Objective(g, s, w, plus, minus); !(math.Abs(got-want) <= 1e-14) {
		t.Errorf("by sign: %g, want %g", got, want)
	}
	// The gradient of both entries is 2.5 + 2 - 0.3 + 0.2 = 4.4, and each is 0.5.
	for _, m := range []*mat.Dense{nil, minus} {
		p := &product
		if m != nil {
			p = plus
		}
		if got := r.optimality(g, s, w, p, m); !(math.Abs(got-0.5) <= 1e-14) {
			t.Errorf("optimality %g, want 0.5", got)
		}
	}
	zero := mat.NewDense(2, 2, nil)
	if got := (Rule{}).optimality(zero, zero, w, zero, nil); got != 0 {
		t.Errorf("without a gradient: %g", got)
	}
	// Algorithm 2: 0.5 times 2 (1 + 0.1*2) / (0.7 + 0.7 + 2*0.1*0.5 + 0.2).
	even, wp := mat.NewDense(2, 2, []float64{0, 1, 1, 0}), mat.NewDense(2, 2, []float64{0, 0.7, 0.7, 0})
	own := mat.DenseCopyOf(w)
	r.Step(t.Context(), even, nil, s, own, wp, nil)
	share := 2 * 1.2 / 1.7
	if !(math.Abs(own.At(0, 1)-0.5*share) <= 1e-14) || own.At(1, 0) != own.At(0, 1) || own.At(0, 0) != 0 {
		t.Errorf("a step leads to %v", mat.Formatted(own))
	}
	// Algorithm 1: the square root, with 2 * 0.3 below and 0.1 + 0.1 above.
	own.Copy(w)
	wm, below := mat.NewDense(2, 2, []float64{0, 0.1, 0.1, 0}), mat.NewDense(2, 2, []float64{0, 0.3, 0.3, 0})
	r.Step(t.Context(), even, below, s, own, wp, wm)
	if want := 0.5 * math.Sqrt((0.2+2.4)/(1.7+0.6)); !(math.Abs(own.At(0, 1)-want) <= 1e-14) {
		t.Errorf("a step by sign leads to %g, want %g", own.At(0, 1), want)
	}
	own.Copy(w)
	(Rule{}).Step(t.Context(), zero, nil, zero, own, zero, nil)
	if own.At(0, 1) != 0.5 {
		t.Errorf("without terms the weight becomes %g", own.At(0, 1))
	}
}

// TestThinFactor: products of a rank up to a quarter of the order have one.
func TestThinFactor(t *testing.T) {
	for rank, want := range map[int]bool{1: true, 3: true, 4: false, 12: false} {
		g := mat.NewDense(12, 12, nil)
		for i := range rank {
			g.Set(i, i, float64(1+i))
		}
		if f := thinFactor(g); (f != nil) != want {
			t.Errorf("rank %d of order 12: %v", rank, !want)
		}
	}
	if thinFactor(mat.NewDense(4, 4, nil)) != nil {
		t.Error("zero has a factor")
	}
	for size, refused := range map[float64]bool{1e150: false, 1.01e150: true} {
		g := mat.NewDense(2, 2, []float64{size, 0, 0, 1})
		err := func() (err error) {
			defer fail.Catch(&err)
			Rule{Steps: 1}.Learn(t.Context(), g, mat.NewDense(2, 2, nil), func(float64) {})
			return nil
		}()
		if (err != nil) != refused || err != nil && !strings.HasPrefix(err.Error(),
			"the largest product of two of the 2 rows is 1.01e+150, more than 1e150; scale the features") {
			t.Errorf("a product of %g: %v", size, err)
		}
	}
}

// TestLearningByHand: of two rows there is one weight. It starts at 1, or at a sum of 1, and ends at its minimum
// (g + alpha s - beta/2) / (mean of the diagonal + alpha).
func TestLearningByHand(t *testing.T) {
	g, s := mat.NewDense(2, 2, []float64{3, 1, 1, 5}), mat.NewDense(2, 2, []float64{0, 2, 2, 0})
	for _, r := range []Rule{{Alpha: 1, Beta: 0.4, Steps: 400, Tolerance: 1e-15},
		{Alpha: 1, Beta: 0.4, Steps: 400, Tolerance: 1e-15, Signed: true},
		{Alpha: 1, Beta: 0.4, Steps: 400, Tolerance: 1e-15, SumToOne: true}} {
		last := -1.0
		l := r.Learn(t.Context(), g, s, func(done float64) { last = done })
		if want := (1 + 2 - 0.2) / (4 + 1); !(math.Abs(l.W.At(0, 1)-want) <= 1e-6) || !l.Converged {
			t.Errorf("%+v: the weight is %g, want %g; %+v", r, l.W.At(0, 1), want, l)
		}
		if zero, start := 8+8., 8-2*2+8+2*1+0.8; l.Zero != zero || !(math.Abs(l.Start-start) <= 1e-12) || !(last < 1) ||
			!(l.End < l.Start) {
			t.Errorf("%+v: J is %g at 0 and %g at the start, want %g and %g; progress %g", r, l.Zero, l.Start, zero, start, last)
		}
	}
	if l := (Rule{Alpha: 1, Beta: 0.4, Steps: 3}).Learn(t.Context(), g, s, func(float64) {}); l.Steps != 3 || l.Converged {
		t.Errorf("three steps: %+v", l)
	}
	three := mat.NewDense(3, 3, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1})
	if l := (Rule{SumToOne: true}).Learn(t.Context(), three, mat.NewDense(3, 3, nil), func(float64) {}); l.W.At(0,
		1) != 0.5 ||
		l.W.At(1, 1) != 0 {
		t.Errorf("rows that sum to 1: %v", mat.Formatted(l.W))
	}
}
