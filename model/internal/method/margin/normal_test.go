package margin

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/frame"
)

// TestNormalOfCoincidingRows: rows that are a rounding error apart have no normal, and others have one of length 1.
func TestNormalOfCoincidingRows(t *testing.T) {
	task := &frame.Task{Params: map[string]string{"k": "4", "c": "1"}}
	for shift, want := range map[float64]float64{0: 0, 2e-13: 0, 4e-12: 1} {
		own := mat.NewDense(4, 2, []float64{1, 0, -1, 0, 0, 1, 0, -1})
		others := mat.DenseCopyOf(own)
		others.Apply(func(_, j int, v float64) float64 { return v + shift*float64(1-j) }, others)
		v := normal(t.Context(), task, own, others)
		if got := v[0]*v[0] + v[1]*v[1]; !(got >= want-1e-9 && got <= want+1e-9) {
			t.Errorf("rows that are %g apart have the normal %v", shift, v)
		}
	}
}

// TestNormalOfMirroredRows: rows on one side of all axes have the normal that the mirrored rows have, the other way.
func TestNormalOfMirroredRows(t *testing.T) {
	task := &frame.Task{Params: map[string]string{"k": "3", "c": "1"}}
	own := mat.NewDense(3, 2, []float64{1, 1, 3, 1, 2, 5})
	others := mat.NewDense(3, 2, []float64{4, 3, 6, 4, 5, 9})
	v := normal(t.Context(), task, own, others)
	own.Scale(-1, own)
	others.Scale(-1, others)
	w := normal(t.Context(), task, own, others)
	if !(math.Abs(v[0]+w[0]) <= 1e-9 && math.Abs(v[1]+w[1]) <= 1e-9) {
		t.Errorf("the normals are %v and %v", v, w)
	}
}
