package graph

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// The kept pairs are the shortest of all pairs between classes, in total and for each class, with tied distances.
func TestShortestPairsEqualAllPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 5))
	for trial := range 20 {
		n, k := 10+r.IntN(40), 1+r.IntN(12)
		x, y := normals(r, n, 2), make([]int, n)
		for i := range n {
			y[i] = r.IntN(3)
			if trial%2 == 0 {
				x.SetRow(i, []float64{float64(r.IntN(4)), float64(r.IntN(4))})
			}
		}
		_, others, err := NearestByClass(ctx, x, y, 0, k)
		if err != nil {
			t.Fatal(err)
		}
		shortest := func(take func(i, j int) bool) (all []Edge) {
			for i := range n {
				for j := range n {
					if y[i] != y[j] && take(i, j) {
						all = append(all, Edge{i, j, squared(x.RawRowView(i), x.RawRowView(j))})
					}
				}
			}
			slices.SortFunc(all, Edge.compare)
			return all[:min(k, len(all))]
		}
		pairs := func(nb *Neighbors, take func(i int) bool, unordered bool) (all []Edge) {
			for i := range n {
				index, dist2 := nb.Row(i)
				for p, j := range index {
					if e := (Edge{i, j, dist2[p]}); take(i) {
						if unordered {
							e.I, e.J = min(i, j), max(i, j)
						}
						all = append(all, e)
					}
				}
			}
			slices.SortFunc(all, Edge.compare)
			return all
		}
		want := shortest(func(i, j int) bool { return i < j })
		if got := pairs(others.ShortestPairs(k, nil), func(int) bool { return true }, true); !slices.Equal(got, want) {
			t.Fatalf("trial %d: %v, want %v", trial, got, want)
		}
		byClass := others.ShortestPairs(k, y)
		for c := range 3 {
			want := shortest(func(i, _ int) bool { return y[i] == c })
			if got := pairs(byClass, func(i int) bool { return y[i] == c }, false); !slices.Equal(got, want) {
				t.Fatalf("trial %d, class %d: %v, want %v", trial, c, got, want)
			}
		}
	}
}

// TestFarRowsAreNamed: rows whose squared distance exceeds float64 are an error that names them, behind a row without a
// list too.
func TestFarRowsAreNamed(t *testing.T) {
	x := mat.NewDense(4, 2, []float64{0, 0, 1, 0, 2, 0, 0, 1e200})
	_, _, err := NearestByClass(t.Context(), x, []int{1, 0, 0, 0}, 1, 0)
	if err == nil || !strings.Contains(err.Error(), "between the rows 3 and 1 exceeds float64 (1.8e+308)") {
		t.Errorf("the error is %v", err)
	}
}

// TestWidthOfLists: the width is the mean squared distance to the nearest row. If all rows have duplicates, it is the
// mean of the positive squared distances.
func TestWidthOfLists(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		k    int
		want float64
	}{
		{[]float64{0, 1, 3}, 2, (1 + 1 + 4) / 3.},
		{[]float64{0, 0, 3, 3}, 2, 9},
		{[]float64{0, 0, 0}, 2, math.Inf(1)},
		{[]float64{0, 0, 2}, 1, 4 / 3.},
	} {
		if got := mustNearest(t, mat.NewDense(len(c.x), 1, c.x), c.k).MeanNearest(); got != c.want {
			t.Errorf("%v: %g, want %g", c.x, got, c.want)
		}
	}
	for _, c := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1}, 3}, {[]float64{5, 1, 3}, 3}, {[]float64{9, 1, 5, 3}, 5}} {
		if got := median(c.v); got != c.want {
			t.Errorf("the median of %v is %g", c.v, got)
		}
	}
	nb := mustNearest(t, mat.NewDense(4, 1, []float64{0, 2, 3, 7}), 3)
	if s := nb.First(2).LocalScale(nil); !slices.Equal(s, []float64{3, 2, 3, 5}) {
		t.Errorf("scales %v", s)
	}
	if s := nb.First(1).LocalScale([]int{0, 0, 1, 1}); !slices.Equal(s, []float64{2, 1, 1, 4}) {
		t.Errorf("scales %v by class", s)
	}
	if i, d := nb.First(9).Row(3); len(i) != 3 || len(d) != 3 {
		t.Errorf("%d neighbours of three", len(i))
	}
}
