package model

import (
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestMatricesOfGonum: a view of a matrix with gaps between rows, and outputs as a matrix.
func TestMatricesOfGonum(t *testing.T) {
	x := mat.NewDense(2, 4, []float64{1, 2, 9, 9, 3, 4, 9, 9}).Slice(0, 2, 0, 2).(*mat.Dense)
	rows, row := FromDense(x), make([]float64, 2)
	if rows.row(row, 1); rows.N != 2 || rows.M() != 2 || !slices.Equal(row, []float64{3, 4}) {
		t.Errorf("%d rows of %d, the second is %v", rows.N, rows.M(), row)
	}
	if y := ToDense([]float32{1, 2, 3, 4, 5, 6}, 2); !mat.Equal(y, mat.NewDense(3, 2, []float64{1, 2, 3, 4, 5, 6})) {
		t.Errorf("%v", mat.Formatted(y))
	}
	if !ToDense(nil, 2).IsEmpty() {
		t.Error("no outputs are a matrix")
	}
	d := &Data{N: 3, M: 2, X: []float64{1, 2, 3, 4, 5, 6}, Y: []int{0, 1, -1}, Classes: []string{"a", "b"},
		Groups: []int{7, 8, 9}, Features: []string{"x", "y"}}
	s := d.Subset([]int{2, 0})
	if s.N != 2 || s.M != 2 || !slices.Equal(s.X, []float64{5, 6, 1, 2}) || !slices.Equal(s.Y, []int{-1, 0}) ||
		!slices.Equal(s.Groups, []int{9, 7}) || !slices.Equal(s.Classes, d.Classes) || !slices.Equal(s.Features, d.Features) {
		t.Errorf("%+v", s)
	}
	if d.Groups = nil; d.Subset([]int{0}).Groups != nil {
		t.Error("rows without groups have some")
	}
}
