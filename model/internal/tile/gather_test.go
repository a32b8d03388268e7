package tile

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestGather: every kernel has the bits of fused multiply-adds in order, for any columns, and writes nowhere else.
func TestGather(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, l := range levels() {
		force(t, l)
		for n := range 150 {
			rows, stride, k := 1+rng.IntN(9), n+1+rng.IntN(3), rng.IntN(12)
			x, value, index := draw(rng, rows*stride), draw(rng, k), make([]int, k)
			for p := range index {
				index[p] = rng.IntN(rows)
			}
			x[(rows-1)*stride+n] = math.NaN() // outside the columns that count
			all := draw(rng, n+2)
			before, after := all[0], all[n+1]
			dst := all[1 : n+1]
			Gather(dst, index, value, x, stride)
			if all[0] != before || all[n+1] != after {
				t.Fatalf("level %d, %d columns: a number outside the result was changed", l, n)
			}
			for c, got := range dst {
				want := 0.0
				for p, i := range index {
					want = math.FMA(value[p], x[i*stride+c], want)
				}
				if got != want && !(emulated && math.Abs(got-want) < 1e-12) {
					t.Fatalf("level %d, %d columns, %d rows: element %d is %g, not %g", l, n, k, c, got, want)
				}
			}
		}
	}
}

// TestGatherOutside: the index of a missing row is a panic, not a read.
func TestGatherOutside(t *testing.T) {
	x := make([]float64, 3*10)
	for _, i := range []int{-1, 3} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("row %d of 3 was read", i)
				}
			}()
			Gather(make([]float64, 8), []int{0, i}, []float64{1, 1}, x, 10)
		}()
	}
}
