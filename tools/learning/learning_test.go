package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

func independent(t *testing.T, name string) stream {
	t.Helper()
	s, err := streams.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return abrupt(s)
}

// identity is a model whose outputs are the centred features, except for order and signs.
func identity(t *testing.T, mean float64) *model.Model {
	t.Helper()
	d := &model.Data{X: []float64{mean - 2, 0, mean + 2, 0, mean, -1, mean, 1}, N: 4, M: 2}
	m, err := fit.Fit(t.Context(), d, fit.Config{Method: "pca", Dim: 2, Scale: "none"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Scores on rows with known results.
func TestScores(t *testing.T) {
	ref := &model.Data{X: []float64{0, 0, 10, 0, 20, 0}, Y: []int{0, 1, 2}, N: 3, M: 2, Classes: []string{"a", "b", "c"}}
	query := &model.Data{X: []float64{1, 0, 9, 1, 19, -1, 12, 0}, Y: []int{0, 1, 2, 2}, N: 4, M: 2,
		Classes: []string{"a", "b", "c"}}
	here, there := identity(t, 0), identity(t, 10)
	if got, err := trial.Accuracy(t.Context(), here, ref, query); err != nil || got != 0.75 {
		t.Errorf("three of four are next to their class: %g, %v", got, err)
	}
	if got, err := trial.StoredAccuracy(t.Context(), here, here, ref, query); err != nil || got != 0.75 {
		t.Errorf("stored by the same model: %g, %v", got, err)
	}
	// In the coordinates of the first model the other one is 10 to the left: 0, 1 and 2 are classified as what is left of
	// them, and so is 12.
	if got, err := trial.StoredAccuracy(t.Context(), here, there, ref, query); err != nil || got != 0.25 {
		t.Errorf("stored by a model from which it is shifted: %g, %v", got, err)
	}
	// The queries are 1, sqrt 2, sqrt 2 and 2 from their neighbours, and move by 10.
	want := 40 / (1 + 2*math.Sqrt2 + 2)
	if got, err := displacement(t.Context(), here, there, ref, query); err != nil || math.Abs(got-want) > 1e-6 {
		t.Errorf("displacement %g, want %g (%v)", got, want, err)
	}
}

// The oracle chooses the window with the distribution of the fresh rows.
func TestOracle(t *testing.T) {
	w := streams.NewWorld(1, streams.Usual)
	r := rand.New(rand.NewPCG(1, 1))
	var o oracle
	for i := range 32 {
		c := w.Base
		if i >= 16 {
			c = w.Rotated
		}
		if err := o.add(t.Context(), c.Draw(r, batchRows)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := o.best(t.Context(), 16, 0, w.Rotated.Draw(r, freshRows), w.Rotated.Draw(r, freshRows))
	if err != nil {
		t.Fatal(err)
	}
	if m.Rows() < 8*batchRows || m.Rows() > 16*batchRows {
		t.Errorf("the best window has %d rows; the concept has %d", m.Rows(), 16*batchRows)
	}
}

func TestMeanOverRows(t *testing.T) {
	r := run{Rows: 2000, Checkpoints: []checkpoint{{Row: 500, Live: 0.2}, {Row: 1000, Live: 0.4}, {Row: 1250, Live: 1},
		{Row: 2000, Live: 5}}}
	// 250 rows at 0.2, 250 at 0.4, 250 at 1; the last checkpoint counts for no row.
	if got := r.mean(span{750, 1500}, live); math.Abs(float64(got)-1.6/3) > 1e-12 {
		t.Errorf("mean %g", got)
	}
	if got := r.mean(span{0, 400}, live); !math.IsNaN(float64(got)) {
		t.Errorf("rows before the first model have accuracy %g", got)
	}
	s := over([]figure{1, none, 3})
	if s.Mean != 2 || math.Abs(float64(s.Deviation)-math.Sqrt2) > 1e-12 || s.Least != 1 || s.Most != 3 {
		t.Errorf("%+v", s)
	}
}

func TestSpans(t *testing.T) {
	for name, want := range map[string][2][]span{
		"rotation": {{{20_000, 25_000}}, {{25_000, 30_000}}},
		"means":    {{{20_000, 25_000}}, {{23_500, 28_500}}},
		"gradual":  {{{10_000, 30_000}}, {{35_000, 40_000}}},
		"recurring": {{{10_000, 15_000}, {20_000, 25_000}, {30_000, 35_000}},
			{{15_000, 20_000}, {25_000, 30_000}, {35_000, 40_000}}},
		"poison20":   {{{15_000, 35_000}}, {{38_500, 40_000}}},
		"stationary": {{{10_000, 15_000}}, {{13_500, 18_500}}},
	} {
		s := independent(t, name)
		if early, settled := s.spans(usualRows); !slices.Equal(early, want[0]) || !slices.Equal(settled, want[1]) {
			t.Errorf("%s: %v and %v", name, early, settled)
		}
	}
}

// Each bound fails if and only if its figure is beyond it.
func TestBounds(t *testing.T) {
	promoted := func(lost ...figure) []promotion {
		var all []promotion
		for i, l := range lost {
			all = append(all, promotion{Row: 30_000 + i, Before: 0.7, After: 0.7 - l, Stored: 0.7 - l, Moved: 0.1})
		}
		return all
	}
	failing := func(name string, r run) []string {
		s := independent(t, name)
		r.Rows = usualRows
		var what []string
		for _, b := range bounds([]*figures{summarise(s, []run{r})}) {
			if !b.Holds {
				what = append(what, b.What)
			}
		}
		return what
	}
	flat := func(gap figure) []checkpoint {
		return []checkpoint{{Row: 5000, Live: 0.7 - gap, Oracle: 0.7, Loss: gap}}
	}
	moved := promoted(0)
	moved[0].Moved = 0.13
	stored := promoted(0)
	stored[0].Stored = 0.67
	for _, c := range []struct {
		name, stream string
		run          run
		want         int
	}{
		{"well", "stationary", run{Checkpoints: flat(0), Promotions: promoted(0)}, 0},
		{"two swaps", "stationary", run{Checkpoints: flat(0), Promotions: promoted(0, 0)}, 1},
		{"a probe moves", "stationary", run{Checkpoints: flat(0), Promotions: moved}, 1},
		{"stored coordinates", "stationary", run{Checkpoints: flat(0), Promotions: stored}, 1},
		{"a promotion loses 1.5", "rotation", run{Checkpoints: flat(0), Promotions: promoted(0.015)}, 1},
		{"a promotion loses 3", "rotation", run{Checkpoints: flat(0), Promotions: promoted(0.03)}, 2},
		{"5 below", "rotation", run{Checkpoints: flat(0.05)}, 1},
		{"7 below", "rotation", run{Checkpoints: flat(0.07)}, 2},
		{"7 below with noise", "noise", run{Checkpoints: flat(0.07)}, 1},
		{"poison costs 2", "poison6", run{Checkpoints: flat(0.02)}, 0},
		{"poison costs 4", "poison6", run{Checkpoints: flat(0.04)}, 1},
	} {
		if got := failing(c.stream, c.run); len(got) != c.want {
			t.Errorf("%s: %d bounds fail, want %d: %v", c.name, len(got), c.want, got)
		}
	}
}

// A bound on swaps does not hold because there was no swap.
func TestBoundsNeedAMeasurement(t *testing.T) {
	s := independent(t, "stationary")
	r := run{Rows: usualRows, Checkpoints: []checkpoint{{Row: 5000, Live: 0.7, Oracle: 0.7}}}
	for _, b := range bounds([]*figures{summarise(s, []run{r})}) {
		if b.Found == "-" && b.Holds {
			t.Errorf("%s: it holds without a measurement", b.What)
		}
	}
}

// A run is a function of its seed. It uses the library as a host does.
func TestFollow(t *testing.T) {
	s := independent(t, "rotation")
	rows := testsize.Of(6000, 10_000)
	var texts []string
	for range testsize.Of(1, 2) {
		r, err := follow(t.Context(), s, rows, 1, options{method: method}.fit())
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
		last := r.Checkpoints[len(r.Checkpoints)-1]
		if r.First == 0 || last.Row != rows || last.Frozen > 0.4 || last.Oracle < 0.6 ||
			!slices.Equal(r.Widths, []int{20}) {
			t.Errorf("first model after %d rows, widths %v, at the end %+v", r.First, r.Widths, last)
		}
	}
	if texts[0] != texts[len(texts)-1] {
		t.Errorf("two runs of one seed differ:\n%s\n%s", texts[0], texts[1])
	}
}

// A run without a model is an error, or named, as are failed fits: means are of the other runs.
func TestFailures(t *testing.T) {
	promoted := []trial.Promotion{{}}
	got := failures([][]*trial.Result{{{Stream: "well", Promotions: promoted}},
		{{Stream: "ill", Promotions: promoted, Failed: 2}, {Stream: "ill"}}})
	if !strings.Contains(got, "ill (2 failed fits, 1 of 2 runs without a model)") || strings.Contains(got, "well (") {
		t.Error(got)
	}
	// 500 rows are too few for a first model of 256 features.
	_, err := follow(t.Context(), independent(t, "usps"), 500, 1, options{method: method}.fit())
	if err == nil || !strings.Contains(err.Error(), "no model went live") {
		t.Errorf("a run without a model gives %v", err)
	}
}
