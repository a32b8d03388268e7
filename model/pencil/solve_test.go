package pencil

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/tile"
)

// TestRankOfAPart: a part of the pairs at the large end has the rank of the whole matrix, or 0 if it cannot tell.
func TestRankOfAPart(t *testing.T) {
	const n = 60
	diagonal := func(f func(i int) float64) *mat.SymDense {
		s := mat.NewSymDense(n, nil)
		for i := range n {
			s.SetSym(i, i, f(i))
		}
		return s
	}
	full := diagonal(func(i int) float64 { return 1 })
	low := diagonal(func(i int) float64 { return float64(max(0, 7-i)) })
	tol := n * 0x1p-52 * 7
	for what, c := range map[string]struct {
		s    *mat.SymDense
		end  End
		part *Part
		want int
	}{
		"all":                {full, Max, &Part{Largest: 1, all: []float64{1, 1}}, n},
		"seven":              {low, Max, &Part{Largest: 7, all: []float64{7, 6}}, 7},
		"the small end":      {low, Min, &Part{Largest: 7, all: []float64{0, 0}}, n},
		"a value of 0":       {low, Max, &Part{Largest: 7, all: []float64{7, tol}}, 0},
		"just above 0":       {low, Max, &Part{Largest: 7, all: []float64{7, 1.01 * tol}}, 7},
		"negative values":    {low, Max, &Part{Largest: 7, all: []float64{7, 6}, smallest: -1.01 * tol}, 0},
		"negative by chance": {low, Max, &Part{Largest: 7, all: []float64{7, 6}, smallest: -tol}, 7},
	} {
		if got := partRank(t.Context(), c.s, c.end, c.part, 2); got != c.want {
			t.Errorf("%s: rank %d, want %d", what, got, c.want)
		}
	}
}

// TestReducedOrders: a reduction serves matrices of order 64 or more, for up to a quarter of the values.
func TestReducedOrders(t *testing.T) {
	for _, c := range []struct {
		n, d int
		want bool
	}{{64, 16, true}, {64, 17, false}, {63, 3, false}, {64, 1, true}, {64, 0, false}} {
		s := mat.NewSymDense(c.n, nil)
		for i := range c.n {
			s.SetSym(i, i, float64(i+1))
		}
		apply := func(a *mat.Dense) *mat.Dense { return tile.Times(t.Context(), s, a) }
		if got := solveReduced(t.Context(), s, Identity(c.n), Max, c.d, apply); (got != nil) != c.want {
			t.Errorf("%d values of order %d: %v", c.d, c.n, !c.want)
		}
	}
}

// TestReleasedMemory: a solution and a second metric keep their numbers while later calls use the memory that a metric
// released.
func TestReleasedMemory(t *testing.T) {
	for _, n := range []int{5, 80, 200} {
		rng := rand.New(rand.NewPCG(5, uint64(n)))
		values := make([]float64, n)
		for i := range values {
			values[i] = 1 + float64(i)
		}
		solve := func(d *mat.SymDense) (*Solution, *Metric) {
			q, err := Ridge(d, 0.5)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Solve(t.Context(), withValues(rng, values), q, Max, 2)
			if err != nil {
				t.Fatal(err)
			}
			return s, q
		}
		first, released := solve(withValues(rng, values))
		_, kept := solve(withValues(rng, values))
		vectors, u := mat.DenseCopyOf(first.Vectors), slices.Clone(kept.u.u)
		released.Release()
		for range 3 {
			_, q := solve(withValues(rng, values))
			q.Release()
			if _, err := Rank(t.Context(), withValues(rng, values)); err != nil {
				t.Fatal(err)
			}
		}
		if !mat.Equal(first.Vectors, vectors) || !slices.Equal(kept.u.u, u) {
			t.Errorf("order %d: later calls change a solution, or another metric", n)
		}
	}
}

// TestWrongOrders: a denominator of order 0, and an inner matrix of another order than the factor's columns.
func TestWrongOrders(t *testing.T) {
	if _, err := Ridge(&mat.SymDense{}, 1); !errors.Is(err, ErrNotDefinite) {
		t.Errorf("order 0: %v", err)
	}
	_, err := SolveLow(t.Context(), mat.NewDense(3, 1, []float64{1, 2, 3}), mat.NewSymDense(2, nil), Identity(3), 1)
	if want := "factor with 1 columns, inner matrix of order 2"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
