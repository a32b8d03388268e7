package fit

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/embedd/embedd/model/internal/mapping"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/score"
)

// On real data: two halves of wine give LDA models that sign alignment makes comparable.
func TestAlignWine(t *testing.T) {
	d := fixture.Dataset(t, "wine")
	a, b := score.Stratified(d.Y, 0.5, 1)
	var models []*model.Model
	for _, rows := range [][]int{a, b} {
		m, err := Fit(t.Context(), d.Subset(rows), Config{Method: "lda", Params: map[string]string{"ridge": "0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, m)
	}
	c := models[1].Content()
	var a1 mat.Dense
	a1.Mul(mat.NewDense(models[1].M(), 2, models[1].Components()), mat.NewDense(2, 2, []float64{0, -1, 1, 0}))
	c.Map, c.Eigenvalues = &mapping.Linear{D: 2, Components: a1.RawMatrix().Data}, nil
	flipped, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	_, al, err := model.Align(t.Context(), flipped, models[0], model.DenseRows(d.X, d.N, d.M), model.AlignSign)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", al)
	if !al.Comparable || !(al.Residual <= 0.4) {
		t.Errorf("%+v", al)
	}
}

// Every method's model survives its file, with the same outputs, and a second
// fit gives the same digest.
func TestFileOfEveryMethod(t *testing.T) {
	d := fixture.Dataset(t, "wine")
	rows := model.DenseRows(d.X, d.N, d.M)
	for _, method := range method.Table {
		for _, dim := range []int{0, 1} {
			c := Config{Method: method.Name, Dim: dim, Seed: 3, Params: quick(method)}
			m, err := Fit(t.Context(), d, c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := model.Read(bytes.NewReader(fileOf(t, m)))
			if err != nil {
				t.Fatalf("%s: %v", method.Name, err)
			}
			if !sameBits(project(t, m, rows), project(t, got, rows)) || !reflect.DeepEqual(got.Report(), m.Report()) {
				t.Errorf("%s: the model that was read projects or reports differently", method.Name)
			}
			again, err := Fit(t.Context(), d, c)
			if err != nil || again.Digest() != got.Digest() {
				t.Errorf("%s: a second fit has another digest (%v)", method.Name, err)
			}
		}
	}
}

// On real data, unscaled and without ridge, the outputs are those of float64
// arithmetic to 1e-5 of each column's standard deviation.
func TestProjectRealData(t *testing.T) {
	for _, c := range []struct {
		data, method string
		scale        model.Scale
		dim          int
	}{
		{"wine", "lda", model.ScaleNone, 0}, {"wdbc", "lda", model.ScaleNone, 0}, {"wdbc", "pca", model.ScaleNone, 0},
		{"wdbc", "pca", model.ScaleStandard, 0}, {"wdbc", "sle", model.ScaleStandard, 0},
		{"digits", "lda", model.ScaleStandard, 0}, {"digits", "pca", model.ScaleNone, 0},
		{"digits", "srda", model.ScaleMinMax, 0}, {"digits", "pairacc", model.ScaleUnit, 0},
		{"digits", "sle", model.ScaleStandard, 60},
		// collinear features: small differences of large terms
		{"wdbc", "pca", model.ScaleNone, 30}, {"wdbc", "sle", model.ScaleNone, 30},
		{"wdbc", "sle", model.ScaleStandard, 30},
	} {
		d := fixture.Dataset(t, c.data)
		config := Config{Method: c.method, Scale: c.scale, Dim: c.dim}
		if c.method == "lda" {
			config.Params = map[string]string{"ridge": "0"}
		}
		m, err := Fit(t.Context(), d, config)
		if err != nil {
			t.Fatal(err)
		}
		want := exact(m, d.X)
		x32 := make([]float32, len(d.X))
		wide := make([]float64, len(d.X))
		for i, v := range d.X {
			x32[i] = float32(v)
			wide[i] = float64(x32[i])
		}
		e64 := worstColumn(project(t, m, model.DenseRows(d.X, d.N, d.M)), want, m.Dim())
		e32 := worstColumn(project(t, m, rowMajor(x32, d.N, d.M)), exact(m, wide), m.Dim())
		t.Logf("%v: %.1e from float64, %.1e from float32; in float64 %v", c, e64, e32, m.Content().Float64)
		if !(e64 <= 1e-5) || !(e32 <= 1e-5) {
			t.Errorf("%v: off by %.1e and %.1e of a standard deviation", c, e64, e32)
		}
	}
}

// Two features that differ by a millionth of their spread: the output that is
// their difference is as good as any other, with rows in plenty and with fewer
// rows than features.
func TestProjectCollinear(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, c := range []struct{ n, m int }{{200, 3}, {8, 12}} {
		d := &model.Data{X: normals(r, c.n*c.m), N: c.n, M: c.m}
		for i := range c.n {
			d.X[i*c.m+1] = d.X[i*c.m] + 1e-6*r.NormFloat64()
		}
		m, err := Fit(t.Context(), d, Config{Method: "pca", Dim: min(c.n-1, c.m), Scale: model.ScaleNone})
		if err != nil {
			t.Fatal(err)
		}
		if e := worstColumn(project(t, m, model.DenseRows(d.X, c.n, c.m)), exact(m, d.X), m.Dim()); !(e <= 1e-5) ||
			(c.n > c.m && !m.Content().Float64) {
			t.Errorf("%d x %d: off by %.1e of a standard deviation, float64 %v", c.n, c.m, e, m.Content().Float64)
		}
	}
}

// The cancellation is the same from the scatter of the features and from that
// in a basis of the rows.
func TestCancellation(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	a, basis := mat.NewDense(6, 2, normals(r, 12)), mat.NewDense(6, 3, nil)
	q := rotation(1, 6)
	basis.Copy(q.Slice(0, 6, 0, 3))
	s, full := mat.NewSymDense(3, []float64{4, 1, 0, 1, 3, 0, 0, 0, 1e-8}), mat.NewSymDense(6, nil)
	var bs, whole mat.Dense
	bs.Mul(basis, s)
	whole.Mul(&bs, basis.T())
	for i := range 6 {
		for j := i; j < 6; j++ {
			full.SetSym(i, j, whole.At(i, j))
		}
	}
	if x, y := frame.Cancellation(t.Context(), a, full, nil), frame.Cancellation(t.Context(), a, s,
		basis); !(math.Abs(x-y) <= 1e-9*x) || !(x >= 1) {
		t.Errorf("%g and %g", x, y)
	}
	if x := frame.Cancellation(t.Context(), mat.NewDense(2, 1, []float64{1, -1}),
		mat.NewSymDense(2, []float64{1, 1 - 5e-9, 1 - 5e-9, 1}), nil); !(math.Abs(x-1e4*math.Sqrt2) <= 1) {
		t.Errorf("the difference of two features that correlate to 5e-9: %g", x)
	}
}

// A model judges rows by the names of their classes, whatever order a window lists them in.
func TestCorrectByName(t *testing.T) {
	d := fixture.Dataset(t, "wine")
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
	want, err := score.Correct(t.Context(), m, d, d, 1)
	if got, err2 := score.Correct(t.Context(), m, &other, &other, 1); err != nil || err2 != nil ||
		got != want || want < d.N*9/10 {
		t.Errorf("%d and %d of %d right, %v, %v", got, want, d.N, err, err2)
	}
	if _, err := score.Correct(t.Context(), m, d, &model.Data{X: d.X, N: d.N, M: d.M}, 1); err == nil {
		t.Error("no labels: no error")
	}
}
