package tile

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestRow: the products of one vector have the bits of fused multiply-adds in order and of those of many vectors, and
// nothing outside the result is written.
func TestRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, l := range levels() {
		force(t, l)
		for _, n := range []int{1, 8, 23, 24, 25, 300} {
			for _, k := range []int{1, 7, 71, 72, 73, 300} {
				data, x := draw(rng, n*k), draw(rng, k)
				table := NewTable(data, n, k, k, 1)
				side, many := make([]float64, k*Together), make([]float64, table.Rows()*Together)
				for i, v := range x {
					side[i*Together+5] = v
				}
				table.Times(many, side)
				dst := make([]float64, table.Width()+1)
				dst[table.Width()] = -7
				table.Row(dst, x)
				if dst[table.Width()] != -7 {
					t.Fatalf("level %d, %d x %d: a number outside the result was changed", l, n, k)
				}
				for i := range n {
					want := 0.0
					for p, v := range x {
						want = math.FMA(v, data[i*k+p], want)
					}
					if got := dst[i]; got != want && !(emulated && math.Abs(got-want) < 1e-12) || got != many[i*Together+5] {
						t.Fatalf("level %d, %d x %d: product %d is %g, next to others %g, want %g", l, n, k, i, got,
							many[i*Together+5], want)
					}
				}
			}
		}
	}
}

// TestDistances: every kernel has the bits of the formula.
func TestDistances(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, l := range levels() {
		force(t, l)
		for n := range 30 {
			v, a, b, rate := draw(rng, n+1), draw(rng, n+1), rng.Float64(), -rng.Float64()
			want := make([]float64, n)
			for j := range want {
				twice := 2 * v[j]
				want[j] = max(a[j]+b-twice, 0) * rate
			}
			outside := v[n]
			Distances(v[:n], a, b, rate)
			for j := range want {
				if v[j] != want[j] {
					t.Fatalf("level %d: number %d of %d is %g, want %g", l, j, n, v[j], want[j])
				}
			}
			if v[n] != outside {
				t.Fatalf("level %d: a number after %d was changed", l, n)
			}
		}
	}
}

// TestStandardise: every kernel has the bits of the formula, for numbers of every size.
func TestStandardise(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 0, 5e-324,
		math.Copysign(0, -1)}
	for _, l := range levels() {
		force(t, l)
		for n := range 40 {
			x, mean, scale := draw(rng, n+1), draw(rng, n), make([]float64, n)
			for j := range scale {
				scale[j] = rng.Float64() + 1e-3
				if rng.IntN(3) == 0 {
					x[j], scale[j] = special[rng.IntN(len(special))], 1e-300
				}
			}
			want := make([]float64, n)
			for j, v := range x[:n] {
				if !math.IsNaN(v) && !math.IsInf(v, 0) {
					want[j] = min(max((v-mean[j])/scale[j], -math.MaxFloat64), math.MaxFloat64)
				}
			}
			outside := x[n]
			Standardise(x[:n], mean, scale)
			for j := range want {
				if math.Float64bits(x[j]) != math.Float64bits(want[j]) {
					t.Fatalf("level %d: number %d of %d is %g, want %g", l, j, n, x[j], want[j])
				}
			}
			if x[n] != outside {
				t.Fatalf("level %d: a number after %d was changed", l, n)
			}
		}
	}
}
