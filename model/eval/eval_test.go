package eval

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
)

func evaluate(t *testing.T, d *model.Data, c Config) []Result {
	t.Helper()
	var all []Result
	if err := Evaluate(t.Context(), d, c, func(r Result) error { all = append(all, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// On wine LDA at 2 dimensions is better than the scaled features, and an
// evaluation is a function of its configuration.
func TestEvaluateWine(t *testing.T) {
	c := Config{Data: "wine", Methods: []string{Raw, "lda", "pca"}, Dims: []int{2, 5}, Seed: 1}
	got := evaluate(t, fixture.Dataset(t, "wine"), c)
	if len(got) != 5 {
		t.Fatalf("%d results, want raw, lda and pca at two dimensions", len(got))
	}
	raw, lda, lda5 := got[0], got[1], got[2]
	t.Logf("raw %.3f, lda %.3f +- %.3f, pca %.3f", raw.AccuracyMean, lda.AccuracyMean, lda.AccuracySD,
		got[3].AccuracyMean)
	if raw.Method != Raw || raw.DimUsed != 13 || !(raw.AccuracyMean >= 0.9) || !(raw.AccuracyMean <= 0.98) {
		t.Errorf("raw: %+v", raw)
	}
	if !(lda.AccuracyMean >= 0.96) || !(lda.AccuracySD > 0) || !(lda.AccuracySD <= 0.05) || !(lda.FitSeconds > 0) ||
		lda.DimUsed != 2 {
		t.Errorf("lda: %+v", lda)
	}
	if lda5.Dim != 5 || lda5.DimUsed != 2 || lda5.AccuracyMean != lda.AccuracyMean || lda5.Error != "" {
		t.Errorf("lda at 5 does not run at its bound: %+v", lda5)
	}
	for i, r := range evaluate(t, fixture.Dataset(t, "wine"), c) {
		if r.AccuracyMean != got[i].AccuracyMean {
			t.Error("a second run differs")
		}
	}
}

// The fit uses nothing of the test rows: extreme values in one of them change no other row's class.
func TestEvaluateTrainingPartOnly(t *testing.T) {
	d := *fixture.Dataset(t, "wine")
	c := Config{Methods: []string{Raw, "lda"}, Splits: 1, Seed: 3}
	before := evaluate(t, &d, c)
	splits, err := c.withDefaults().splits(d.Y)
	if err != nil {
		t.Fatal(err)
	}
	d.X = slices.Clone(d.X)
	for _, i := range splits[0].test[:1] {
		for j := range d.M {
			d.X[i*d.M+j] *= 1e6
		}
	}
	one := 1/float64(len(splits[0].test)) + 1e-12
	for i, r := range evaluate(t, &d, c) {
		if !(math.Abs(r.AccuracyMean-before[i].AccuracyMean) <= one) {
			t.Errorf("%s: %g became %g", r.Method, before[i].AccuracyMean, r.AccuracyMean)
		}
	}
}

// Missing values do not stop an evaluation; a method that cannot be fitted does not stop the others.
func TestEvaluateMissingAndFailing(t *testing.T) {
	d := *fixture.Dataset(t, "wine")
	d.X = slices.Clone(d.X)
	for i := 0; i < len(d.X); i += 17 {
		d.X[i] = math.NaN()
	}
	for _, r := range evaluate(t, &d, Config{Methods: []string{Raw, "lda", "pca"}, Splits: 2}) {
		if r.Error != "" || !(r.AccuracyMean >= 0.7) {
			t.Errorf("%s with missing values: %+v", r.Method, r)
		}
	}
	few := &model.Data{X: []float64{0, 1, 0, 1, 5, 1, 5, 1}, N: 4, M: 2, Y: []int{0, 0, 1, 1},
		Classes: []string{"a", "b"}}
	got := evaluate(t, few, Config{Methods: []string{"lda", Raw}, Dims: []int{1}, Splits: 2})
	if got[0].Error == "" || got[1].Error != "" || got[1].AccuracyMean != 1 {
		t.Errorf("lda on one row a class: %+v; raw: %+v", got[0], got[1])
	}
}

func TestEvaluateStops(t *testing.T) {
	d := fixture.Dataset(t, "wine")
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := Evaluate(ctx, d, Config{Methods: []string{"pca"}, Dims: []int{1, 2, 3}}, func(Result) error {
		n++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("cancelled: %v after %d results", err, n)
	}
	stop := errors.New("enough")
	if err := Evaluate(t.Context(), d, Config{Methods: []string{"pca"}},
		func(Result) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the error of yield is lost: %v", err)
	}
	var last float64
	c := Config{Methods: []string{"pca"}, Progress: func(_ string, _ int, done float64) {
		if !(done >= last) || !(done <= 1) {
			t.Errorf("progress went from %g to %g", last, done)
		}
		last = done
	}}
	evaluate(t, d, c)
	if !(last >= 0.8) {
		t.Errorf("the last progress is %g", last)
	}
}

func TestEvaluateRefuses(t *testing.T) {
	for name, c := range map[string]Config{
		"method":    {Methods: []string{"lad"}},
		"dim":       {Dims: []int{0}},
		"fraction":  {TrainFraction: 1},
		"splits":    {Splits: -1},
		"neighbors": {Neighbors: -1},
		"scale":     {Methods: []string{Raw}, Scale: "big"},
		"landmarks": {Landmarks: -1},
		"width":     {Landmarks: 5, Width: -1},
		"blend":     {Blend: -1},
		"tuning":    {Tune: true, Landmarks: 5},
		"parameter": {Methods: []string{"lda"}, Params: map[string]map[string]string{"lda": {"ridge": "much"}}},
		"of none":   {Methods: []string{"lda"}, Params: map[string]map[string]string{"ldb": {"ridge": "auto"}}},
	} {
		if err := Evaluate(t.Context(), fixture.Dataset(t, "wine"), c, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := Evaluate(t.Context(), &model.Data{X: []float64{1}, N: 1, M: 1}, Config{}, nil); err == nil {
		t.Error("no labels: no error")
	}
}

// The JSON form has every documented name; unknown values are null.
func TestEvalResultJSON(t *testing.T) {
	b, _ := json.Marshal(Result{Data: "wine.csv.gz", Method: "lda", Dim: 2, DimUsed: 2, Splits: 10, AccuracyMean: 0.981,
		AccuracySD: 0.012,
		FitSeconds: 0.004, Rank: 2, Params: map[string]string{"ridge": "auto"}})
	var form map[string]any
	if err := json.Unmarshal(b, &form); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data", "method", "dim", "dim_used", "splits", "accuracy_mean", "accuracy_sd",
		"fit_seconds", "informative_rank", "params", "error"} {
		if _, ok := form[name]; !ok {
			t.Errorf("no %s in %s", name, b)
		}
	}
	if form["error"] != nil || form["accuracy_mean"] != 0.981 || len(form) != 11 ||
		!strings.Contains(string(b), `"params":{"ridge":"auto"}`) {
		t.Errorf("form is %s", b)
	}
	b, _ = json.Marshal(Result{Error: "no"})
	if s := string(b); !strings.Contains(s, `"accuracy_mean":null`) || !strings.Contains(s, `"error":"no"`) ||
		!strings.Contains(s, `"params":{}`) {
		t.Errorf("form of a failure is %s", b)
	}
}

// An evaluation of rows with little or no difference ends, with results or with the reason.
func TestEvaluateDegenerateRows(t *testing.T) {
	rare := &model.Data{X: make([]float64, 12*20), N: 12, M: 20, Classes: []string{"a", "b"}}
	rare.X[3], rare.X[3*20+7] = 1, 2 // nothing varies in a fold without rows 0 and 3
	for i := range rare.N {
		rare.Y = append(rare.Y, i/6)
	}
	for name, d := range map[string]*model.Data{"rare features": rare,
		"two rows": {X: []float64{1, 2, 3, 5}, N: 2, M: 2, Y: []int{0, 1}, Classes: []string{"a", "b"}}} {
		c := Config{Methods: []string{"mfa", "lfda", "le", "lpp"}, Dims: []int{1}, Splits: 2, Tune: true}
		if err := Evaluate(t.Context(), d, c, func(Result) error { return nil }); err != nil &&
			!strings.Contains(err.Error(), "2 labelled rows") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A method that reaches fewer dimensions than asked is scored at those it reaches.
func TestEvaluateAtTheBound(t *testing.T) {
	data := fixture.Dataset(t, "iris")
	for _, method := range []string{"lltsa", "ltsimr", "mp-ltsimr", "lpfe"} {
		r := evaluate(t, data, Config{Methods: []string{method}, Dims: []int{10}, Splits: 2})[0]
		if r.Error != "" || r.DimUsed != data.M {
			t.Errorf("%s at 10: dim_used %d, error %q", method, r.DimUsed, r.Error)
		}
	}
}

// A panic of a caller's function is an error of the evaluation.
func TestEvaluatePanics(t *testing.T) {
	d, c := fixture.Dataset(t, "iris"), Config{Methods: []string{"pca"}, Splits: 1}
	byYield := Evaluate(t.Context(), d, c, func(Result) error { panic("my yield") })
	c.Progress = func(string, int, float64) { panic("my progress") }
	byProgress := Evaluate(t.Context(), d, c, func(Result) error { return nil })
	for want, err := range map[string]error{"eval: panicked: my yield": byYield,
		"eval: panicked: my progress": byProgress} {
		var p model.Panic
		if !errors.As(err, &p) || len(p.Stack()) == 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a panic that says %q", err, want)
		}
	}
}
