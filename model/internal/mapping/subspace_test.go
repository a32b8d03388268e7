package mapping

import (
	"math"
	"testing"

	"github.com/embedd/embedd/model/internal/linalg"
)

// TestMaxRank compares with the formula: a kernel costs 8 multiplications, and there are at most 96 vectors.
func TestMaxRank(t *testing.T) {
	for _, c := range [][3]int{{100, 7, 0}, {100, 8, 0}, {100, 28, 100 * 20 / 256}, {300, 64, 300 * 56 / 728},
		{100_000, 1000, 96}, {1, 300, 0}} {
		if got := MaxRank(c[0], c[1]); got != c[2] {
			t.Errorf("%d rows of %d: %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// TestSpan: a part of less than 1e-12 of a row is rounding error, and rows whose squares exceed float64 have no basis.
func TestSpan(t *testing.T) {
	row := func(v ...float64) []float64 { return v }
	for _, c := range []struct {
		rows []float64
		most int
		want int // vectors; -1: none
	}{
		{row(1, 0, 1, 2e-12), 2, 2}, {row(1, 0, 1, 0.5e-12), 2, 1}, {row(1, 0, 0, 1), 1, -1}, {row(0, 0, 3, 4), 2, 1},
		{row(0, 0, 0, 0), 2, -1}, {row(1e-151, 0, 1, 1), 2, -1}, {row(1e-149, 0, 1, 1), 2, 2},
		{row(1e-200, 0, 1, 1), 2, -1}, {row(1e160, 0, 1, 1), 2, -1}, {row(1e153, 0, 1, 1), 2, 2},
	} {
		basis := span(c.rows, 2, c.most)
		if c.want < 0 != (basis == nil) || c.want > 0 && len(basis) != 2*c.want {
			t.Errorf("%v: %v, want %d vectors", c.rows, basis, c.want)
		}
		for i := range len(basis) / 2 {
			for j := range i + 1 {
				want := float64(1 - min(i-j, 1))
				if got := linalg.Dot(basis[2*i:2*i+2], basis[2*j:2*j+2]); !(math.Abs(got-want) <= 1e-14) {
					t.Errorf("%v: the product of vectors %d and %d is %g", c.rows, i, j, got)
				}
			}
		}
	}
}
