package stage

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/stage/window"
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
