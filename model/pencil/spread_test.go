package pencil

import (
	"context"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

// TestProductsAreSpread: products with a matrix of order 256, and with 64 vectors of 4096 numbers, have work for
// several cores.
func TestProductsAreSpread(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for _, c := range []struct {
		name string
		f    func()
		want int64 // goroutines besides the caller's
	}{
		{"matrix", func() {
			Dense(linalg.Symmetric(mat.NewDense(256, 256, nil))).Apply(t.Context(), mat.NewDense(256, 20, nil),
				mat.NewDense(256, 20, nil))
		}, 7},
		{"vectors", func() { project(t.Context(), mat.NewDense(8, 4096, nil), mat.NewDense(64, 4096, nil)) }, 3 + 7},
	} {
		before := parallel.Started()
		if c.f(); parallel.Started()-before != c.want {
			t.Errorf("%s: %d goroutines, want %d", c.name, parallel.Started()-before, c.want)
		}
	}
}

// watched counts how often a context is checked.
type watched struct {
	context.Context
	checks int
}

func (w *watched) Err() error { w.checks++; return nil }

// TestFactorIsMostlyProducts: a factor of order 480 is made in ten steps with a product between two of them, which
// checks the context.
func TestFactorIsMostlyProducts(t *testing.T) {
	ctx := &watched{Context: parallel.Limit(t.Context(), 1)}
	if cholesky(ctx, linalg.Symmetric(linalg.Identity(480))) == nil || ctx.checks < 9 {
		t.Errorf("the context was checked %d times", ctx.checks)
	}
}
