package fit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/choose"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/score"
)

// rounds is how often auto divides up to 500 rows into folds.
const rounds = 4

// byScore orders scores as auto does: by correct rows, then by more dimensions.
func byScore(x, y model.Score) int { return cmp.Or(cmp.Compare(y.Correct, x.Correct), y.Dim-x.Dim) }

// The table of auto has the accuracies of fitting and scoring each candidate on the folds.
func TestAutoScoresAreCrossValidation(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	data = data.Subset(every(data.N, 2))
	choice := fit(t, data, Config{Method: Auto, Blend: 1, Scale: model.ScaleStandard, Dim: AutoDim}).Report().Choice
	p, err := frame.Prepare(t.Context(), data, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range choice.Scores {
		correct := 0
		for f := range 3 * rounds {
			_, fold := frame.Folds(p, frame.MaxValidated, 3, f/3)
			var train, test []int
			for i, at := range fold {
				if at == f%3 {
					test = append(test, i)
				} else {
					train = append(train, i)
				}
			}
			m, _ := lookup(s.Method)
			c := Config{Method: s.Method, Dim: s.Dim, Params: maps.Clone(m.InFolds)}
			if m.Ridge != nil {
				c.Params = map[string]string{"ridge": "oas"}
			}
			right, err := score.Correct(t.Context(), fit(t, data.Subset(train), c), data.Subset(train), data.Subset(test), 1)
			if err != nil {
				t.Fatal(err)
			}
			correct += right
		}
		if s.Scored != data.N || s.Correct != float64(correct)/rounds {
			t.Errorf("%s at %d: %g of %d right, by hand %g of %d", s.Method, s.Dim, s.Correct, s.Scored,
				float64(correct)/rounds, data.N)
		}
	}
}

// With landmarks and normal scores too, which do not depend on held-out rows.
func TestAutoScoresBehindAMapAreCrossValidation(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	p, err := frame.Prepare(t.Context(), data, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Config{
		{Method: Auto, Blend: 1, Dim: 2, Landmarks: 40, Width: 2, Seed: 5},
		{Method: "pairacc", Dim: AutoDim, Landmarks: 20, Params: map[string]string{"ridge": "0.1"}},
		{Method: Auto, Blend: 1, Dim: 2, Scale: model.ScaleRank},
	} {
		compared := 0
		for _, s := range fit(t, data, c).Report().Choice.Scores {
			m, _ := lookup(s.Method)
			if m.Map != "linear" {
				continue
			}
			one := c
			one.Method, one.Dim = s.Method, s.Dim
			if c.Method == Auto {
				one.Params = s.Params
			}
			correct := 0
			for f := range 3 * rounds {
				pick, fold := frame.Folds(p, frame.MaxValidated, 3, f/3)
				train, test := frame.HeldOut(pick, fold, f%3)
				in, held := data.Subset(train), data.Subset(test)
				right, err := score.Correct(t.Context(), fit(t, in, one), in, held, 1)
				if err != nil {
					t.Fatal(err)
				}
				correct += right
			}
			compared++
			if s.Scored != data.N || !(math.Abs(rounds*s.Correct-float64(correct)) <= 1) { // rows may be as near
				t.Errorf("%+v: %s at %d: %g of %d right, by hand %g of %d", c, s.Method, s.Dim, s.Correct, s.Scored,
					float64(correct)/rounds, data.N)
			}
		}
		if compared < 3 {
			t.Errorf("%+v: %d scores", c, compared)
		}
	}
}

// So are the scores of the variants of the best candidates, which reuse what these have kept in a fold.
func TestScoresOfVariantsAreCrossValidation(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	p, err := frame.Prepare(t.Context(), data, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	variants := 0
	for _, s := range fit(t, data, Config{Method: Auto, Scale: model.ScaleStandard, Dim: 2}).Report().Choice.Scores {
		if ridge := s.Params["ridge"]; ridge != "0.1" && ridge != "1" && s.Method != "dla" {
			continue
		}
		variants++
		c := Config{Method: s.Method, Dim: 2, Scale: s.Scale, Params: s.Params}
		correct := 0
		for f := range 3 * rounds {
			pick, fold := frame.Folds(p, frame.MaxValidated, 3, f/3)
			train, test := frame.HeldOut(pick, fold, f%3)
			in, held := data.Subset(train), data.Subset(test)
			right, err := score.Correct(t.Context(), fit(t, in, c), in, held, 1)
			if err != nil {
				t.Fatal(err)
			}
			correct += right
		}
		if s.Correct != float64(correct)/rounds {
			t.Errorf("%s with %v: %g right, by hand %g", s.Method, s.Params, s.Correct, float64(correct)/rounds)
		}
	}
	if variants < 5 {
		t.Errorf("%d variants were scored", variants)
	}
}

func TestAutoTakesTheBestAndSaysSo(t *testing.T) {
	for _, name := range []string{"iris", "wine", "vowel"}[:testsize.Of(2, 3)] {
		data := fixture.Dataset(t, name)
		m := fit(t, data, Config{Method: Auto, Blend: 1, Scale: model.ScaleStandard, Dim: AutoDim})
		choice := m.Report().Choice
		if choice.Method != m.Method() || choice.Dim != m.Dim() || m.Params()["auto"] != "method and dim" ||
			choice.Rule != "cv" {
			t.Errorf("%s: model %s at %d, parameters %v, choice %+v", name, m.Method(), m.Dim(), m.Params(), choice)
		}
		order := func(s model.Score) int {
			return slices.IndexFunc(method.Candidates(), func(m *frame.Method) bool { return m.Name == s.Method })
		}
		for i, s := range choice.Scores[1:] {
			before := choice.Scores[i]
			if s.Correct > before.Correct || s.Correct == before.Correct &&
				(s.Dim > before.Dim || s.Dim == before.Dim && order(s) < order(before)) {
				t.Errorf("%s: %+v follows %+v", name, s, before)
			}
		}
		if first := choice.Scores[0]; first.Method != choice.Method || first.Dim != choice.Dim {
			t.Errorf("%s: %+v is first, %s at %d was chosen", name, first, choice.Method, choice.Dim)
		}
		if r := choice.RunnerUp; r == nil || r.Method == choice.Method {
			t.Errorf("%s: runner-up %+v", name, r)
		}
		c := Config{Method: Auto, Blend: 1, Scale: model.ScaleStandard, Dim: AutoDim}
		if again := fit(t, data, c); again.Digest() != m.Digest() {
			t.Errorf("%s: another model from the same rows", name)
		}
		var file bytes.Buffer
		if err := model.Write(&file, m); err != nil {
			t.Fatal(err)
		}
		if back, err := model.Read(&file); err != nil || back.Method() != choice.Method ||
			back.Params()["auto"] != "method and dim" {
			t.Errorf("%s: read back %v", name, err)
		}
		// The same choice for other rows.
		settled := Config{Method: Auto, Blend: 1, Scale: model.ScaleStandard, Dim: AutoDim}.WithChoice(choice)
		half, _ := score.Stratified(data.Y, 0.5, 1)
		if part := fit(t, data.Subset(half), settled); part.Method() != choice.Method || part.Dim() != choice.Dim ||
			part.Params()["auto"] == "" {
			t.Errorf("%s: settled to %s at %d, not %s at %d", name, part.Method(), part.Dim(), choice.Method,
				choice.Dim)
		}
	}
}

// TestKeptAsCompared: a candidate that beat a nonlinear blend is fitted with the parameters of the folds, on other rows
// too; otherwise its ridge is chosen again.
func TestKeptAsCompared(t *testing.T) {
	folds := map[string]string{"ridge": "0.1", "beta": "1"}
	choice := &model.Choice{Method: "dla", Dim: 2, Scores: []model.Score{{Method: "dla", Dim: 2, Params: folds}}}
	if got := (Config{Nonlinear: true}).WithChoice(choice).Params; !maps.Equal(got, folds) {
		t.Errorf("compared with %v, fitted with %v", folds, got)
	}
	for _, c := range []Config{{}, {Nonlinear: true, Blend: 1}} {
		if got := c.WithChoice(choice).Params; len(got) > 0 {
			t.Errorf("%+v: %v, want the defaults", c, got)
		}
	}
	choice.Method = "unknown" // of a checkpoint of another version
	if err := (Config{Dim: 2, Nonlinear: true}).WithChoice(choice).Validate(); err == nil {
		t.Error("an unknown method is accepted")
	}
}

// An open dimension is the smallest that the rows do not distinguish from the best one.
func TestAutoDimIsModest(t *testing.T) {
	data := synthetic(71, 120, 12, 3)
	for method, want := range map[string]int{"mfa": 2, "dla": 5} {
		choice := fit(t, data, Config{Method: method, Dim: AutoDim}).Report().Choice
		best := slices.MinFunc(choice.Scores, byScore)
		if choice.Dim != want || choice.Scores[0].Dim != want || best.Dim != 5 {
			t.Errorf("%s: %d outputs of %+v, want %d", method, choice.Dim, choice.Scores, want)
		}
	}
}

// The table begins with the choice, also if the dimension differs because as few as possible are asked for, or because
// the best one cannot be fitted on all rows, which the note says.
func TestAutoTableBeginsWithTheTaken(t *testing.T) {
	lowered := 0
	for seed := range uint64(testsize.Of(2, 4)) {
		data := synthetic(83-seed, 90, 6, 3)
		for _, c := range []Config{{Method: Auto, Blend: 1, Dim: AutoDim}, {Dim: AutoDim}, {Dim: AutoDim, Fewest: true}} {
			choice := fit(t, data, c).Report().Choice
			if first := choice.Scores[0]; first.Method != choice.Method || first.Dim != choice.Dim {
				t.Errorf("%+v is first, %s at %d was taken", first, choice.Method, choice.Dim)
			}
			if slices.MinFunc(choice.Scores, byScore).Dim > choice.Dim {
				lowered++
			}
		}
	}
	if lowered == 0 {
		t.Error("nothing was lowered")
	}
	data := synthetic(80, 90, 6, 3)
	r := &choose.Result{Candidates: slices.Values([]*model.Choice{{Method: "lda", Dim: 5}, {Method: "pca", Dim: 5}})}
	m, err := fitBest(t.Context(), data, Config{Method: Auto, Blend: 1, Scale: model.ScaleStandard, Dim: 5}, r)
	if err != nil {
		t.Fatal(err)
	}
	if c := m.Report().Choice; c.Method != "pca" ||
		!strings.HasPrefix(c.Note, "lda at 5 has more correct held-out rows, but cannot be fitted on all rows: lda: dim 5") {
		t.Errorf("%+v", c)
	}
}

func TestAutoCandidates(t *testing.T) {
	methods := func(d *model.Data, dim int) []string {
		var names []string
		c := Config{Method: Auto, Blend: 1, Scale: model.ScaleStandard, Dim: dim}
		for _, s := range fit(t, d, c).Report().Choice.Scores {
			if dim > 0 && s.Dim != dim {
				t.Errorf("dim %d was asked for, %+v is in the table", dim, s)
			}
			if !slices.Contains(names, s.Method) {
				names = append(names, s.Method)
			}
		}
		return names
	}
	many, two := synthetic(60, 150, 8, 6), synthetic(61, 60, 8, 2)
	for _, c := range []struct {
		data    *model.Data
		dim     int
		in, out []string
	}{
		{many, 2, []string{"mfa", "lda", "pca", "pairacc", "tnca"}, []string{"ksmpa"}},
		{many, 5, []string{"mfa", "lda", "tnca"}, []string{"pairacc"}},
		{many, 7, []string{"mfa", "pca", "tnca"}, []string{"lda", "pairacc"}},
		{two, 1, []string{"lda", "ksmpa", "tnca"}, []string{"pairacc"}},
		{two, 3, []string{"mfa", "ksmpa"}, []string{"lda"}},
		{synthetic(62, 520, 3, 2), 1, []string{"lda"}, []string{"ksmpa", "tnca"}},
	} {
		got := methods(c.data, c.dim)
		for _, name := range c.in {
			if _, err := lookup(name); err == nil && !slices.Contains(got, name) {
				t.Errorf("n=%d dim %d: %s is missing among %v", c.data.N, c.dim, name, got)
			}
		}
		for _, name := range c.out {
			if slices.Contains(got, name) {
				t.Errorf("n=%d dim %d: %s is among %v", c.data.N, c.dim, name, got)
			}
		}
	}
	_, err := Fit(context.Background(), two, Config{Method: Auto, Blend: 1, Scale: model.ScaleStandard, Dim: 9})
	if bound := (*model.DimError)(nil); !errors.As(err, &bound) || bound.Max != 8 {
		t.Errorf("dim 9 of 8 features: %v", err)
	}
}

func TestAutoDimOfAMethod(t *testing.T) {
	data := fixture.Dataset(t, "vowel")
	m := fit(t, data, Config{Method: "pairacc", Dim: AutoDim, Params: map[string]string{"ridge": "0.1"}})
	choice := m.Report().Choice
	var dims []int
	for _, s := range choice.Scores {
		dims = append(dims, s.Dim)
	}
	slices.Sort(dims)
	if m.Method() != "pairacc" || choice.Chosen != "dim" || m.Params()["ridge"] != "0.1" ||
		!slices.Equal(dims, []int{2, 5, 10}) {
		t.Errorf("%s, parameters %v, dims %v", m.Method(), m.Params(), dims)
	}
	if choice.RunnerUp == nil || choice.RunnerUp.Dim == m.Dim() {
		t.Errorf("runner-up %+v of %d", choice.RunnerUp, m.Dim())
	}
	if m := fit(t, data, Config{Method: "pca", Dim: AutoDim}); m.Dim() != 2 || m.Report().Choice != nil {
		t.Errorf("pca, which does not learn from labels: dim %d", m.Dim())
	}
	if m := fit(t, data, Config{Method: "sle-ovr", Dim: AutoDim}); m.Report().Choice == nil {
		t.Error("sle-ovr: no choice")
	}
}

func TestAutoWithoutWhatItNeeds(t *testing.T) {
	data := synthetic(63, 40, 5, 4)
	bare, one, few := *data, *data, synthetic(64, 6, 5, 3)
	bare.Y = nil
	one.Y = make([]int, data.N)
	for _, c := range []struct {
		what   string
		data   *model.Data
		dim    int
		method string
		d      int
	}{
		{"no labels", &bare, AutoDim, "pca", 2},
		{"no labels", &bare, 3, "pca", 3},
		{"one class", &one, AutoDim, "pca", 2},
		{"two rows a class", few, AutoDim, "lda", 2},
		{"two rows a class", few, 2, "lda", 2},
		{"two rows a class", few, 3, "pairacc", 3},
	} {
		m := fit(t, c.data, Config{Method: Auto, Blend: 1, Scale: model.ScaleStandard, Dim: c.dim})
		choice := m.Report().Choice
		if m.Method() != c.method || m.Dim() != c.d || choice.Dim != c.d || choice.Rule == "cv" ||
			len(choice.Scores) > 0 {
			t.Errorf("%s, dim %d: %s at %d, %+v", c.what, c.dim, m.Method(), m.Dim(), choice)
		}
	}
	s := moments.New(data.M, false)
	if err := s.Add(t.Context(), data.X, data.Y); err != nil {
		t.Fatal(err)
	}
	unlabelled := moments.New(data.M, false)
	if err := unlabelled.Add(t.Context(), data.X, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s      *moments.Set
		asked  string
		dim    int
		method string
		d      int
	}{
		{s, Auto, AutoDim, "lda", 3},
		{s, Auto, 3, "lda", 3},
		{s, Auto, 4, "pairacc", 4},
		{unlabelled, Auto, AutoDim, "pca", 2},
		{s, "srda", AutoDim, "srda", 3},
	} {
		m, err := FitMoments(context.Background(), c.s, nil, data.Classes, Config{Method: c.asked, Dim: c.dim})
		if err != nil || m.Method() != c.method || m.Dim() != c.d {
			t.Errorf("%s at %d from moments: %v, %v", c.asked, c.dim, m, err)
		}
	}
}

// Classes of equal rows have no spread: methods that need one are left out and named, and the others decide.
func TestAutoLeavesOutWhatCannotBeFitted(t *testing.T) {
	data := synthetic(65, 36, 4, 3)
	for i := 3; i < data.N; i++ {
		copy(data.X[i*4:i*4+4], data.X[i%3*4:])
	}
	m := fit(t, data, Config{Method: Auto, Blend: 1, Scale: model.ScaleStandard, Dim: AutoDim})
	choice := m.Report().Choice
	if len(choice.LeftOut) == 0 || len(choice.Scores) == 0 ||
		!strings.Contains(strings.Join(choice.LeftOut, "\n"), "lda: ") {
		t.Errorf("%+v", choice)
	}
	left := fit(t, data, Config{Dim: AutoDim}).Report().Choice.LeftOut // at three scales
	if once := slices.Compact(slices.Sorted(slices.Values(left))); len(once) != len(left) {
		t.Errorf("some are named twice: %q", left)
	}
}

func TestAutoEndsOnCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Fit(ctx, fixture.Dataset(t, "vowel"),
		Config{Method: Auto, Blend: 1, Scale: model.ScaleStandard, Dim: AutoDim,
			Progress: func(string, float64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// With Fewest auto has no more outputs than without, and the same fit again needs only what was chosen.
func TestFewestOutputs(t *testing.T) {
	data := fixture.Dataset(t, "iris")
	c := Config{Method: Auto, Dim: AutoDim, Scale: model.ScaleStandard, Blend: 1}
	usual := fit(t, data, c)
	c.Fewest = true
	few := fit(t, data, c)
	if few.Dim() > usual.Dim() {
		t.Errorf("%d outputs, %d otherwise", few.Dim(), usual.Dim())
	}
	if again := fit(t, data, c.WithChoice(few.Report().Choice)); again.Digest() != few.Digest() {
		t.Errorf("fitted again it is another model")
	}
}

// TestMaxDimBoundsDefaults: the largest dimension holds too where auto, or dim auto, takes a method's default.
func TestMaxDimBoundsDefaults(t *testing.T) {
	data, few := synthetic(63, 40, 5, 4), synthetic(64, 6, 5, 3)
	bare := *data
	bare.Y = nil
	for _, c := range []struct {
		what string
		data *model.Data
		Config
	}{
		{"no labels", &bare, Config{Dim: AutoDim}},
		{"no labels, landmarks", &bare, Config{Dim: AutoDim, Landmarks: 10}},
		{"no labels, normal scores", &bare, Config{Dim: AutoDim, Scale: model.ScaleRank}},
		{"two rows a class", few, Config{Dim: AutoDim}},
		{"two rows a class", few, Config{Method: "lda", Dim: AutoDim}},
		{"a method without labels", data, Config{Method: "pca", Dim: AutoDim}},
		{"the default of a method", data, Config{Method: "lda"}},
	} {
		c.MaxDim = 1
		if m := fit(t, c.data, c.Config); m.Dim() != 1 {
			t.Errorf("%s, %s: %d outputs of %s, want 1", c.what, c.Method, m.Dim(), m.Method())
		}
	}
	s := moments.New(data.M, false)
	if err := s.Add(t.Context(), data.X, data.Y); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{Auto, "srda", "pca"} {
		m, err := FitMoments(t.Context(), s, nil, data.Classes, Config{Method: method, Dim: AutoDim, MaxDim: 1})
		if err != nil || m.Dim() != 1 {
			t.Errorf("%s from moments: %v, %v", method, m, err)
		}
	}
}

// TestShareOfVarianceIsNotNested: the score of lsda at a dimension is that of its fit at this dimension, also if a
// share of the variance needs fewer principal components than the largest dimension.
func TestShareOfVarianceIsNotNested(t *testing.T) {
	data := fixture.Dataset(t, "vowel")
	data = data.Subset(every(data.N, 6))
	p, err := frame.Prepare(t.Context(), data, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	one := Config{Method: "lsda", Params: map[string]string{"pca": "0.3", "ridge": "0.1"}}
	c := one
	c.Dim = AutoDim
	scores := fit(t, data, c).Report().Choice.Scores
	for _, s := range scores {
		correct := 0
		for f := range 3 * rounds {
			pick, fold := frame.Folds(p, frame.MaxValidated, 3, f/3)
			train, test := frame.HeldOut(pick, fold, f%3)
			in, held := data.Subset(train), data.Subset(test)
			one.Dim = s.Dim
			right, err := score.Correct(t.Context(), fit(t, in, one), in, held, 1)
			if err != nil {
				t.Fatal(err)
			}
			correct += right
		}
		if !(math.Abs(rounds*s.Correct-float64(correct)) <= 1) { // rows may be as near
			t.Errorf("%d outputs: %g of %d right, by hand %g", s.Dim, s.Correct, s.Scored, float64(correct)/rounds)
		}
	}
	if len(scores) < 3 {
		t.Errorf("%d scores", len(scores))
	}
}

// TestRuleOfAutoWithoutClasses: without classes auto is pca, and the report says why.
func TestRuleOfAutoWithoutClasses(t *testing.T) {
	d := &model.Data{N: 4, M: 2, X: []float64{0, 1, 2, 5, 4, 1, 7, 3}}
	for rule, y := range map[string][]int{"no row has a label": nil, "all labelled rows are of one class": {1, -1, 1, 1}} {
		if d.Y, d.Classes = y, nil; y != nil {
			d.Classes = []string{"a", "b"}
		}
		m, err := Fit(t.Context(), d, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if c := m.Report().Choice; m.Method() != "pca" || c.Rule != rule || c.Chosen != "method and dim" ||
			m.Params()["auto"] != "method and dim" || m.Rows() != 4 {
			t.Errorf("%v: %s of %d rows, %+v", y, m.Method(), m.Rows(), c)
		}
	}
	if presentClasses(nil) != 0 || presentClasses(&model.Data{Y: []int{-1, 3, 3, 0}}) != 2 {
		t.Error("other classes are present")
	}
	if used(d, false) != 4 || used(&model.Data{N: 3, Y: []int{-1, 0, 1}}, true) != 2 {
		t.Error("other rows are used")
	}
	if p := candidateParams("ksmpa", "0.5"); p["ridge"] != "0.5" || p["kernel"] != "gauss" || len(p) != 2 {
		t.Errorf("ksmpa has %v", p)
	}
	if p := candidateParams("pca", "0.5"); len(p) != 0 {
		t.Errorf("pca has %v", p)
	}
	if p := candidateParams("lda", "auto"); len(p) != 0 {
		t.Errorf("lda has %v", p)
	}
	if p := candidateParams("none", "0.5"); len(p) != 0 {
		t.Errorf("no method has %v", p)
	}
	for _, c := range []struct {
		choice *model.Choice
		config Config
		want   Config
	}{
		{&model.Choice{Method: "lda", Dim: 3, Scale: model.ScaleNone}, Config{}, Config{Method: "lda", Dim: 3,
			Scale: "none"}},
		{&model.Choice{Method: "lda", Dim: 3, Scale: model.ScaleNone}, Config{Scale: model.ScaleMinMax, Dim: 2},
			Config{Method: "lda", Dim: 2, Scale: "minmax"}},
		{&model.Choice{Method: "lda", Dim: 3, Landmarks: 9, Width: 2}, Config{Scale: "none"},
			Config{Method: "lda", Dim: 3, Scale: "none", Landmarks: 9, Width: 2}},
		{&model.Choice{Method: "lda", Dim: 3, Scale: model.ScaleRank}, Config{Scale: "none"},
			Config{Method: "lda", Dim: 3, Scale: "rank"}},
		{&model.Choice{Method: "lda", Dim: 3, Scale: model.ScaleRank}, Config{Method: "mfa", Dim: AutoDim, Fewest: true},
			Config{Method: "mfa", Dim: 3}},
	} {
		got := c.config.WithChoice(c.choice)
		if got.Method != c.want.Method || got.Dim != c.want.Dim || got.Scale != c.want.Scale ||
			got.Landmarks != c.want.Landmarks || got.Width != c.want.Width || got.Fewest || got.choice != c.choice {
			t.Errorf("%+v with %+v: %+v", c.config, c.choice, got)
		}
	}
}
