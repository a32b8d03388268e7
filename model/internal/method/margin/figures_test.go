package margin

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
)

// TestRowsNextToAClass: the nearest to any of its rows, in row order, of equally near ones the earlier.
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

// TestAnglesByHand: sum of |cos| of the edges with the normal, times their differences, of three rows and one of two
// equal ones.
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

// TestFactorsOfAKernel: K = F F' down to 1e-10 of its largest entry; the coefficients of the pivots give F'a.
func TestFactorsOfAKernel(t *testing.T) {
	k := mat.NewSymDense(3, []float64{4, 2, 2, 2, 5, 1, 2, 1, 1}) // the third row is half of the first
	factor, pivots, back := factorKernel(k)
	n, r := factor.Dims()
	if n != 3 || r != 2 || !slices.Equal(pivots, []int{0, 1}) {
		t.Fatalf("%d x %d, pivots %v", n, r, pivots)
	}
	var product, outputs, want mat.Dense
	if product.Mul(factor, factor.T()); !mat.EqualApprox(&product, k, 1e-12) {
		t.Errorf("F F' is %v", mat.Formatted(&product))
	}
	a := mat.NewDense(2, 1, []float64{3, -2}) // outputs are F a, and K times the coefficients
	coefficients := mat.NewDense(2, 1, nil)
	coefficients.Mul(back, a)
	outputs.Mul(k.SliceSym(0, 2), coefficients)
	want.Mul(factor.Slice(0, 2, 0, 2), a)
	if !mat.EqualApprox(&outputs, &want, 1e-12) {
		t.Errorf("outputs %v, want %v", mat.Formatted(&outputs), mat.Formatted(&want))
	}
	if f, _, _ := factorKernel(mat.NewSymDense(2, nil)); f != nil {
		t.Error("a kernel of zeros has a factor")
	}
	for least, want := range map[float64]int{1.1e-10: 2, 0.9e-10: 1} {
		f, b := cutKernel(mat.NewDense(2, 2, []float64{1, 0, 0, math.Sqrt(least)}), linalg.Identity(2))
		if _, r := f.Dims(); r != want {
			t.Errorf("a value of %g: %d are kept, want %d", least, r, want)
		}
		if _, r := b.Dims(); r != want {
			t.Errorf("a value of %g: %d columns lead back", least, r)
		}
	}
}

// TestWeightsOfPairs: functions of the nearness, which is at least a thousandth of its median and at most 1.
func TestWeightsOfPairs(t *testing.T) {
	x := mat.NewDense(5, 1, []float64{0, 0, 1, 3, 4})
	task := &frame.Task{X: x, M: 1, Params: map[string]string{"k": "4", "l1": "2", "l2": "3", "l3": "5"},
		Report: &model.Report{}, Rows: &frame.Rows{N: 5, M: 1, Y: []int{0, 0, 0, 1, 1}}}
	d, s := smpaWeights(t.Context(), task)
	// Distances 1, 1, 1, 2, 3, 3, 3, 4, 4 over 4 have the median 3/4.
	for _, c := range []struct {
		i, j    int
		nearest float64
	}{{0, 1, 0.75e-3}, {0, 2, 0.25}, {3, 4, 0.25}, {0, 3, 0.75}, {4, 0, 1}, {2, 3, 0.5}} {
		want := [2]float64{2 * c.nearest, 5 / c.nearest}
		if task.Rows.Y[c.i] != task.Rows.Y[c.j] {
			want = [2]float64{3 / c.nearest, 0}
		}
		row := make([]float64, 5)
		if d.RowTo(row, c.i); !(math.Abs(row[c.j]-want[0]) <= 1e-12) || d.At(c.j, c.i) != row[c.j] ||
			!(math.Abs(s.At(c.i, c.j)-want[1]) <= 1e-9) {
			t.Errorf("rows %d and %d: %g and %g, want %v", c.i, c.j, row[c.j], s.At(c.i, c.j), want)
		}
	}
	if n, m := d.Dims(); n != 5 || m != 5 || d.At(2, 2) != 0 || s.At(0, 0) != 0 || d.T() != mat.Matrix(d) {
		t.Errorf("%d x %d", n, m)
	}
	for dim, want := range map[int]string{2: "linear gauss", 3: "linear gauss", 4: "gauss"} {
		if got := strings.Join(smpaKernels(&frame.Task{D: dim, Columns: 3}), " "); got != want {
			t.Errorf("%d outputs of 3 columns: %s", dim, got)
		}
	}
}
