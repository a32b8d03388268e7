package model

import (
	"math"
	"testing"

	"github.com/embedd/embedd/model/internal/mapping"
)

// membership is eq. 7 of the paper, computed on the stored window.
func membership(v *mapping.Views, c int, y []float32) float64 {
	n := len(v.Label)
	other, own := math.Inf(1), math.Inf(1)
	for i, l := range v.Label {
		var sum float64
		for j := range v.D {
			d := float64(y[j]) - v.Window[(c*n+i)*v.D+j]
			sum += d * d
		}
		if l == float64(c) {
			own = min(own, math.Sqrt(sum))
		} else {
			other = min(other, math.Sqrt(sum))
		}
	}
	return other / own
}

// The output is that of the class with the largest membership degree, and the
// row's bits do not depend on its batch.
func TestViewsWinner(t *testing.T) {
	const n, m, d, classes = 60, 8, 2, 3
	ref := randomLinear(t, m, 1, 1, 1)
	x, x64 := rowsOf(ref, n)
	label := make([]int, n)
	for i := range label {
		label[i] = i % classes
	}
	mo := randomViews(t, m, d, classes, DenseRows(x64, n, m), label)
	v := mo.mapping.(*mapping.Views)
	for i := range x {
		x[i] += 0.1 * float32(math.Sin(float64(i)))
	}
	y, class := make([]float32, n*d), make([]int, n)
	if err := mo.ProjectClasses(t.Context(), y, class, rowMajor(x, n, m)); err != nil {
		t.Fatal(err)
	}
	// The views one by one: linear maps with the same weights.
	for i := range n {
		best, want := -1, -1.0
		var out []float32
		for c := range classes {
			one := &mapping.Linear{D: d, Components: v.Of(c)}
			mc := seal(t, &Model{fitted: Content{Method: "test", Features: mo.fitted.Features,
				Mean: mo.fitted.Mean, Scale: mo.fitted.Scale},
				mapping: one})
			yc := project(t, mc, rowMajor(x[i*m:(i+1)*m], 1, m))
			for j := range yc {
				yc[j] += float32(v.Offset[c*d+j])
			}
			if theta := membership(v, c, yc); theta > want {
				best, want, out = c, theta, yc
			}
		}
		if off := relative(out, float64s(y[i*d:(i+1)*d])); class[i] != best || !(off <= 1e-6) {
			t.Fatalf("row %d goes to class %d, want %d of degree %g", i, class[i], best, want)
		}
		if alone := project(t, mo, rowMajor(x[i*m:(i+1)*m], 1, m)); !sameBits(alone, y[i*d:(i+1)*d]) {
			t.Fatalf("row %d differs alone", i)
		}
	}
	// A row of the window has distance 0 to itself, so its degree is infinite.
	if err := mo.ProjectClasses(t.Context(), y, class, DenseRows(x64, n, m)); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if class[i] != label[i] {
			t.Fatalf("row %d of the window goes to class %d, not to its own %d", i, class[i], label[i])
		}
	}
}

func float64s(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// The guards: 0/0 is 1, x/0 is infinite, ties go to the smaller distance to
// the own class, then to the first class; a class without window rows never wins.
func TestViewsGuards(t *testing.T) {
	for name, c := range map[string]struct {
		window []float64 // 3 views x 2 rows
		label  []float64
		y      []float32
		want   int
	}{
		"0/0 below a degree of 2":    {[]float64{0, 0, 2, 1, 9, 9}, []float64{0, 1}, []float32{0, 0, 0}, 1},
		"0/0 above a degree of 1/2":  {[]float64{0, 0, 1, 2, 9, 9}, []float64{0, 1}, []float32{0, 0, 0}, 0},
		"x/0 above everything":       {[]float64{1, 1e6, 1, 0, 9, 9}, []float64{0, 1}, []float32{0, 0, 0}, 1},
		"tie, smaller own distance":  {[]float64{2, 4, 2, 1, 9, 9}, []float64{0, 1}, []float32{0, 0, 0}, 1},
		"tie in both, first class":   {[]float64{1, 2, 2, 1, 9, 9}, []float64{0, 1}, []float32{0, 0, 0}, 0},
		"class without window rows":  {[]float64{9, 9, 2, 2, 2, 1}, []float64{1, 2}, []float32{0, 0, 0}, 2},
		"two infinite, first class":  {[]float64{0, 1, 1, 0, 9, 9}, []float64{0, 1}, []float32{0, 0, 0}, 0},
		"all 0/0, first class again": {[]float64{0, 0, 0, 0, 9, 9}, []float64{0, 1}, []float32{0, 0, 0}, 0},
	} {
		v := &mapping.Views{D: 1, Components: make([]float64, 3), Offset: make([]float64, 3), Window: c.window,
			Label: c.label}
		if err := v.Check(1, 3); err != nil {
			t.Fatal(err)
		}
		if got := v.Finish(make([]float32, 1), c.y); got != c.want {
			t.Errorf("%s: class %d, want %d", name, got, c.want)
		}
	}
}
