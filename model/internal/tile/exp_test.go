package tile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestExp: each kernel is math.Exp within two ulps, and all of them agree in every bit.
func TestExp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 200_000)
	for i := range x {
		x[i] = -r.Float64() * math.Pow(10, 4*r.Float64()-1)
	}
	copy(x, []float64{0, math.Inf(-1), -708, -709, -1e300, -5e-324, -0.34657359, math.Copysign(0, -1)})
	want := slices.Clone(x)
	expPortable(want)
	for i, v := range x {
		if exact := math.Exp(v); !(math.Abs(want[i]-exact) <= 5e-16*exact) && !(v < -708) || !(v >= -708) && want[i] != 0 {
			t.Fatalf("e^%g is %g, want %g", v, want[i], exact)
		}
	}
	defer func(l int) { level = l }(level)
	for level = best(); level >= portable; level-- {
		got := slices.Clone(x)
		Exp(got)
		for i, v := range got {
			if math.Float64bits(v) != math.Float64bits(want[i]) && !emulated {
				t.Fatalf("kernel %d: e^%g is %g, the portable one has %g", level, x[i], v, want[i])
			}
		}
	}
	Exp(nil)
}

// Products with tables equal those of plain loops, for any layout of the vector.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	defer func(l int) { level = l }(level)
	for level = best(); level >= portable; level-- {
		for _, n := range []int{1, 8, 23, 24, 25, 300} {
			for _, k := range []int{1, 7, 300} {
				data, x := make([]float64, n*k), make([]float64, k*Together)
				for i := range data {
					data[i] = r.NormFloat64()
				}
				for l := range k {
					for j := range Together {
						x[l*Together+j] = r.NormFloat64()
					}
					x[l*Together+20] = math.NaN()
				}
				table := NewTable(data, n, k, k, 1)
				dst := make([]float64, table.Rows()*Together)
				table.Times(dst, x)
				for i := range n {
					for j := range 20 {
						sum := 0.0
						for l := range k {
							sum = math.FMA(data[i*k+l], x[l*Together+j], sum)
						}
						if got := dst[i*Together+j]; !(math.Abs(got-sum) <= 1e-12) || got != sum && !emulated {
							t.Fatalf("kernel %d, %d x %d: product %d, %d is %g, want %g", level, n, k, i, j, got, sum)
						}
					}
				}
			}
		}
	}
}
