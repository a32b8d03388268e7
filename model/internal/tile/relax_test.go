package tile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRelax: every kernel lowers each number to the smallest sum, reports whether one changed, and writes nowhere else.
func TestRelax(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for _, l := range levels() {
		force(t, l)
		for trial := range 200 {
			rows, k := 1+rng.IntN(9), rng.IntN(12)
			x, value, index := draw(rng, rows*RelaxWidth), make([]float64, k), make([]int, k)
			for p := range index {
				index[p], value[p] = rng.IntN(rows), rng.Float64()+float64(trial%3)
			}
			x[rng.IntN(len(x))] = math.Inf(1)
			all := draw(rng, RelaxWidth+2)
			all[1+rng.IntN(RelaxWidth)] = math.Inf(1)
			want, changes := slices.Clone(all), false
			for c := range RelaxWidth {
				for p, i := range index {
					if v := x[i*RelaxWidth+c] + value[p]; v < want[1+c] {
						want[1+c], changes = v, true
					}
				}
			}
			if got := Relax(all[1:RelaxWidth+1], index, value, x); got != changes || !slices.Equal(all, want) {
				t.Fatalf("level %d, %d edges: changed %t, want %t; %v, want %v", l, k, got, changes, all, want)
			}
			if Relax(all[1:RelaxWidth+1], index, value, x) {
				t.Fatalf("level %d: the second time something changed", l)
			}
		}
	}
	// One number that changes, in each place.
	for _, l := range levels() {
		force(t, l)
		for c := range RelaxWidth {
			dst, x := make([]float64, RelaxWidth), make([]float64, RelaxWidth)
			if x[c] = -2; !Relax(dst, []int{0}, []float64{1}, x) || dst[c] != -1 {
				t.Errorf("level %d: number %d is %g", l, c, dst[c])
			}
		}
	}
}

// TestRelaxOutside: an edge to a missing row is a panic, not a read.
func TestRelaxOutside(t *testing.T) {
	for _, i := range []int{-1, 3} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("row %d of 3 was read", i)
				}
			}()
			Relax(make([]float64, RelaxWidth), []int{0, i}, []float64{1, 1}, make([]float64, 3*RelaxWidth))
		}()
	}
}
