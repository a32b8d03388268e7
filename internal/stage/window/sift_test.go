package window

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSift: which rows enter fits is a function of the rows, not of the time of the check; outliers and rows of labels
// that occurred a few times are in the window, and in no sum of moments.
func TestSift(t *testing.T) {
	rows := stream(21, 6000, 3, 0.6, 0.3, 0.1)
	var want []Row
	for i := range rows {
		switch {
		case i%50 == 3:
			rows[i].X[i%3] = []float64{1e4, -1e9, 3e38, 1e160, math.MaxFloat64, -1e300}[i/50%6]
		case i%50 == 9:
			rows[i].Label = fmt.Sprint("junk", i/150)
		case i%50 == 12:
			rows[i].X = []float64{5e-324, 0, -5e-324}
			want = append(want, rows[i])
		default:
			want = append(want, rows[i])
		}
	}
	c := config
	c.Rows, c.Classes = 6000, 1000
	w := fill(c, rows)
	s, err := w.Newest(t.Context(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	clean, _ := fill(c, want).Newest(t.Context(), 1<<30)
	a, err := s.Moments.Summary(true)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := clean.Moments.Summary(true)
	if s.Rows != clean.Rows || !slices.Equal(s.Classes, clean.Classes) {
		t.Errorf("%d rows of %v, and %d of %v without the others", s.Rows, s.Classes, clean.Rows, clean.Classes)
	}
	for i, v := range a.Total.RawSymmetric().Data {
		if d := math.Abs(v - b.Total.RawSymmetric().Data[i]); d > 1e-12 {
			t.Errorf("entry %d of the scatter is off by %g", i, d)
		}
	}
	if f := w.Outliers(); f.Rows != 120 || f.Newest.Seq < rows[5900].Seq {
		t.Errorf("%d rows are far, the newest %v", f.Rows, f.Newest.Position)
	}
	looked, r := New(c), rand.New(rand.NewPCG(1, 1))
	for _, row := range rows {
		looked.Add(row)
		if r.IntN(50) == 0 {
			looked.Sift()
		}
	}
	if look(t, w) != look(t, looked) {
		t.Error("another window where it was looked at on the way")
	}
}

// TestHeavyTails: of features with few values, of many orders of magnitude, or that are nearly always the same, few
// rows or none are excluded.
func TestHeavyTails(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for _, c := range []struct {
		name string
		most int // of 5,000 rows
		draw func() float64
	}{
		{"normal, far from zero", 0, func() float64 { return 1e9 + r.NormFloat64() }},
		{"constant", 0, func() float64 { return 7 }},
		{"zero or one, a thousandth one", 0, func() float64 { return float64(1 - min(r.IntN(1000), 1)) }},
		{"counts, mostly zero", 0, func() float64 { return math.Floor(max(r.NormFloat64()-2, 0) * 1000) }},
		{"log-normal", 5, func() float64 { return math.Exp(2 * r.NormFloat64()) }},
		{"Cauchy", 50, func() float64 { return r.NormFloat64() / r.NormFloat64() }},
		{"of all magnitudes", 1250, func() float64 { return math.Exp(200 * r.NormFloat64()) }},
	} {
		x := make([]float64, 5000)
		for i := range x {
			x[i] = c.draw()
		}
		n := 0
		for _, far := range FindOutliers(x, 1) {
			if far {
				n++
			}
		}
		if n > c.most {
			t.Errorf("%s: %d rows are far", c.name, n)
		}
	}
}

// Training can pause between some features, and some rows, of a check.
func TestSiftRests(t *testing.T) {
	const m, n = 64, 4 * pauseRatios
	rests := 0
	w := New(Config{Features: m, Rows: n, Classes: 10, Pause: func() { rests++ }})
	for i := range n {
		x := make([]float64, m)
		for j := range x {
			x[j] = float64((i*31 + j*17) % 101)
		}
		w.Add(Row{Position: Position{Seq: uint64(i + 1)}, X: x})
	}
	w.Sift()
	if want := m/pauseFeatures + w.Len()/pauseRatios; rests < want {
		t.Errorf("%d rests, want %d", rests, want)
	}
}

// TestSparseFeatures: features that are nearly always 0, such as the pixels at the border of an image, set no row
// aside for a usual value; a value far beyond all features is an outlier in each of them.
func TestSparseFeatures(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	const n, m = 3000, 40
	x := make([]float64, n*m)
	for i := range n {
		for j := range m {
			switch kind := j % 4; {
			case kind == 0:
				x[i*m+j] = r.Float64()
			case kind == 1 && r.IntN(300) == 0, kind == 2 && r.IntN(30) == 0: // rarely a usual value, else 0
				x[i*m+j] = 0.5 + r.Float64()
			case kind == 3 && r.IntN(30) == 0:
				x[i*m+j] = 0.5 + r.Float64()
			case kind == 3 && r.IntN(5) == 0: // often a tiny one
				x[i*m+j] = 0.002 * r.Float64()
			}
		}
	}
	for i, far := range FindOutliers(x, m) {
		if far {
			t.Fatalf("row %d is an outlier: %v", i, x[i*m:(i+1)*m])
		}
	}
	for j := range 4 {
		x[(700+j)*m+j] = 1e3
	}
	for i, far := range FindOutliers(x, m) {
		if want := 700 <= i && i < 704; far != want {
			t.Errorf("row %d: an outlier is %t, want %t", i, far, want)
		}
	}
}
