package tile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestThin: every kernel has the bits of fused multiply-adds in order, and writes nowhere else.
func TestThin(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, l := range levels() {
		force(t, l)
		for n := range 35 {
			for _, k := range []int{0, 1, 3, 8, 61} {
				stride := k + rng.IntN(3)
				a := draw(rng, n*stride)
				for i := range n {
					for j := i*stride + k; j < (i+1)*stride; j++ {
						a[j] = math.NaN()
					}
				}
				check := func(name string, rows, inner int, at func(i, l int) float64, apply func(dst, x []float64),
					sum func(was float64, terms func(yield func(v, w float64))) float64) {
					x, dst := draw(rng, inner*Thin), draw(rng, (rows+1)*Thin)
					was := slices.Clone(dst)
					apply(dst[:rows*Thin], x)
					for i := range rows + 1 {
						for c := range Thin {
							want := was[i*Thin+c]
							if i < rows && inner > 0 {
								want = sum(want, func(yield func(v, w float64)) {
									for l := range inner {
										yield(at(i, l), x[l*Thin+c])
									}
								})
							}
							if got := dst[i*Thin+c]; got != want && !(emulated && math.Abs(got-want) < 1e-12) {
								t.Fatalf("level %d, %s, %d x %d: element (%d, %d) is %g, not %g", l, name, n, k, i, c, got, want)
							}
						}
					}
				}
				check("along", n, k, func(i, l int) float64 { return a[i*stride+l] }, func(dst, x []float64) {
					Along(dst, a, n, k, stride, x, -0.7)
				}, func(was float64, terms func(func(v, w float64))) float64 {
					s := 0.0
					terms(func(v, w float64) { s = math.FMA(v, w, s) })
					return math.FMA(-0.7, s, was)
				})
				check("across", k, n, func(i, l int) float64 { return a[l*stride+i] }, func(dst, x []float64) {
					Across(dst, a, n, k, stride, x)
				}, func(was float64, terms func(func(v, w float64))) float64 {
					terms(func(v, w float64) { was = math.FMA(v, w, was) })
					return was
				})
			}
		}
	}
}
