package fit

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/pencil"
)

func fit(t testing.TB, d *model.Data, c Config) *model.Model {
	t.Helper()
	m, err := Fit(context.Background(), d, c)
	if err != nil {
		t.Fatalf("%s: %v", c.Method, err)
	}
	return m
}

var synthetic = fixture.Synthetic

// fixed has parameters without choices made on rows.
func fixed(method *frame.Method) map[string]string {
	params := maps.Clone(method.InFolds)
	if params == nil {
		params = map[string]string{}
	}
	if method.Ridge != nil {
		params["ridge"] = "0.1"
	}
	if len(params) > 0 {
		return params
	}
	return quick(method)
}

// quick has parameters that make fits fast: lsdr starts only from LDA, a similarity is learned from few rows in few
// steps, and ksmpa does not choose its kernel and ridge.
func quick(method *frame.Method) map[string]string {
	switch method.Name {
	case "lsdr":
		return map[string]string{"starts": "1"}
	case "lenews", "lenewks", "lppnews":
		return map[string]string{"rows": "60", "iters": "30"}
	case "ksmpa":
		return map[string]string{"ridge": "0.1", "kernel": "gauss"}
	}
	return nil
}

// matrixOf is the map as a matrix, m x d.
func matrixOf(m *model.Model) *mat.Dense { return mat.NewDense(m.M(), m.Dim(), m.Components()) }

// apart returns the largest difference of two maps relative to the largest entry.
func apart(a, b *mat.Dense) float64 {
	var d mat.Dense
	d.Sub(a, b)
	return mat.Max(absolute(&d)) / mat.Max(absolute(a))
}

func absolute(a *mat.Dense) *mat.Dense {
	var out mat.Dense
	out.Apply(func(_, _ int, v float64) float64 { return math.Abs(v) }, a)
	return &out
}

// sine is the sine of the largest angle between two column spaces of one
// dimension.
func sine(t testing.TB, a, b *mat.Dense) float64 {
	t.Helper()
	basis := func(a *mat.Dense) *mat.Dense {
		scaled := mat.DenseCopyOf(a)
		_, d := a.Dims()
		for j := range d {
			linalg.ScaleColumn(scaled, j, 1/mat.Norm(a.ColView(j), 2))
		}
		var svd mat.SVD
		if !svd.Factorize(scaled, mat.SVDThin) {
			t.Fatal("svd")
		}
		var u mat.Dense
		svd.UTo(&u)
		return &u
	}
	u, v := basis(a), basis(b)
	var inner, rest mat.Dense
	inner.Mul(u.T(), v)
	rest.Mul(u, &inner)
	rest.Sub(v, &rest)
	return mat.Norm(&rest, 2)
}

// linearMethods are the methods whose map is one matrix.
func linearMethods() []*frame.Method {
	var out []*frame.Method
	for _, m := range method.Table {
		if m.Map == "linear" {
			out = append(out, m)
		}
	}
	return out
}

func TestSameRowsSameDigest(t *testing.T) {
	for _, method := range method.Table {
		for _, data := range []*model.Data{fixture.Dataset(t, "wine"), synthetic(1, 12, 30, 3)} {
			c := Config{Method: method.Name, Seed: 5, Params: quick(method)}
			if a, b := fit(t, data, c), fit(t, data, c); a.Digest() != b.Digest() {
				t.Errorf("%s: digests %s and %s", method.Name, a.Digest(), b.Digest())
			}
		}
	}
}

func TestEveryScaleOnRealData(t *testing.T) {
	for _, name := range []string{"wine", "iris", "wdbc", "vowel"}[:testsize.Of(1, 4)] {
		for _, method := range method.Table {
			if method.Samples() && fixture.Dataset(t, name).N > 200 {
				continue // the cost is in the rows, and small sets show the same
			}
			for _, scale := range []model.Scale{model.ScaleStandard, model.ScaleMinMax, model.ScaleUnit,
				model.ScaleNone} {
				m := fit(t, fixture.Dataset(t, name), Config{Method: method.Name, Scale: scale, Params: quick(method)})
				if r := m.Report(); !(r.Residual <= 1e-8) || r.Rank != m.M() || len(r.Phases) == 0 {
					t.Errorf("%s %s %s: residual %.2g, rank %d of %d, phases %v", name, method.Name, scale, r.Residual,
						r.Rank, m.M(), r.Phases)
				}
			}
		}
	}
}

func TestStatisticsFitEqualsRowsFit(t *testing.T) {
	units := synthetic(2, 15, 40, 3) // features in units far apart
	for i := range units.X {
		units.X[i] *= math.Pow(10, float64(i%40%5))
	}
	for _, data := range []*model.Data{fixture.Dataset(t, "wine"), fixture.Dataset(t, "vowel"), synthetic(2, 15, 40, 3),
		units} {
		// In two batches, merged.
		a, b := moments.New(data.M, false), moments.New(data.M, false)
		half := data.N / 2
		for _, err := range []error{
			a.Add(t.Context(), data.X[:half*data.M], data.Y[:half]),
			b.Add(t.Context(), data.X[half*data.M:], data.Y[half:]), a.Merge(b),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, method := range method.Table {
			if method.Streaming != "moments" {
				continue
			}
			for _, scale := range []model.Scale{model.ScaleStandard, model.ScaleNone} {
				for _, ridge := range []string{"0.1", "oas", "0"} {
					c := Config{Method: method.Name, Scale: scale}
					switch {
					case method.Ridge != nil && (ridge != "0" || method.Name != "pairacc"):
						c.Params = map[string]string{"ridge": ridge}
					case ridge != "0":
						continue
					}
					want := fit(t, data, c)
					got, err := FitMoments(context.Background(), a, data.Features, data.Classes, c)
					if err != nil {
						t.Errorf("%s: %v", method.Name, err)
						continue
					}
					if e := apart(matrixOf(want), matrixOf(got)); !(e <= 1e-9) {
						t.Errorf("%s n=%d m=%d %s ridge %s: maps differ by %.2g", method.Name, data.N, data.M, scale,
							ridge, e)
					}
					if !slices.EqualFunc(want.Mean(), got.Mean(),
						func(x, y float64) bool { return math.Abs(x-y) < 1e-9*(1+math.Abs(x)) }) {
						t.Errorf("%s: means differ", method.Name)
					}
				}
			}
		}
	}
}

// Of mpda this holds where its classes are too small to be split, as here: the
// patches of larger ones depend on the order (see shapedMethods).
func TestRowOrderDoesNotMatter(t *testing.T) {
	for _, data := range []*model.Data{synthetic(3, 90, 6, 4), synthetic(4, 12, 20, 3)} {
		order := rand.New(rand.NewPCG(1, 2)).Perm(data.N)
		mixed := &model.Data{N: data.N, M: data.M, Classes: data.Classes}
		for _, i := range order {
			mixed.X = append(mixed.X, data.X[i*data.M:(i+1)*data.M]...)
			mixed.Y = append(mixed.Y, data.Y[i])
		}
		for _, method := range linearMethods() {
			c := Config{Method: method.Name, Params: fixed(method), Dim: 2}
			bound := 1e-8 // lsdr and the boundaries of dawge included: they end at an optimum
			switch method.Name {
			case "ltsimr", "mp-ltsimr":
				bound = 1e-6 // gamma = 1e9 takes as many digits from the rest of S3
			case "pairacc":
				bound = 1e-6 // an optimum by its values alone is known to half of their digits
			}
			if e := apart(matrixOf(fit(t, data, c)), matrixOf(fit(t, mixed, c))); !(e <= bound) {
				t.Errorf("%s: maps of permuted rows differ by %.2g", method.Name, e)
			}
		}
	}
}

// Moving all rows changes only the mean; a rotation rotates A.
func TestTranslationAndRotation(t *testing.T) {
	data := synthetic(5, 120, 5, 4)
	moved, turned := *data, *data
	moved.X, turned.X = slices.Clone(data.X), make([]float64, len(data.X))
	for i := range moved.X {
		moved.X[i] += 100
	}
	var qr mat.QR
	rng := rand.New(rand.NewPCG(3, 3))
	g := mat.NewDense(5, 5, nil)
	for i := range 5 {
		for j := range 5 {
			g.Set(i, j, rng.NormFloat64())
		}
	}
	qr.Factorize(g)
	var r mat.Dense
	qr.QTo(&r)
	mat.NewDense(data.N, 5, turned.X).Mul(mat.NewDense(data.N, 5, data.X), &r)
	for _, method := range linearMethods() {
		c := Config{Method: method.Name, Params: fixed(method), Dim: 2, Scale: model.ScaleNone}
		a := matrixOf(fit(t, data, c))
		// lppnews learns from products of rows about their own zero, as its paper does.
		if e := apart(a, matrixOf(fit(t, &moved, c))); !(e <= 1e-7) && method.Name != "lppnews" {
			t.Errorf("%s: translation changes the map by %.2g", method.Name, e)
		}
		var want mat.Dense
		want.Mul(r.T(), a) // x'R . R'A = x'A
		pencil.FixSigns(&want)
		bound := 1e-8
		if method.Name == "pairacc" {
			bound = 1e-6 // an optimum by its values alone is known to half of their digits
		}
		if e := apart(&want, matrixOf(fit(t, &turned, c))); !(e <= bound) {
			t.Errorf("%s: rotated rows do not give the rotated map: %.2g", method.Name, e)
		}
	}
}

func TestMissingValuesAreImputedAndCounted(t *testing.T) {
	data := synthetic(6, 60, 4, 3)
	holes, filled := *data, *data
	holes.X, filled.X = slices.Clone(data.X), slices.Clone(data.X)
	sum := 0.0
	for i := 1; i < data.N; i++ {
		sum += data.X[i*4+2]
	}
	holes.X[2] = math.NaN()
	filled.X[2] = sum / float64(data.N-1)
	m := fit(t, &holes, Config{Method: "lda"})
	if m.Report().Imputed != 1 {
		t.Errorf("%d imputed, want 1", m.Report().Imputed)
	}
	if e := apart(matrixOf(fit(t, &filled, Config{Method: "lda"})), matrixOf(m)); !(e <= 1e-12) {
		t.Errorf("map differs from that of the filled rows by %.2g", e)
	}
}

func TestUnlabelledRowsAndEmptyClassesAreLeftOut(t *testing.T) {
	data := synthetic(7, 60, 4, 3)
	more := *data
	more.Classes = []string{"empty", "c0", "c1", "c2"}
	more.Y = slices.Clone(data.Y)
	for i := range more.Y {
		more.Y[i]++
	}
	more.X = append(slices.Clone(data.X), 1, 2, 3, 4)
	more.Y = append(more.Y, -1)
	more.N++
	for _, method := range method.Table {
		if !method.Supervised || method.Map != "linear" {
			continue
		}
		a, b := fit(t, data, Config{Method: method.Name}), fit(t, &more, Config{Method: method.Name})
		if e := apart(matrixOf(a), matrixOf(b)); !(e <= 1e-12) {
			t.Errorf("%s: maps differ by %.2g", method.Name, e)
		}
		if b.Report().Unlabelled != 1 || b.Rows() != 60 || len(b.Classes()) != 4 {
			t.Errorf("%s: %d unlabelled, %d rows, classes %v", method.Name, b.Report().Unlabelled, b.Rows(),
				b.Classes())
		}
	}
	if m := fit(t, &more, Config{Method: "pca"}); m.Rows() != 61 {
		t.Errorf("pca used %d rows, want all 61", m.Rows())
	}
	if m := fit(t, &more, Config{Method: "sle-ovr"}); m.Dim() != 2 {
		t.Errorf("sle-ovr with an empty class: dim %d", m.Dim())
	}
}

// Constant features, equal features and equal rows are valid data.
func TestDegenerateRowsHaveDefinedResults(t *testing.T) {
	base := synthetic(8, 40, 3, 3)
	odd := &model.Data{N: base.N, M: 6, Y: base.Y, Classes: base.Classes}
	for i := range base.N {
		row := base.X[i*3 : i*3+3]
		odd.X = append(odd.X, row[0], 0.1, row[1], row[2], row[1], 1e6) // two constants, a copy
	}
	odd.X = append(odd.X, odd.X[:6*10]...) // ten rows twice
	odd.Y = append(slices.Clone(odd.Y), odd.Y[:10]...)
	odd.N += 10
	for _, method := range method.Table {
		for _, scale := range []model.Scale{model.ScaleStandard, model.ScaleMinMax, model.ScaleUnit, model.ScaleNone} {
			m := fit(t, odd, Config{Method: method.Name, Scale: scale})
			r := m.Report()
			// Division by the row's norm makes the constants vary.
			if scale != model.ScaleUnit && (r.Rank != 3 || r.Constant != 2) {
				t.Errorf("%s %s: rank %d and %d constant features, want 3 and 2", method.Name, scale, r.Rank,
					r.Constant)
			}
			y := make([]float32, odd.N*m.Dim())
			if err := m.Project(y, model.DenseRows(odd.X, odd.N, odd.M)); err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(y, func(v float32) bool { return !linalg.IsFinite(float64(v)) }) {
				t.Errorf("%s %s: an output is not finite", method.Name, scale)
			}
		}
	}
}

func TestWrongInputIsRefusedWithFigures(t *testing.T) {
	good := synthetic(9, 30, 4, 3)
	change := func(f func(*model.Data)) *model.Data {
		d := *good
		d.X, d.Y = slices.Clone(d.X), slices.Clone(d.Y)
		f(&d)
		return &d
	}
	for _, c := range []struct {
		name string
		data *model.Data
		cfg  Config
		want string
	}{
		{"method", good, Config{Method: "lta"}, `unknown method "lta"; the nearest is lda`},
		{"parameter", good, Config{Method: "lda", Params: map[string]string{"rigde": "1"}},
			`no parameter "rigde" (did you mean "ridge"?); allowed: ridge`},
		{"value", good, Config{Method: "lda", Params: map[string]string{"ridge": "-1"}},
			"give auto, oas or a number >= 0"},
		{"choice", good, Config{Method: "sle", Params: map[string]string{"origin": "here"}}, "mean, none, augment"},
		{"dim", good, Config{Method: "lda", Dim: 3},
			"dim 3 exceeds the 2 discriminant directions of 3 classes (C-1); n=30, m=4"},
		{"rank", good, Config{Method: "pca", Dim: 12}, "dim 12 exceeds rank 4 of the total scatter; n=30, m=4"},
		{"no data", nil, Config{Method: "pca"}, "none given"},
		{"shape", change(func(d *model.Data) { d.N++ }), Config{Method: "pca"},
			"120 values are not 31 rows x 4 features"},
		{"one row", &model.Data{X: []float64{1, 2}, N: 1, M: 2}, Config{Method: "pca"},
			"1 rows (of 1 rows); a fit needs at least 2"},
		{"no labels", &model.Data{X: good.X, N: 30, M: 4}, Config{Method: "lda"}, "0 labelled rows (of 30 rows)"},
		{"one class", change(func(d *model.Data) { clear(d.Y) }), Config{Method: "lda"},
			"only one class in 30 labelled rows; it needs at least 2"},
		{"bad class", change(func(d *model.Data) { d.Y[4] = 3 }), Config{Method: "lda"}, "row 4 has class 3 of 3"},
		{"only infinities", change(func(d *model.Data) {
			for i := range d.N {
				d.X[i*4+2] = math.Inf(1 - 2*(i%2))
			}
		}), Config{Method: "pca"}, "feature 2 is missing, infinite or beyond float32 in each of 30 rows"},
		{"empty feature", change(func(d *model.Data) {
			for i := range d.N {
				d.X[i*4+3] = math.NaN()
			}
		}), Config{Method: "pca"}, "feature 3 is missing, infinite or beyond float32 in each of 30 rows"},
		{"all constant", change(func(d *model.Data) {
			for i := range d.X {
				d.X[i] = 0.1
			}
		}), Config{Method: "pca"}, "no feature varies over 30 rows"},
		{"overflow", change(func(d *model.Data) { d.X[0] = 1e200 }), Config{Method: "pca"}, "feature 0 is too large"},
		{"no spread", &model.Data{X: []float64{1, 2, 3, 5, 9, 2}, N: 3, M: 2, Y: []int{0, 1, 2},
			Classes: []string{"a", "b", "c"}},
			Config{Method: "lda"}, "no class has two different rows (n=3, 3 classes)"},
		{"equal means", &model.Data{X: []float64{1, -1, 1, -1}, N: 4, M: 1, Y: []int{0, 0, 1, 1},
			Classes: []string{"a", "b"}},
			Config{Method: "lda", Scale: model.ScaleNone}, "no direction"},
	} {
		m, err := Fit(context.Background(), c.data, c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: model %v, error %v; want %q", c.name, m != nil, err, c.want)
		}
	}
}

func TestDimErrorNamesTheBound(t *testing.T) {
	wide := synthetic(10, 10, 64, 2)
	_, err := Fit(context.Background(), wide, Config{Method: "pca", Dim: 12})
	var dim *model.DimError
	if !errors.As(err, &dim) || dim.Asked != 12 || dim.Max != 9 {
		t.Fatalf("error %v, want a DimError of 12 and 9", err)
	}
	if want := "pca: dim 12 exceeds rank 9 of the total scatter; n=10, m=64"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if m := fit(t, wide, Config{Method: "pca", Dim: dim.Max}); m.Dim() != 9 {
		t.Errorf("dim %d at the bound", m.Dim())
	}
	// Class means on a line: fewer directions than classes less one.
	line := &model.Data{M: 3, Classes: []string{"a", "b", "c"}}
	for c := range 3 {
		for k := range 6 { // +- along each axis: the class mean is (10 c, 0, 0)
			row := []float64{float64(10 * c), 0, 0}
			row[k/2] += float64(1 - 2*(k%2))
			line.X, line.Y = append(line.X, row...), append(line.Y, c)
			line.N++
		}
	}
	c := Config{Method: "lda", Dim: 2, Scale: model.ScaleNone}
	if _, err = Fit(context.Background(), line, c); !errors.As(err, &dim) || dim.Max != 1 {
		t.Errorf("means on a line: %v, want a DimError of 1", err)
	}
	c.Dim = 0
	if m := fit(t, line, c); m.Dim() != 1 || len(m.Report().Notes) != 1 {
		t.Errorf("default dim %d on a line, notes %q", m.Dim(), m.Report().Notes)
	}
}

func TestCancelEndsTheFit(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, method := range method.Table {
		if _, err := Fit(ctx, fixture.Dataset(t, "wine"), Config{Method: method.Name}); !errors.Is(err,
			context.Canceled) {
			t.Errorf("%s: error %v, want context.Canceled", method.Name, err)
		}
	}
}

func TestProgressIsReported(t *testing.T) {
	seen := map[string]bool{}
	fit(t, fixture.Dataset(t, "iris"), Config{Method: "lda", Progress: func(phase string, done float64) {
		if !(done >= 0) || !(done <= 1) {
			t.Errorf("%s at %g", phase, done)
		}
		seen[phase] = true
	}})
	for _, phase := range []string{"statistics", "ridge", "fit"} {
		if !seen[phase] {
			t.Errorf("phase %s not reported", phase)
		}
	}
}

// TestProgressOfAuto: the cross-validation of auto reports how much of it is done.
func TestProgressOfAuto(t *testing.T) {
	d := fixture.Dataset(t, "iris")
	most := 0.0
	fit(t, d.Subset(every(d.N, 3)), Config{Method: "auto", Progress: func(phase string, done float64) {
		if phase != "auto" {
			return
		}
		if !(done >= 0) || !(done < 1) {
			t.Errorf("auto at %g", done)
		}
		most = max(most, done)
	}})
	if !(most >= 0.9) {
		t.Errorf("the cross-validation ends at %g", most)
	}
}

// TestRidgeOfMoments: ridge auto is the shrinkage of moments, because they have no rows to hold out.
func TestRidgeOfMoments(t *testing.T) {
	s := moments.New(2, false)
	if err := s.Add(t.Context(), []float64{1, 2, 3, 5, 9, 2, 7, 7}, []int{0, 1, 0, 1}); err != nil {
		t.Fatal(err)
	}
	m, err := FitMoments(t.Context(), s, nil, []string{"a", "b"}, Config{Method: "lda"})
	if err != nil {
		t.Fatal(err)
	}
	if r := m.Report().Ridge; r.Rule != "oas" || r.Shrinkage == nil {
		t.Errorf("ridge auto from statistics: %+v", r)
	}
}

func TestTableIsWellFormed(t *testing.T) {
	for _, m := range method.Table {
		if m.Title == "" || m.Paper == "" || m.Fit == nil ||
			!slices.Contains([]string{"linear", "kernel", "extension"}, m.Map) ||
			!slices.Contains([]string{"moments", "window"}, m.Streaming) {
			t.Errorf("%s: incomplete entry", m.Name)
		}
		for _, p := range m.Params {
			if p.Doc == "" || p.Check(p.Default) != nil {
				t.Errorf("%s: parameter %s refuses its default %q", m.Name, p.Name, p.Default)
			}
		}
		if (m.Ridge != nil) != slices.ContainsFunc(m.Params, func(p frame.Param) bool { return p.Name == "ridge" }) {
			t.Errorf("%s: ridge rule and ridge parameter disagree", m.Name)
		}
		if got, err := Lookup(m.Name); err != nil || got.Name != m.Name {
			t.Errorf("Lookup(%s): %v", m.Name, err)
		}
	}
}

func TestSmallShapesHaveDefinedResults(t *testing.T) {
	lonely := synthetic(30, 31, 4, 3)
	lonely.Classes = append(lonely.Classes, "one row")
	lonely.Y[30] = 3
	pair := &model.Data{X: []float64{0, 1, 2, 5, 5, 4, 3, 3, 1, 2, 8, 9}, N: 4, M: 3, Y: []int{0, 0, 1, 1},
		Classes: []string{"a", "b"}}
	for name, data := range map[string]*model.Data{
		"one feature": synthetic(31, 30, 1, 3), "a class of one row": lonely, "four rows": pair,
		"two classes, many features": synthetic(32, 8, 50, 2),
	} {
		for _, method := range method.Table {
			m := fit(t, data, Config{Method: method.Name})
			y := make([]float32, data.N*m.Dim())
			if err := m.Project(y, model.DenseRows(data.X, data.N, data.M)); err != nil {
				t.Fatal(err)
			}
			varies := false
			for i, v := range y {
				if !linalg.IsFinite(float64(v)) {
					t.Fatalf("%s, %s: output %d is %g", name, method.Name, i, v)
				}
				varies = varies || v != y[i%m.Dim()]
			}
			if !varies {
				t.Errorf("%s, %s: all rows have the same outputs", name, method.Name)
			}
		}
	}
	m := fit(t, lonely, Config{Method: "lda"})
	if n := m.Report().Notes; len(n) != 1 || n[0] != "1 of 4 classes have one row: only their mean is used" {
		t.Errorf("notes %q", n)
	}
}

func TestCancelInTheMiddleEndsTheFit(t *testing.T) {
	d := fixture.Dataset(t, "wine")
	d = d.Subset(every(d.N, 3))
	for _, method := range method.Table {
		for _, phase := range []string{"ridge", "fit", "views"} {
			ctx, cancel := context.WithCancel(context.Background())
			reached := false
			_, err := Fit(ctx, d, Config{Method: method.Name, Progress: func(p string, done float64) {
				if p == phase && done < 1 {
					reached = true
					cancel()
				}
			}})
			cancel()
			if reached && !errors.Is(err, context.Canceled) {
				t.Errorf("%s cancelled in phase %s: %v", method.Name, phase, err)
			}
		}
	}
}

// Directions that no criterion determines do not depend on the solver either: rows in another order, or statistics
// alone, give the same columns.
func TestTiedDirectionsAreReproducible(t *testing.T) {
	data := fixture.Dataset(t, "wdbc")
	mixed := &model.Data{M: data.M, Classes: data.Classes}
	s := moments.New(data.M, false)
	for _, i := range rand.New(rand.NewPCG(5, 2)).Perm(data.N) {
		mixed.X = append(mixed.X, data.X[i*data.M:(i+1)*data.M]...)
		mixed.Y = append(mixed.Y, data.Y[i])
		mixed.N++
	}
	for from := 0; from < data.N; from += 100 {
		to := min(from+100, data.N)
		if err := s.Add(t.Context(), data.X[from*data.M:to*data.M], data.Y[from:to]); err != nil {
			t.Fatal(err)
		}
	}
	c := Config{Method: "sle", Dim: 8}
	want := fit(t, data, c)
	if e := apart(matrixOf(want), matrixOf(fit(t, mixed, c))); !(e <= 1e-8) {
		t.Errorf("permuted rows: %.2g apart", e)
	}
	got, err := FitMoments(context.Background(), s, data.Features, data.Classes, c)
	if err != nil {
		t.Fatal(err)
	}
	if e := apart(matrixOf(want), matrixOf(got)); !(e <= 1e-9) {
		t.Errorf("statistics: %.2g apart", e)
	}
	if r := want.Report(); r.Informative != 1 || len(r.Ties) != 1 || len(r.Notes) != 1 {
		t.Errorf("report %+v", r)
	}
}

// Outputs in the units of features that float32 cannot represent are an error of the fit, with the figure: all rows
// would become zero, or overflow.
func TestOutputsFitFloat32(t *testing.T) {
	data := synthetic(3, 60, 4, 3)
	for _, unit := range []float64{1e-150, 1e-45, 1e45, 1e150} {
		far := *data
		far.X = slices.Clone(data.X)
		floats.Scale(unit, far.X)
		for _, method := range []string{"pca", "dla", "isomap", "lpfe"} {
			if _, err := Fit(context.Background(), &far, Config{Method: method, Scale: model.ScaleNone}); err == nil ||
				!strings.Contains(err.Error(), "float32") {
				t.Errorf("%s of features of size %g: %v", method, unit, err)
			}
			fit(t, &far, Config{Method: method})
		}
		for _, method := range []string{"lda", "mfa", "le", "ksmpa"} { // these determine the scale of their outputs
			fit(t, &far, Config{Method: method, Scale: model.ScaleNone})
		}
	}
	narrow := map[string]string{"t": "1e-3"}
	if _, err := Fit(context.Background(), data, Config{Method: "le", Params: narrow}); err == nil ||
		!strings.Contains(err.Error(), "larger t") {
		t.Errorf("le with weights of exp(-1000) and less: %v", err)
	}
}

// The zero value of Method is Auto: the same rows give the same model.
func TestNoMethodIsAuto(t *testing.T) {
	d := fixture.Dataset(t, "iris")
	if a, b := fit(t, d, Config{Dim: 2}), fit(t, d, Config{Method: Auto, Dim: 2}); a.Digest() != b.Digest() {
		t.Errorf("digest %s, of auto %s", a.Digest(), b.Digest())
	}
	if m, err := (Config{}).Describe(); err != nil || m.Name != Auto {
		t.Errorf("%s, %v", m.Name, err)
	}
}

// TestInfiniteIsMissing: a fit treats infinite values as missing ones, as a projection does, and reports how many.
func TestInfiniteIsMissing(t *testing.T) {
	good := fixture.Synthetic(1, 30, 4, 3)
	for _, scale := range []model.Scale{model.ScaleStandard, model.ScaleUnit, model.ScaleRank} {
		one, other := *good, *good
		one.X, other.X = slices.Clone(good.X), slices.Clone(good.X)
		for k, i := range []int{5, 17, 90} {
			one.X[i], other.X[i] = math.NaN(), math.Inf(1-2*(k%2))
		}
		c := Config{Method: "lda", Dim: 2, Scale: scale}
		a, b := fit(t, &one, c), fit(t, &other, c)
		if a.Digest() != b.Digest() || b.Report().Imputed != 3 ||
			!slices.Contains(b.Report().Notes, "3 infinite values count as missing") {
			t.Errorf("%s: other models, %d values imputed, %q", scale, b.Report().Imputed, b.Report().Notes)
		}
	}
}
