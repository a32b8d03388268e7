package graph

import (
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

// TestAlignLinearSharesProducts: many small patches share products, and do not each make matrices of m x m.
func TestAlignLinearSharesProducts(t *testing.T) {
	const n, m = 200, 300
	x, l := mat.NewDense(n, m, nil), mat.NewSymDense(4, nil)
	for i := range n {
		x.Set(i, i, 1)
	}
	for i := range 4 {
		l.SetSym(i, i, 1)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := AlignLinear(t.Context(), x, func(yield func(Patch) bool) {
		for i := 0; i+4 <= n && yield(Patch{Rows: linalg.Range(n)[i : i+4], L: l}); i++ {
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if s.At(0, 0) != 1 || s.At(10, 10) != 4 || s.At(10, 11) != 0 {
		t.Errorf("sums %g, %g and %g", s.At(0, 0), s.At(10, 10), s.At(10, 11))
	}
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 40 {
		t.Errorf("allocated %d MB, want at most 40", mb)
	}
}
