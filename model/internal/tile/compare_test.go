package tile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCompare: products within the error bound of their order of summation, and a mask of those that reach their limit.
func TestCompare(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, l := range levels() {
		force(t, l)
		rng := rand.New(rand.NewPCG(9, 1))
		for dim := 1; dim <= 70; dim++ {
			n := 1 + rng.IntN(120)
			x, points := make([][]float32, n), NewPoints(n, dim)
			bounds := make([]Bounds, points.Panels())
			for p := range bounds {
				for j := range bounds[p] {
					bounds[p][j] = inf
				}
			}
			for i := range x {
				x[i] = make([]float32, dim)
				for j := range x[i] {
					x[i][j] = float32(rng.NormFloat64())
				}
				points.Set(i, x[i])
				b := &bounds[i/PointPanel]
				b[i%PointPanel] = float32(rng.NormFloat64())
				b[PointPanel+i%PointPanel] = [3]float32{float32(rng.NormFloat64()), inf, -inf}[rng.IntN(3)]
			}
			var out Products
			for group := 0; group < n; group += PointRows {
				for p := range points.Panels() {
					found := out.Compare(points, group, &bounds[group/PointPanel], points, p, &bounds[p])
					any := false
					for i := range PointRows {
						for j := range PointPanel {
							q, r := group+i, p*PointPanel+j
							set := out.Mask[i]>>j&1 == 1
							any = any || set
							if q >= n || r >= n {
								if set {
									t.Fatalf("level %d, %d points of %d: a bit of what is no point (%d, %d)", l, n, dim, q, r)
								}
								continue
							}
							want, size := 0.0, 0.0
							for k, v := range x[q] {
								want += float64(v) * float64(x[r][k])
								size += math.Abs(float64(v) * float64(x[r][k]))
							}
							got := out.Dot[i*PointPanel+j]
							if !(math.Abs(float64(got)-want) <= float64(dim+1)*0x1p-24*size) {
								t.Fatalf("level %d, %d points of %d: product (%d, %d) is %g, not %g", l, n, dim, q, r, got, want)
							}
							bq, br := &bounds[q/PointPanel], &bounds[p]
							qi := q % PointPanel
							if want := got >= bq[qi]+br[PointPanel+j] || got >= bq[PointPanel+qi]+br[j]; set != want {
								t.Fatalf("level %d, %d points of %d: bit (%d, %d) is %v", l, n, dim, q, r, set)
							}
						}
					}
					if any != found {
						t.Fatalf("level %d: %v where a bit is set: %v", l, found, any)
					}
					if group > 0 {
						continue
					}
					var first Bounds
					for i := range first {
						first[i] = inf
					}
					first[0], first[PointPanel] = bounds[0][0], bounds[0][PointPanel]
					alone := Products{Mask: [PointRows]uint64{1, 2, 3}}
					found = alone.CompareFirst(points, &first, points, p, &bounds[p])
					if alone.Mask != [PointRows]uint64{out.Mask[0]} || found != (out.Mask[0] != 0) ||
						!slices.Equal(alone.Dot[:PointPanel], out.Dot[:PointPanel]) {
						t.Fatalf("level %d, %d points of %d: the first alone has %x, not %x", l, n, dim, alone.Mask, out.Mask[0])
					}
				}
			}
		}
	}
}
