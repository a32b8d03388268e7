package pencil

import (
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestOrders: rows are ordered by the diagonal, equal entries in their order; blocks and bases have their sizes.
func TestOrders(t *testing.T) {
	values, v := reversed([]float64{3, 2, 1}, mat.NewDense(1, 3, []float64{7, 8, 9}))
	if !slices.Equal(values, []float64{1, 2, 3}) || !slices.Equal(v.RawRowView(0), []float64{9, 8, 7}) {
		t.Errorf("%v, %v", values, v)
	}
	s := mat.NewSymDense(4, nil)
	for i, d := range []float64{3, 1, 3, 2} {
		s.SetSym(i, i, d)
	}
	if got := grade(s); !slices.Equal(got, []int{1, 3, 0, 2}) {
		t.Errorf("order %v", got)
	}
	if values, v := spectrum(new(mat.SymDense)); len(values) != 0 || !v.IsEmpty() {
		t.Error("a matrix of order 0 has values")
	}
	for d, want := range map[int]int{1: 4, 3: 4, 4: 5, 7: 8, 20: 8} {
		if got := blockSize(d); got != want {
			t.Errorf("blocks of %d for %d pairs, want %d", got, d, want)
		}
	}
	for _, c := range [][3]int{{1, 4, 40}, {3, 4, 40}, {20, 4, 56}, {1, 8, 80}, {30, 8, 92}} {
		if got := basisSize(c[0], c[1]); got != c[2] {
			t.Errorf("%d pairs in blocks of %d: a basis of %d, want %d", c[0], c[1], got, c[2])
		}
	}
	if got := krylovOrder(2, 4); got != 2*(2*(2+1+16)+4*4) {
		t.Errorf("order %d", got)
	}
}
