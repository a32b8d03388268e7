package mapping

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// Kernels are those of the exact distances, for rows that are close, equal, or as far apart as float64 allows.
func TestGauss(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ m, rank int }{{1, 1}, {7, 7}, {24, 24}, {64, 64}, {300, 300}, {64, 3}, {300, 12}} {
		const n = 31
		m, rows := c.m, make([]float64, n*c.m)
		for i := range rows {
			rows[i] = r.NormFloat64()
		}
		for j := range m { // rows that are far from zero and near each other, the second pair by few million widths
			rows[5*m+j] = 1e9 + float64(j)
			rows[6*m+j] = 2500 + float64(j)/300
		}
		for i := c.rank; i < n; i++ { // in the space of the first rows
			if clear(rows[i*m : (i+1)*m]); i == n-1 {
				continue
			}
			for k := range c.rank {
				if k != 5 {
					subtract(rows[i*m:(i+1)*m], rows[k*m:(k+1)*m], r.NormFloat64()/float64(c.rank))
				}
			}
		}
		g := NewGauss(rows, m, 2*float64(m))
		if (g.basis != nil) != (c.rank < m) || c.rank < m && g.basis.Len() != c.rank {
			t.Fatalf("rows of rank %d of %d features: %+v", c.rank, m, g.basis)
		}
		values, across := make([]float64, g.room()), make([]float64, g.scratch())
		z := make([]float64, tile.Together*m)
		for i := range z {
			z[i] = r.NormFloat64()
		}
		copy(z, rows[:3*m])
		for j := range m {
			z[3*m+j] = rows[5*m+j] + 0.5
			z[4*m+j] = math.MaxFloat64
			z[6*m+j] = rows[6*m+j] + 0.5
			z[5*m+j] = -1e200
		}
		for _, count := range []int{tile.Together, 6, 1} {
			g.kernels(values, z, across, count)
			for j := range count { // alone too, with the same bits
				alone := make([]float64, g.packed.Width())
				g.kernelsOf(alone, z[j*m:(j+1)*m], across)
				for i := range n {
					if got := values[i*tile.Together+j]; math.Float64bits(alone[i]) != math.Float64bits(got) {
						t.Fatalf("%d features, row %d with %d: alone %g, next to others %g", m, j, i, alone[i], got)
					}
				}
			}
			for i := range n {
				for j := range count {
					d := linalg.SquaredDistance(z[j*m:(j+1)*m], rows[i*m:(i+1)*m])
					if got, want := values[i*tile.Together+j], math.Exp(-d/g.param); !(math.Abs(got-want) <= 1e-9) {
						t.Fatalf("%d features, row %d of %d with %d: %g, want %g", m, j, count, i, got, want)
					}
				}
			}
		}
	}
}

// TestNear: a row is near if its squared norm and the largest one of a centre sum to less than a million bandwidths.
func TestNear(t *testing.T) {
	g := &Gauss{param: 2, largest: 5e5}
	if g.near(1.5e6) || !g.near(1.4999e6) {
		t.Error("the border is not at a million bandwidths")
	}
}

// TestBoundsOfMaps: rows are near while their sizes are below a million bandwidths, and an eigenvalue within a
// thousandth of 1 has no extension.
func TestBoundsOfMaps(t *testing.T) {
	g := Gauss{param: 2, largest: 5e5}
	if !g.near(1.49e6) || g.near(1.51e6) {
		t.Error("rows are near below other sizes than 2e6")
	}
	for lambda, want := range map[float64]bool{0: true, 0.9985: true, 0.9995: false, 1.0005: false, 1.0015: true,
		math.NaN(): false} {
		if err := extensible([]float64{0.5, lambda}); (err == nil) != want ||
			err != nil && !strings.HasPrefix(err.Error(), "eigenvalue 1 is ") {
			t.Errorf("eigenvalue %g: %v", lambda, err)
		}
	}
}
