package mapping

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// The neighbours of rows are those of comparing each with all rows of the fit, with ties and duplicates, and with rows
// far from all others.
func TestIndexEqualsEveryPair(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for trial := range 80 {
		n, m, k, count := 1+r.IntN(150), 1+r.IntN(40), 1+r.IntN(9), 1+r.IntN(tile.PointPanel)
		tr := Training{D: 1, Rows: normals(r, n*m), Embedding: make([]float64, n)}
		z, reach := normals(r, count*m), make([]float64, n)
		for i := range reach {
			reach[i] = 2 * float64(m) * r.Float64()
		}
		switch trial % 5 {
		case 1: // ties, with the reach too
			for i := range tr.Rows {
				tr.Rows[i] = float64(r.IntN(2))
			}
			clear(z)
			for i := range reach {
				reach[i] = float64(r.IntN(m + 1))
			}
		case 2:
			copy(tr.Rows[(n-1)*m:], tr.Rows[:m])
			copy(z, tr.Rows[:m])
		case 3: // some rows are beyond what products in float32 can compare
			for j := range m {
				z[j] *= 1e12
				tr.Rows[j] *= 1e5
			}
		case 4: // rows near each other and far from zero
			for i := range tr.Rows {
				tr.Rows[i] = 1e6 + 1e-3*tr.Rows[i]
			}
			for i := range z {
				z[i] = 1e6 + 1e-3*z[i]
			}
			for i := range reach {
				reach[i] *= 1e-6
			}
		}
		if trial%2 == 1 {
			reach = nil
		}
		x := newIndex(&tr, m, k, reach)
		w := x.Workspace()
		x.find(z, count, w.search)
		for q := range count {
			zero, err := x.choose(q, w)
			if err != nil {
				t.Fatal(err)
			}
			dist := make([]float64, n)
			var near []int
			for i := range dist {
				dist[i] = linalg.SquaredDistance(z[q*m:(q+1)*m], tr.Rows[i*m:(i+1)*m])
				if reach != nil && dist[i] < reach[i] {
					near = append(near, i)
				}
			}
			all := linalg.Range(n)
			slices.SortStableFunc(all, func(a, b int) int {
				switch {
				case dist[a] < dist[b]:
					return -1
				case dist[b] < dist[a]:
					return 1
				}
				return 0
			})
			if !slices.Equal(w.Nearest, all[:x.K]) || !slices.Equal(w.near, near) || zero != (dist[all[0]] == 0) {
				t.Fatalf("trial %d, row %d of %d: nearest %v, near %v; want %v, %v", trial, q, count, w.Nearest, w.near,
					all[:x.K], near)
			}
		}
	}
}

func normals(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// TestIndexOfFarRows: rows whose squares exceed float64 are not compared by products; others are scaled to at most 1.
func TestIndexOfFarRows(t *testing.T) {
	for exp, want := range map[int]bool{-401: false, -400: true, 400: true, 401: false} {
		far := 2 * math.Ldexp(0.75, exp) // each is half of it from the mean
		x := newIndex(&Training{1, []float64{far, 0}, make([]float64, 2)}, 1, 5, nil)
		if (x.points != nil) != want || x.K != 2 {
			t.Errorf("2^%d: products %v, %d neighbours", exp, !want, x.K)
		}
		if want && (x.scale != math.Ldexp(1, -exp) || x.norms[0] != 0.75*0.75) {
			t.Errorf("2^%d: scale %g, squared norm %g", exp, x.scale, x.norms[0])
		}
	}
	x := newIndex(&Training{1, []float64{math.Inf(1), 0}, make([]float64, 2)}, 1, 1, nil)
	if x.points != nil {
		t.Error("an infinite row is compared by products")
	}
}
