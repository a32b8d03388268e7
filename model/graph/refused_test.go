package graph

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestBadShapesAreRefused: each function names what it was given and what it needs.
func TestBadShapesAreRefused(t *testing.T) {
	x, wide := mat.NewDense(2, 1, []float64{0, 1}), mat.NewDense(2, 3, nil)
	square, three := mat.NewDense(2, 2, nil), mat.NewDense(3, 3, nil)
	lists := mustNearest(t, x, 1)
	sparse, err := FromDense(three, 0)
	if err != nil {
		t.Fatal(err)
	}
	to, err := NearestTo(ctx, mat.NewDense(3, 1, []float64{0, 1, 9}), mat.NewDense(1, 1, []float64{9}), 1)
	if err != nil {
		t.Fatal(err)
	}
	for want, call := range map[string]func() error{
		"weights are 3 x 3 for 2 rows; give 2 x 2": func() error { _, err := WeightForm(ctx, x, three); return err },
		"weights are 2 x 3 for 2 rows; give 2 x 2": func() error {
			_, err := ReconstructionForm(ctx, x,
				&Matrix{rows: 2, cols: 3})
			return err
		},
		"degree form: 3 degrees for 2 rows; give one per row": func() error {
			_, err := DegreeForm(ctx, x, make([]float64, 3))
			return err
		},
		"dissimilarities: weights are 3 x 3":      func() error { _, _, err := FromDS(ctx, x, three, square); return err },
		"similarities: weights are 3 x 3":         func() error { _, _, err := FromDS(ctx, x, square, sparse); return err },
		"weights are 2 x 3; give a square matrix": func() error { _, err := FromDense(wide, 0); return err },
		"geodesics: 2 x 3 lengths; give a square matrix": func() error {
			_, err := Geodesics(ctx, &Matrix{rows: 2, cols: 3})
			return err
		},
		"geodesics: edge (0, 1) has length -1; lengths are finite and not negative": func() error {
			_, err := Geodesics(ctx, &Matrix{2, 2, []int{0, 1, 1}, []int{1}, []float64{-1}})
			return err
		},
		"geodesics: edge (0, 1) has length +Inf;": func() error {
			_, err := Geodesics(ctx, &Matrix{2, 2, []int{0, 1, 1}, []int{1}, []float64{math.Inf(1)}})
			return err
		},
		"weights: row 0 lists row 2 of 1; the lists of new rows have no symmetric form": func() error {
			_, err := to.Weights(Union, Binary)
			return err
		},
		"weights: edge (0, 1) at squared distance 1 has weight -Inf; choose another width": func() error {
			_, err := lists.Weights(Union, func(_, _ int, _ float64) float64 { return math.Inf(-1) })
			return err
		},
		"nearest rows: 1 of 2 references with 1 columns for 2 queries with 3": func() error {
			_, err := NearestTo(ctx, x, wide, 1)
			return err
		},
		"nearest rows: 0 of 2 references with 1 columns for 2 queries with 1": func() error {
			_, err := NearestTo(ctx, x, x, 0)
			return err
		},
		"nearest rows: 1 classes for 2 rows; give one per row": func() error {
			_, _, err := NearestByClass(ctx, x, []int{0}, 1, 1)
			return err
		},
		"nearest rows: 1 neighbours; give at least 1": func() error {
			_, _, err := NearestByClass(ctx, x, []int{0, 1}, 2, -1)
			return err
		},
		"nearest rows: 0 neighbours; give at least 1": func() error { _, err := Nearest(ctx, x, 0); return err },
		"there are no rows; give at least one":        func() error { _, err := Nearest(ctx, new(mat.Dense), 1); return err },
		"row 1, column 2 is +Inf; leave such rows out": func() error {
			_, err := Partition(ctx, mat.NewDense(2, 3, []float64{0, 1, 2, 3, 4, math.Inf(1)}), 1, 9)
			return err
		},
		"components: a graph of 2 rows, but 3 rows given; give the rows that it was made of": func() error {
			_, _, err := lists.Connect(ctx, three, Connect)
			return err
		},
		"reconstruction: lists of 2 rows, 2 queries of 3 and references of 1 columns": func() error {
			_, err := Barycentric(ctx, x, wide, lists, 0.1)
			return err
		},
		"reconstruction: lists of 2 rows, 3 queries of 3 and references of 3 columns": func() error {
			_, err := Barycentric(ctx, three, three, lists, 0.1)
			return err
		},
		"reconstruction: regulariser -1 is not a finite number >= 0": func() error {
			_, err := Barycentric(ctx, x, x, lists, -1)
			return err
		},
		"reconstruction: regulariser +Inf is not a finite number >= 0": func() error {
			_, err := Barycentric(ctx, x, x, lists, math.Inf(1))
			return err
		},
		"tangents: patch 1 has no rows": func() error {
			_, err := Tangents(ctx, x, [][]int{{0}, {}}, FixedDim(1))
			return err
		},
		"tangents: patch 1 holds row 2 of 2": func() error {
			_, err := Tangents(ctx, x, [][]int{{0, 1}, {2}}, FixedDim(1))
			return err
		},
		"tangents: patch 0 holds row -1 of 2": func() error {
			_, err := Tangents(ctx, x, [][]int{{-1}}, FixedDim(1))
			return err
		},
		"patch alignment: 1 rows with a part matrix of order 2": func() error {
			_, err := Align(2, slices.Values([]Patch{{[]int{0}, mat.NewSymDense(2, nil)}}))
			return err
		},
		"patch alignment: a patch holds row -1 of 2": func() error {
			_, err := Align(2, slices.Values([]Patch{{[]int{0, -1}, mat.NewSymDense(2, nil)}}))
			return err
		},
		"the neighbourhood graph has 3 components, of [1 1 1] rows; give more neighbours, or connect the comp": func() error {
			return disconnected([]int{0, 1, 2})
		},
		"the neighbourhood graph has 8 components, of [2 1 1 1 1 1 1 1] rows;": func() error {
			return disconnected([]int{0, 1, 2, 3, 4, 5, 6, 7, 7})
		},
		"the neighbourhood graph has 10 components, of [1 1 1 1 1 1 1 1] and 2 more rows;": func() error {
			return disconnected([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
		},
	} {
		if err := call(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if parts(nil) != 0 {
		t.Error("no rows have components")
	}
}

// TestViewsOfRows: rows with gaps between them, a dense symmetric matrix and no queries are read as any other.
func TestViewsOfRows(t *testing.T) {
	all := mat.NewDense(3, 3, []float64{0, 5, 9, 1, 7, 9, 4, 6, 9})
	view := all.Slice(0, 3, 0, 1).(*mat.Dense)
	nb := mustNearest(t, view, 2)
	if index, d := nb.Row(0); !slices.Equal(index, []int{1, 2}) || !slices.Equal(d, []float64{1, 16}) {
		t.Errorf("neighbours %v at %v", index, d)
	}
	s := mat.NewSymDense(2, []float64{1, 2, 2, 5})
	f, err := WeightForm(ctx, mat.NewDense(2, 1, []float64{3, 4}), s)
	if err != nil || f.At(0, 0) != 9+2*2*12+5*16 {
		t.Errorf("the form is %g, %v", f.At(0, 0), err)
	}
	if l, err := LaplacianForm(ctx, mat.NewDense(2, 1, []float64{3, 4}), s); err != nil || l.At(0, 0) != 2 {
		t.Errorf("the form of the Laplacian is %g, %v", l.At(0, 0), err)
	}
	n, p, err := FromDS(ctx, mat.NewDense(2, 1, []float64{3, 5}), s, mat.NewDense(2, 2, []float64{0, 3, 3, 0}))
	if err != nil || n.At(0, 0) != 8 || p.At(0, 0) != 12 {
		t.Errorf("the pencil is %g and %g, %v", n.At(0, 0), p.At(0, 0), err)
	}
}

// TestEntriesAboveACut: an entry of the cut is left out, whatever its sign, and the others are stored twice.
func TestEntriesAboveACut(t *testing.T) {
	a, err := FromDense(mat.NewDense(3, 3, []float64{9, 2, -2, 2, 0, 3, -2, 3, -9}), 2)
	if err != nil || a.Stored() != 4 || a.At(0, 0) != 9 || a.At(0, 1) != 0 || a.At(2, 0) != 0 || a.At(2, 1) != 3 ||
		a.At(2, 2) != -9 {
		t.Errorf("%d entries: %v, %v", a.Stored(), mat.Formatted(a), err)
	}
	if a, err = FromDense(mat.NewDense(2, 2, []float64{0, -3, -3, 0}), 2); err != nil || a.At(0, 1) != -3 {
		t.Errorf("%v, %v", mat.Formatted(a), err)
	}
}

// TestWidthOfLists: the mean squared distance to the nearest row; of duplicates the mean of those above 0.
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

// TestDistancesThatOverflow are infinite, for one row and for four.
func TestDistancesThatOverflow(t *testing.T) {
	inf := math.Inf(1)
	far := []float64{inf, 0}
	if squared(far, far) != inf || squared([]float64{1, 2}, []float64{4, 6}) != 25 {
		t.Error("infinite rows are at a distance")
	}
	near := []float64{1, 1}
	if d := squaredFour(far, [4][]float64{far, near, far, near}); d != [4]float64{inf, inf, inf, inf} {
		t.Errorf("distances %v", d)
	}
	if d := squaredFour(near, [4][]float64{near, {2, 1}, {1, 4}, {0, 3}}); d != [4]float64{0, 1, 9, 5} {
		t.Errorf("distances %v", d)
	}
}

// TestSmallestPartition: fewer rows than the limit, which is at least 4, are one patch.
func TestSmallestPartition(t *testing.T) {
	line := func(n int) *mat.Dense {
		x := mat.NewDense(n, 1, nil)
		for i := range n {
			x.Set(i, 0, float64(i*i))
		}
		return x
	}
	for _, c := range []struct{ n, limit, want int }{{1, 1, 1}, {3, 1, 1}, {3, 4, 1}, {5, 6, 1}} {
		p, err := Partition(ctx, line(c.n), 1, c.limit)
		if err != nil || len(p) != c.want || len(p[0]) != c.n {
			t.Errorf("%d rows, limit %d: %v, %v", c.n, c.limit, p, err)
		}
	}
	if got := (Tangent{Singular: []float64{2, 1}}); got.Dim() != 2 {
		t.Error("two directions are another dimension")
	}
	if EnergyDim(2)([]float64{3, 1}) != 2 || EnergyDim(0.75)([]float64{3, 1}) != 1 {
		t.Error("the share of the variance is another")
	}
}
