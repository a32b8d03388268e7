package tile

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// TestLyingSquares: a product has the bits of the sum in order, on each kernel of the machine, and a quotient the same
// bits on all.
func TestLyingSquares(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	draw := func() *PackedSquare {
		s := new(PackedSquare)
		for i := range s {
			s[i] = rng.NormFloat64()
		}
		return s
	}
	a, b, c := draw(), draw(), draw()
	defer func(l int) { level = l }(level)
	for level = best(); level >= portable; level-- {
		got := *c
		got.SubtractProduct(a, b)
		for i := range Square {
			for j := range Square {
				sum, at := 0.0, c.At(i, j)
				for k := range Square {
					sum = fma(a[a.At(i, k)], b[b.At(j, k)], sum)
				}
				want := c[at] - sum
				if got[at] != want && !(emulated && math.Abs(got[at]-want) < 1e-12) {
					t.Fatalf("(%d, %d) is %g, want %g", i, j, got[at], want)
				}
			}
		}
	}
	l := new(PackedSquare)
	triangle := blas64.Triangular{N: Square, Stride: Square, Data: make([]float64, Square*Square), Uplo: blas.Lower,
		Diag: blas.NonUnit}
	for i := range Square {
		for j := range i + 1 {
			v := rng.NormFloat64()
			if j == i {
				v = 20 + v
			}
			l[l.At(i, j)], triangle.Data[i*Square+j] = v, v
		}
	}
	var first PackedSquare
	for level = best(); level >= portable; level-- {
		x := *c
		x.Divide(l, triangle)
		if level == best() {
			first = x
		} else if x != first && !emulated {
			t.Errorf("level %d divides to other bits", level)
		}
		for i := range Square {
			for j := range Square { // X L' is what it was
				sum := 0.0
				for k := range j + 1 {
					sum += x[x.At(i, k)] * l[l.At(j, k)]
				}
				if !(math.Abs(sum-c[c.At(i, j)]) <= 1e-12) {
					t.Fatalf("(%d, %d): %g back, want %g", i, j, sum, c[c.At(i, j)])
				}
			}
		}
	}
	if p := c.Panels(); &p[1][0] != &c[c.At(panel, 0)] || &p[2][panel] != &c[c.At(2*panel, 1)] {
		t.Error("the panels are not where the numbers are")
	}
}
