package choose

import (
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// TestDimensionsToTry: dimensions are limited by the rows less one, the columns and the configured maximum, and each is
// tried once.
func TestDimensionsToTry(t *testing.T) {
	for _, c := range []struct {
		columns, rows, bound int
		want                 []int
	}{
		{50, 100, 0, []int{2, 5, 10, 20}}, {7, 100, 0, []int{2, 5, 7}}, {50, 9, 0, []int{2, 5, 8}}, {50, 100, 6, []int{2,
			5, 6}},
		{1, 100, 0, []int{1}}, {5, 1, 0, []int{1}},
	} {
		s := &selection{c: Config{MaxDim: c.bound}, total: &frame.Task{Columns: c.columns},
			v: &validator{rows: &frame.Rows{N: c.rows}}}
		if s.addDims(10, 2, 5, 20, 2); !slices.Equal(s.dims, c.want) {
			t.Errorf("%+v: %v", c, s.dims)
		}
	}
	v := &validator{}
	e := &candidate{method: &blend.Method}
	v.exclude(e, preprocess.ErrConstant)
	v.exclude(e, preprocess.ErrConstant)
	if want := []string{"blend: no feature varies"}; !e.excluded || !slices.Equal(v.leftOut, want) {
		t.Errorf("left out %q", v.leftOut)
	}
	total := &frame.Task{Columns: 3, Basis: &frame.BasisScatters{Total: mat.NewSymDense(3, nil)}}
	if s := (&selection{total: total, v: &validator{rows: &frame.Rows{N: 9}}}); s.scores() != nil {
		t.Error("no candidates have scores")
	}
}
