package stage

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestChooseRows: each class has an equal share of a sample, spread over its rows, and no class has more than it has
// rows.
func TestChooseRows(t *testing.T) {
	t.Parallel()
	w := window.New(window.Config{Features: 1, Rows: 1000, Labelled: true})
	for i := range 600 {
		label := "often"
		if i%20 == 0 {
			label = "seldom"
		}
		w.Add(window.Row{Position: window.Position{Seq: uint64(i + 1)},
			Time: int64(i/300) * int64(time.Hour), Label: label, X: []float64{float64(i)}})
	}
	s, rows := chooseRows(w, 100)
	if s.Rows != 600 || s.Limit != 50 || len(rows) != 80 || len(s.Class) != 80 {
		t.Fatalf("%d rows of %d, at most %d a class", len(rows), s.Rows, s.Limit)
	}
	want := []SampleClass{{"often", 570, 50, [12]int{0: 285, 11: 285}}, {"seldom", 30, 30, [12]int{0: 15, 11: 15}}}
	if !slices.Equal(s.Classes, want) || s.Newest.Sub(s.Oldest) != time.Hour {
		t.Errorf("classes %+v, want %+v", s.Classes, want)
	}
	seen := map[*window.Row]bool{}
	for i, r := range rows {
		if seen[r] || r.Label != s.Classes[s.Class[i]].Name {
			t.Fatalf("row %d is %q, repeated %v", i, r.Label, seen[r])
		}
		seen[r] = true
	}
	if s, rows = chooseRows(w, 1); len(rows) != 1 || s.Classes[1].Shown != 0 {
		t.Errorf("a limit of one gives %d rows", len(rows))
	}
	if _, rows = chooseRows(window.New(window.Config{Features: 1, Rows: 10, Labelled: true}), 10); len(rows) != 0 {
		t.Errorf("an empty window gives %d rows", len(rows))
	}
}

// TestAgesOfManyYears: times that are years apart, as of a server whose clock was set, are in the first and last part.
func TestAgesOfManyYears(t *testing.T) {
	t.Parallel()
	const year = int64(365 * 24 * time.Hour)
	for _, times := range [][2]int64{{0, 4 * year}, {1, 56 * year}, {math.MinInt64, math.MaxInt64}} {
		w := window.New(window.Config{Features: 1, Rows: 10, Labelled: true})
		for i, at := range times {
			w.Add(window.Row{Position: window.Position{Seq: uint64(i + 1)}, Time: at, Label: "a", X: []float64{0}})
		}
		s, _ := chooseRows(w, 10)
		if ages := s.Classes[0].Ages; ages[0] != 1 || ages[AgeSteps-1] != 1 {
			t.Errorf("%d: %v", times, ages)
		}
	}
}

// TestSampleOfAFixedModel: a stage that does not learn has no rows.
func TestSampleOfAFixedModel(t *testing.T) {
	t.Parallel()
	if _, err := SampleOf(t.Context(), &Stage{}, 10, nil); !errors.Is(err, spec.ErrFixed) {
		t.Error(err)
	}
}

// TestSampleOfModels: a sample has the outputs of each model of the window's features, NaN where one exceeds float32.
func TestSampleOfModels(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *spec.Config) { c.Fit = fit.Config{Method: "pca", Dim: 2, Scale: model.ScaleNone} })
	got, err := SampleOf(t.Context(), s, 10, []*model.Model{nil})
	if err != nil || got.Rows != 0 || len(got.Outputs) != 1 {
		t.Errorf("before the first row: %+v, %v", got, err)
	}
	rows := clouds(rand.New(rand.NewPCG(65, 66)), 600, 3)
	learnRows(t, s, 1, rows)
	m := s.Live().Model
	other, err := fit.Fit(t.Context(), &model.Data{N: 3, M: 1, X: []float64{1, 2, 4}, Features: []string{"x"}},
		fit.Config{Method: "pca", Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	got, err = SampleOf(t.Context(), s, 300, []*model.Model{m, nil, other})
	if err != nil || got.Rows != 600 || len(got.Outputs) != 3 || got.Outputs[1] != nil || got.Outputs[2] != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, one := range []int{0, 99, 255, 256, 299} {
		want := make([]float32, 2)
		w := inspect(s).Window
		_, sampled := chooseRows(w, 300)
		if err := m.Project(want, model.DenseRows(sampled[one].X, 1, testFeatures)); err != nil ||
			!slices.Equal(got.Outputs[0][2*one:2*one+2], want) {
			t.Errorf("%d: row %d has outputs %v, want %v", i, one, got.Outputs[0][2*one:2*one+2], want)
		}
	}
	zero, large := make([]float64, testFeatures), slices.Repeat([]float64{math.MaxFloat64}, testFeatures)
	huge := []*window.Row{{X: zero}, {X: large}, {X: zero}}
	y, err := outputsOf(t.Context(), m, huge, testFeatures)
	if err != nil || y[0] != y[4] || y[1] != y[5] || y[0] != y[0] || y[2] == y[2] || y[3] == y[3] {
		t.Errorf("outputs %v, %v", y, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := outputsOf(ended, m, huge, testFeatures); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	s.Close()
	if _, err := SampleOf(t.Context(), s, 10, nil); !errors.Is(err, spec.ErrClosed) {
		t.Errorf("of a closed stage: %v", err)
	}
	if s.Wait(t.Context()) == nil || s.Refit() == nil || s.Adopt(&spec.Live{Model: m}, false) == nil {
		t.Error("a closed stage learns")
	}
}
