package fit

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/score"
)

// normalScores computes the scores of the rows: the quantile of the share of rows below, equal rows counting half.
func normalScores(d *model.Data) *model.Data {
	out := *d
	out.X = make([]float64, len(d.X))
	for j := range d.M {
		for i := range d.N {
			below := 0.0
			for k := range d.N {
				switch at := d.X[k*d.M+j] - d.X[i*d.M+j]; {
				case at < 0:
					below++
				case at == 0:
					below += 0.5
				}
			}
			out.X[i*d.M+j] = math.Sqrt2 * math.Erfinv(2*below/float64(d.N)-1)
		}
	}
	return &out
}

// A method at scale rank has the outputs that it has on the normal scores of the rows, also after its model was written
// and read.
func TestRankScale(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	for _, method := range []string{"lda", "mfa", "pca", "tnca", Auto} {
		c := Config{Method: method, Dim: 2, Scale: model.ScaleRank, Seed: 1}
		m := fit(t, data, c)
		if m.Map() != "sum" || m.Params()["scale"] != "rank" {
			t.Errorf("%s: map %s, parameters %v", method, m.Map(), m.Params())
		}
		c.Scale = model.ScaleNone
		if method == Auto { // which has separate normal scores in each fold
			c = c.WithChoice(m.Report().Choice)
		}
		want, err := score.Outputs(t.Context(), fit(t, normalScores(data), c), normalScores(data))
		if err != nil {
			t.Fatal(err)
		}
		got, err := score.Outputs(t.Context(), m, data)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if !(math.Abs(got[i]-want[i]) <= 1e-4) {
				t.Fatalf("%s: output %d is %g, of the scores themselves %g", method, i, got[i], want[i])
			}
		}
		var file bytes.Buffer
		if err := model.Write(&file, m); err != nil {
			t.Fatal(err)
		}
		back, err := model.Read(&file)
		if err != nil || back.Digest() != m.Digest() {
			t.Fatalf("%s: read back %v", method, err)
		}
		again, err := score.Outputs(t.Context(), back, data)
		if err != nil || !slices.Equal(again, got) {
			t.Errorf("%s: read back it has other outputs, %v", method, err)
		}
	}
}

// New values are interpolated, and constant beyond the ends; a missing value is the mean, and a constant feature has no
// effect.
func TestRanksOfNewRows(t *testing.T) {
	data := &model.Data{N: 8, M: 2, Classes: []string{"a", "b"}, X: []float64{0, 7, 1, 7, 2, 7, 3, 7, 10, 7, 11, 7, 12,
		7, 13, 7},
		Y: []int{0, 0, 0, 0, 1, 1, 1, 1}}
	m := fit(t, data, Config{Method: "lda", Dim: 1, Scale: model.ScaleRank, Params: map[string]string{"ridge": "0.1"}})
	at := func(x float64) float64 {
		y := make([]float32, 1)
		if err := m.Project(y, model.DenseRows([]float64{x, 7}, 1, 2)); err != nil {
			t.Fatal(err)
		}
		return float64(y[0])
	}
	if between := at(6.5); !(math.Abs(between-(at(3)+at(10))/2) <= 1e-6) {
		t.Errorf("half way between two rows is %g, of %g and %g", between, at(3), at(10))
	}
	if at(-1e9) != at(0) || at(1e9) != at(13) {
		t.Errorf("beyond the rows %g and %g, at their ends %g and %g", at(-1e9), at(1e9), at(0), at(13))
	}
	if mean := at(math.NaN()); !(math.Abs(mean-at(6.5)) <= 1e-6) {
		t.Errorf("a missing value is %g, the mean %g", mean, at(6.5))
	}
}

// A blend of members with several scales is the principal components of the outputs of each member, in one model.
func TestNonlinearBlend(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	of := []model.Member{{Method: "mfa", Scale: model.ScaleRank, Dim: 4, Params: map[string]string{"ridge": "0.1"}},
		{Method: "pca", Scale: model.ScaleNone, Dim: 3},
		{Method: "lda", Scale: model.ScaleStandard, Landmarks: 40, Width: 4, Dim: 2,
			Params: map[string]string{"ridge": "oas"}},
		{Method: "mfa", Scale: model.ScaleStandard, Landmarks: 40, Width: 4, Dim: 2}}
	const d = 5
	m := fit(t, data, Config{Method: Blend, Dim: d, Seed: 3, Params: blend.Params(of)})
	side := mat.NewDense(data.N, 11, nil)
	at := 0
	for _, one := range of {
		y := centredOutputs(t, fit(t, data, Config{Method: one.Method, Dim: one.Dim, Scale: one.Scale,
			Landmarks: one.Landmarks, Width: one.Width, Seed: 3, Params: one.Params}), data)
		total := mat.Norm(y, 2) / math.Sqrt(float64(data.N))
		for c := range one.Dim {
			for i := range data.N {
				side.Set(i, at, y.At(i, c)/total)
			}
			at++
		}
	}
	isPrincipalComponentsOf(t, m, data, side, d)
	if notes := strings.Join(m.Report().Notes, "; "); !strings.Contains(notes,
		"members with landmarks are fitted on their 4") {
		t.Errorf("40 landmarks: %q", notes)
	}
	var file bytes.Buffer
	if err := model.Write(&file, m); err != nil {
		t.Fatal(err)
	}
	if back, err := model.Read(&file); err != nil || back.Digest() != m.Digest() || m.Map() != "sum" {
		t.Errorf("map %s, read back %v", m.Map(), err)
	}
}

// rings returns rows of three classes around each other, which no line separates.
func rings(n int) *model.Data {
	r := rand.New(rand.NewPCG(5, 6))
	d := &model.Data{N: n, M: 3, Classes: []string{"a", "b", "c"}}
	for i := range n {
		angle, radius := 2*math.Pi*r.Float64(), float64(1+i%3)+0.15*r.NormFloat64()
		d.X = append(d.X, radius*math.Cos(angle), radius*math.Sin(angle), r.NormFloat64())
		d.Y = append(d.Y, i%3)
	}
	return d
}

// If no line separates classes, auto uses curved boundaries if allowed, and reports it.
func TestNonlinearAuto(t *testing.T) {
	data := rings(90)
	c := Config{Dim: 2, Nonlinear: true, Seed: 1}
	if m := fit(t, data, c); m.Method() != "tnca" || m.Report().Choice.Landmarks == 0 { // few outputs need no blend
		t.Errorf("%s of %+v", m.Method(), m.Report().Choice)
	}
	c.Blend = 12
	m := fit(t, data, c)
	choice := m.Report().Choice
	curved, wide, tried := map[bool]bool{}, map[float64]bool{}, map[float64]bool{}
	for _, one := range choice.Members {
		curved[one.Landmarks > 0 || one.Scale == model.ScaleRank] = true
		if one.Landmarks > 0 {
			wide[one.Width] = true
		}
	}
	for _, s := range choice.Scores {
		tried[s.Width] = true
	}
	if len(wide) > 1 || len(tried) != 1+3 {
		t.Errorf("landmarks of the widths %v are blended, of %v", wide, tried)
	}
	if m.Method() != Blend || m.Map() != "sum" || !curved[true] {
		t.Errorf("%s, map %s of %+v", m.Method(), m.Map(), choice.Members)
	}
	settled := c.WithChoice(choice)
	if again := fit(t, data, settled); again.Digest() != m.Digest() {
		t.Errorf("fitted again as %+v it is another model", settled)
	}
	c.Blend = 1
	one := fit(t, data, c)
	choice = one.Report().Choice
	if again := fit(t, data, c.WithChoice(choice)); again.Digest() != one.Digest() || one.Method() != choice.Method {
		t.Errorf("%s; fitted again as %+v it is another model", one.Method(), c.WithChoice(choice))
	}
	if _, err := Fit(t.Context(), data, Config{Method: "isomap", Scale: model.ScaleRank}); err == nil ||
		!strings.Contains(err.Error(), "is not linear") {
		t.Errorf("isomap of normal scores: %v", err)
	}
	s := moments.New(data.M, false)
	if _, err := FitMoments(t.Context(), s, nil, nil, Config{Method: "pca", Scale: model.ScaleRank}); err == nil ||
		!strings.Contains(err.Error(), "scale rank needs the rows") {
		t.Errorf("normal scores from moments: %v", err)
	}
	if _, err := FitMoments(t.Context(), s, nil, nil, Config{Method: "pca", Landmarks: 5}); err == nil ||
		!strings.Contains(err.Error(), "5 landmarks need the rows") {
		t.Errorf("landmarks from moments: %v", err)
	}
}

// If no feature varies in the rows of one fold, it has no landmarks, and the candidates without landmarks decide.
func TestNonlinearAutoWithoutLandmarks(t *testing.T) {
	d := synthetic(65, 36, 4, 3)
	for i := 1; i < d.N; i++ {
		copy(d.X[i*4:i*4+4], d.X[d.M:2*d.M])
	}
	m, err := Fit(t.Context(), d, Config{Nonlinear: true, Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	if choice := m.Report().Choice; len(choice.Scores) == 0 ||
		!strings.Contains(strings.Join(choice.LeftOut, "\n"), "no feature varies") {
		t.Errorf("%+v", choice)
	}
}

// Unlabelled rows count in the normal scores of a method that uses no labels; other methods leave them out and count
// them.
func TestRanksOfUnlabelledRows(t *testing.T) {
	d := synthetic(66, 40, 4, 2)
	for i := range 20 {
		d.Y[i] = -1
	}
	bare := *d
	bare.Y, bare.Classes = nil, nil
	x := mat.NewDense(d.N, d.M, d.X)
	c := Config{Method: "pca", Dim: 2, Scale: model.ScaleRank}
	pca := fit(t, d, c)
	if !mat.Equal(outputsAt(t, pca, x), outputsAt(t, fit(t, &bare, c), x)) || pca.Report().Unlabelled != 0 {
		t.Errorf("pca leaves %d rows without a label out", pca.Report().Unlabelled)
	}
	c = Config{Method: "lda", Dim: 1, Scale: model.ScaleRank}
	if n := fit(t, d, c).Report().Unlabelled; n != 20 {
		t.Errorf("%d of 20 rows without a label are counted", n)
	}
	for _, c := range []Config{c, {Scale: model.ScaleRank}, {Landmarks: 3}} {
		if _, err := Fit(t.Context(), nil, c); err == nil || !strings.Contains(err.Error(), "none given") {
			t.Errorf("of no data: %v", err)
		}
	}
}
