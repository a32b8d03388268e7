package model

import (
	"math"
	"testing"
)

// membership is eq. 7 as the paper has it, on the stored window.
func membership(v *views, c int, y []float32) float64 {
	n := len(v.label)
	other, own := math.Inf(1), math.Inf(1)
	for i, l := range v.label {
		var sum float64
		for j := range v.d {
			d := float64(y[j]) - v.window[(c*n+i)*v.d+j]
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
	v := mo.mapping.(*views)
	for i := range x {
		x[i] += 0.1 * float32(math.Sin(float64(i)))
	}
	y, class := make([]float32, n*d), make([]int, n)
	if err := mo.winners(y, class, rowMajor(x, n, m)); err != nil {
		t.Fatal(err)
	}
	// The views one by one: linear maps with the same weights.
	for i := range n {
		best, want := -1, -1.0
		var out []float32
		for c := range classes {
			one := &linear{d, v.of(c)}
			mc := seal(t, &Model{method: "test", features: mo.features, mean: mo.mean, scale: mo.scale, mapping: one})
			yc := project(t, mc, rowMajor(x[i*m:(i+1)*m], 1, m))
			for j := range yc {
				yc[j] += float32(v.offset[c*d+j])
			}
			if theta := membership(v, c, yc); theta > want {
				best, want, out = c, theta, yc
			}
		}
		if class[i] != best || !sameBits(out, y[i*d:(i+1)*d]) {
			t.Fatalf("row %d goes to class %d, want %d of degree %g", i, class[i], best, want)
		}
		if alone := project(t, mo, rowMajor(x[i*m:(i+1)*m], 1, m)); !sameBits(alone, y[i*d:(i+1)*d]) {
			t.Fatalf("row %d differs alone", i)
		}
	}
	// A row of the window has distance 0 to itself, so its degree is infinite.
	if err := mo.winners(y, class, DenseRows(x64, n, m)); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if class[i] != label[i] {
			t.Fatalf("row %d of the window goes to class %d, not to its own %d", i, class[i], label[i])
		}
	}
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
		v := &views{d: 1, components: make([]float64, 3), offset: make([]float64, 3), window: c.window, label: c.label}
		if err := v.check(1, 3); err != nil {
			t.Fatal(err)
		}
		if got := v.finish(make([]float32, 1), c.y); got != c.want {
			t.Errorf("%s: class %d, want %d", name, got, c.want)
		}
	}
}

// On real data the views classify, alone, about as well as neighbours do in
// the features.
func TestViewsWine(t *testing.T) {
	r := evaluate(t, dataset(t, "wine"), EvalConfig{Methods: []string{"sle-ovr", Raw}, Splits: 5})
	t.Logf("sle-ovr %.3f, raw %.3f", r[0].AccuracyMean, r[1].AccuracyMean)
	if r[0].Error != "" || r[0].AccuracyMean < r[1].AccuracyMean-0.02 {
		t.Errorf("%+v", r[0])
	}
}

// A model judges rows by the names of their classes, whatever order a window lists them in.
func TestCorrectByName(t *testing.T) {
	d := dataset(t, "wine")
	m, err := Fit(t.Context(), d, Config{Method: "sle-ovr"})
	if err != nil {
		t.Fatal(err)
	}
	other := *d
	other.Classes = []string{d.Classes[2], d.Classes[0], d.Classes[1]}
	other.Y = make([]int, d.N)
	for i, y := range d.Y {
		other.Y[i] = (y + 1) % 3
	}
	want, err := m.Correct(d, d, 1)
	if got, err2 := m.Correct(&other, &other, 1); err != nil || err2 != nil || got != want || want < d.N*9/10 {
		t.Errorf("%d and %d of %d right, %v, %v", got, want, d.N, err, err2)
	}
	if _, err := m.Correct(d, &Data{X: d.X, N: d.N, M: d.M}, 1); err == nil {
		t.Error("no labels: no error")
	}
}
