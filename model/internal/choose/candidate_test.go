package choose

import (
	"maps"
	"slices"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
)

// TestCandidatesAreOrdered: candidates are sorted by correct rows, then by more dimensions, and else keep their order.
func TestCandidatesAreOrdered(t *testing.T) {
	e := &candidate{method: method.Table[0], dims: []int{1, 2, 3}}
	e.reset(true)
	for d, correct := range []float64{4, 7, 7} {
		e.score[d+1].Correct = correct
	}
	var dims []int
	for _, s := range e.scores() {
		dims = append(dims, s.Dim)
	}
	if !slices.Equal(dims, []int{3, 2, 1}) || e.best().Dim != 3 {
		t.Errorf("order %v", dims)
	}
	if d := smallest(e, 3, 5); d != 2 { // only the numbers of correct rows are known
		t.Errorf("the smallest is %d", d)
	}
	for d, from := range map[int]int{1: 20, 2: 20, 3: 0} {
		e.nearestCounts[d] = rightIn(from, 100)
	}
	few := &candidate{method: e.method, dims: []int{1, 2}, nearestCounts: e.nearestCounts, score: e.score}
	if d := smallest(few, 3, 100); d != 3 {
		t.Errorf("no smaller one is as good, and %d is chosen", d)
	}
	if d := withoutLoss(few, 3, 2, 100); d != 3 {
		t.Errorf("no smaller one is without loss, and %d is chosen", d)
	}
	if !e.has(model.Score{Method: e.method.Name, Dim: 2}) || e.has(model.Score{Method: e.method.Name, Dim: 4}) ||
		e.has(model.Score{Method: "own", Dim: 2}) {
		t.Error("a candidate has other scores")
	}
	same := model.Score{Method: "a", Scale: "b", Landmarks: 1, Width: 2, Params: map[string]string{"c": "d"}}
	for i, change := range []func(*model.Score){func(*model.Score) {}, func(s *model.Score) { s.Method = "x" },
		func(s *model.Score) { s.Scale = "x" }, func(s *model.Score) { s.Landmarks = 2 },
		func(s *model.Score) { s.Width = 3 },
		func(s *model.Score) { s.Params = nil }} {
		other := same
		change(&other)
		if sameCandidate(same, other) != (i == 0) {
			t.Errorf("change %d: the same is %v", i, i != 0)
		}
	}
	if got := addCounts([]int{1, 2}, []int{10, 20}); !slices.Equal(got, []int{11, 22}) {
		t.Errorf("counts %v", got)
	}
	if got := addCounts(nil, []int{10, 20}); !slices.Equal(got, []int{10, 20}) {
		t.Errorf("first counts %v", got)
	}
	y := &frame.OutputPair{Train: []float64{1, 2, 3, 4, 5, 6}, Test: []float64{7, 8, 9}, D: 3}
	if got := y.Leading(2); !slices.Equal(got.Train, []float64{1, 2, 4, 5}) ||
		!slices.Equal(got.Test, []float64{7, 8}) || got.D != 2 || y.Leading(3) != y || y.Leading(4) != y {
		t.Errorf("leading columns %+v", got)
	}
	if s := perRow(model.Score{Correct: 10, Scored: 9}, 4); s.Correct != 2.5 || s.Scored != 3 {
		t.Errorf("a row counts as %+v", s)
	}
}

// TestSettingsOfCandidates: in cross-validation, parameters with the value auto get the value of InFolds, and variants
// of a candidate have different ridges.
func TestSettingsOfCandidates(t *testing.T) {
	bare := &frame.Method{Name: "bare", InFolds: map[string]string{"pca": "1"}}
	ridge := &frame.Method{Name: "ridge", Ridge: &frame.RidgeRule{}, Auto: &frame.Candidate{Settings: []map[string]string{
		{"k": "9"}}}}
	without := &frame.Method{Name: "without", Ridge: &frame.RidgeRule{Without: 0.25}}
	for _, c := range []struct {
		of          *frame.Method
		given, want map[string]string
	}{
		{bare, map[string]string{"pca": "auto", "ridge": "auto"}, map[string]string{"pca": "1", "ridge": "auto"}},
		{bare, map[string]string{"pca": "0.9"}, map[string]string{"pca": "0.9"}},
		{ridge, map[string]string{"ridge": "auto", "k": "auto"}, map[string]string{"ridge": "oas", "k": "auto"}},
		{ridge, map[string]string{"ridge": "0.5"}, map[string]string{"ridge": "0.5"}},
		{without, map[string]string{"ridge": "auto"}, map[string]string{"ridge": "0.25"}},
	} {
		if got := paramsInFolds(c.of, c.given); !maps.Equal(got, c.want) {
			t.Errorf("%s with %v: %v, want %v", c.of.Name, c.given, got, c.want)
		}
	}
	e := &candidate{method: ridge, params: map[string]string{"ridge": "oas", "k": "5"}, changed: map[string]string{
		"ridge": "oas"}, dims: []int{2}}
	var got []string
	for _, v := range e.variants() {
		got = append(got, v.params["ridge"]+" "+v.params["k"])
		if v.base != e || v.changed["ridge"] != v.params["ridge"] || v.score[2] == nil {
			t.Errorf("%+v", v)
		}
	}
	if want := []string{"0.1 5", "1 5", "oas 9"}; !slices.Equal(got, want) || e.params["k"] != "5" {
		t.Errorf("variants %v, want %v", got, want)
	}
	if e.params["ridge"] = "0.5"; len(e.variants()) != 1 {
		t.Error("a given ridge has variants")
	}
	nested := &candidate{method: &frame.Method{Nested: true}, params: map[string]string{"pca": "1"}, dims: []int{2, 5},
		outputs: map[int]map[int]*frame.OutputPair{0: {5: {D: 5}}}}
	if !nested.isNested() || nested.outputsAt(0, 2) == nil {
		t.Error("one fit does not score all dimensions")
	}
	if nested.params["pca"] = "0.98"; nested.isNested() || nested.outputsAt(0, 2) != nil || nested.outputsAt(0, 5) == nil {
		t.Error("with components in front one fit scores all dimensions")
	}
}
