package margin

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/frame"
)

// TestRowsNextToAClass: the rows nearest to any row of the class are returned in row order; of equally near ones the
// earlier.
func TestRowsNextToAClass(t *testing.T) {
	own, others := mat.NewDense(2, 1, []float64{0, 10}), mat.NewDense(5, 1, []float64{3, 9, -2, 12, 50})
	for k, want := range map[int][]float64{1: {9}, 2: {9, -2}, 3: {9, -2, 12}, 4: {3, 9, -2, 12}, 9: {3, 9, -2, 12, 50}} {
		if got := mat.Col(nil, 0, nearestTo(t.Context(), own, others, k)); !slices.Equal(got, want) {
			t.Errorf("%d rows: %v, want %v", k, got, want)
		}
	}
	task := &frame.Task{X: mat.NewDense(3, 1, []float64{1, 2, 3}), Rows: &frame.Rows{Y: []int{1, 0, 1}}}
	a, b := split(task, 1)
	if !slices.Equal(mat.Col(nil, 0, a), []float64{1, 3}) || !slices.Equal(mat.Col(nil, 0, b), []float64{2}) {
		t.Errorf("class 1 has %v", mat.Formatted(a))
	}
}

// TestAnglesByHand compares the form with its sum over edges, |cos(edge, normal)| times the product of differences, for
// four rows, two of them equal.
func TestAnglesByHand(t *testing.T) {
	x := mat.NewDense(4, 2, []float64{0, 0, 3, 4, 0, 2, 0, 0})
	along := []float64{0, 1}
	// Edges (0,1) and (3,1) have the cosine 0.8, (0,2) and (3,2) 1, (1,2) 2/sqrt(13); (0,3) is none.
	c := 2 / math.Sqrt(13)
	for what, want := range map[string][2]float64{ // entries (0,0) and (1,1)
		"abs/none":     {2*0.8*9 + c*9, 2*0.8*16 + 2*4 + c*4},
		"abs/class":    {(2*0.8*9 + c*9) / 4, (2*0.8*16 + 2*4 + c*4) / 4},
		"square/none":  {2*0.64*9 + c*c*9, 2*0.64*16 + 2*4 + c*c*4},
		"square/class": {(2*0.64*9 + c*c*9) / 4, (2*0.64*16 + 2*4 + c*c*4) / 4},
	} {
		f, normalize, _ := strings.Cut(what, "/")
		task := &frame.Task{Params: map[string]string{"f": f, "normalize": normalize}}
		p := angleForm(t.Context(), task, x, along)
		if !(math.Abs(p.At(0, 0)-want[0]) <= 1e-12) || !(math.Abs(p.At(1, 1)-want[1]) <= 1e-12) {
			t.Errorf("%s: %v, want %v", what, mat.Formatted(p), want)
		}
	}
	task := &frame.Task{Params: map[string]string{"f": "abs", "normalize": "none"}}
	if p := angleForm(t.Context(), task, x, []float64{0, 0}); !(math.Abs(p.At(0, 0)-27) <= 1e-12) {
		t.Errorf("without a normal: %v", mat.Formatted(p))
	}
}
