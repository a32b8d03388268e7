package similarity

import (
	"context"
	"math"
	"runtime"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/parallel"
)

// TestOptimality: it is the largest product of a weight and its gradient over the largest gradient, off the diagonal.
func TestOptimality(t *testing.T) {
	square := func(v ...float64) *mat.Dense { return mat.NewDense(2, 2, v) }
	zero := square(0, 0, 0, 0)
	r := Rule{Alpha: 0.5, Beta: 1}
	for name, c := range map[string]struct {
		g, s, w, wp, wm *mat.Dense
		want            float64
	}{
		// gradient = wp_ij + wp_ji - 2 g_ij + 2 alpha (w_ij - s_ij) + beta
		"one gradient":      {zero, zero, square(9, 0.5, 0.5, 9), zero, nil, 0.5},
		"two gradients":     {square(0, 2, 0, 0), zero, square(0, 0.5, 0.25, 0), zero, nil, 1.25 / 2.5},
		"of a zero weight":  {square(0, 2, 0, 0), zero, square(0, 0, 1, 0), zero, nil, 2. / 3},
		"with products":     {zero, zero, square(0, 1, 2, 0), square(9, 1, 2, 9), nil, 12. / 6},
		"with both":         {zero, zero, square(0, 1, 2, 0), square(9, 1, 2, 9), square(9, 0.5, 0.5, 9), 10. / 5},
		"with a similarity": {zero, square(0, 1, 0, 0), square(0, 0.5, 0, 0), zero, nil, 0.25},
	} {
		if got := r.optimality(c.g, c.s, c.w, c.wp, c.wm); !(math.Abs(got-c.want) <= 1e-15) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := (Rule{}).optimality(zero, zero, zero, zero, nil); got != 0 {
		t.Errorf("without gradients it is %v", got)
	}
}

// TestWidths: of squared distances, the least over rows of the largest, and the mean of the least to another row.
func TestWidths(t *testing.T) {
	squared := mat.NewDense(3, 3, []float64{0, 1, 9, 1, 0, 4, 9, 4, 0})
	if got := Width(squared, 0.5); got != 2 {
		t.Errorf("the width is %v, want 2", got)
	}
	if got := MeanNearest(squared); !(math.Abs(got-2) <= 1e-15) {
		t.Errorf("the mean of the nearest is %v, want 2", got)
	}
}

// watched counts how often a context is asked whether it has ended.
type watched struct {
	context.Context
	asked int
}

func (w *watched) Err() error { w.asked++; return nil }

// TestChangesAreSpread: the product of a small change of 256 rows has work for eight cores.
func TestChangesAreSpread(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	const n = 256
	p := IncrementalProduct{G: mat.NewDense(n, n, nil)}
	w, dst := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
	p.Of(t.Context(), dst, w)
	before := parallel.Started()
	if p.Of(t.Context(), dst, w); parallel.Started()-before != 7 {
		t.Errorf("%d goroutines besides the caller's", parallel.Started()-before)
	}
}

// TestProductsWatchTheContext: a product of 300 rows asks it twice, once for each 256.
func TestProductsWatchTheContext(t *testing.T) {
	const n = 300
	a, out, ctx := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil), &watched{Context: t.Context()}
	if multiplySquare(ctx, out, a, a); ctx.asked != 2 {
		t.Errorf("asked %d times", ctx.asked)
	}
}

// TestLargeProducts: products of rows whose squares overflow are an error with the largest of them.
func TestLargeProducts(t *testing.T) {
	var err error
	func() {
		defer fail.Catch(&err)
		Rule{}.Learn(t.Context(), mat.NewDense(2, 2, []float64{1, -2e151, -2e151, 1}), mat.NewDense(2, 2, nil), nil)
	}()
	if err == nil || !strings.Contains(err.Error(), "product of two of the 2 rows is 2e+151, more than 1e150") {
		t.Errorf("the error is %v", err)
	}
}
