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
		"geodesics: memory for 3 numbers, and 2 rows need 4": func() error {
			_, err := GeodesicsIn(ctx, &Matrix{2, 2, []int{0, 1, 2}, []int{1, 0}, []float64{1, 1}}, make([]float64, 3))
			return err
		},
		"weights: no function of the weights is given": func() error { _, err := lists.Weights(Union, nil); return err },
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
		"patch alignment: no patches, or 2 rows": func() error { _, err := Align(2, nil); return err },
		"patch alignment: no patches, or -1 rows": func() error {
			_, err := Align(-1, slices.Values([]Patch{}))
			return err
		},
		"patch alignment: a patch of 1 rows has no part matrix": func() error {
			_, err := Align(2, slices.Values([]Patch{{Rows: []int{1}}}))
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
