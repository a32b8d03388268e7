package choose

import (
	"maps"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// TestChoiceWithoutScores: lda up to C-1 and the columns, else pairacc, and pca without classes.
func TestChoiceWithoutScores(t *testing.T) {
	for _, c := range []struct {
		config           Config
		classes, columns int
		method, of       string
		dim              int
	}{
		{Config{}, 3, 9, "lda", "method and dim", 0}, {Config{Dim: -1}, 3, 9, "lda", "method and dim", 0},
		{Config{Dim: 2}, 3, 9, "lda", "method", 2}, {Config{Dim: 3}, 3, 9, "pairacc", "method", 3},
		{Config{Dim: 2}, 5, 1, "pairacc", "method", 2}, {Config{Dim: 1}, 2, 1, "lda", "method", 1},
		{Config{Dim: 2}, 1, 9, "pca", "method", 2}, {Config{Dim: 2}, 0, 9, "pca", "method", 2},
		{Config{Method: &frame.Method{Name: "own"}, Dim: 2}, 1, 9, "own", "dim", 2},
	} {
		got := WithoutScores(c.config, c.classes, c.columns)
		if got.Method != c.method || got.Chosen != c.of || got.Dim != c.dim || got.Rule != "no rows are kept" {
			t.Errorf("%+v of %d classes: %+v", c.config, c.classes, got)
		}
	}
	s := &selection{v: &validator{rows: &frame.Rows{}}, total: &frame.Task{Basis: &frame.BasisScatters{}}}
	if got, want := s.withoutScores().Rule,
		"fewer than 2 classes have the 3 rows that cross-validation needs, or nothing "+
			"varies in a part of the rows"; got != want {
		t.Error(got)
	}
	for members, want := range map[int]bool{0: true, 2: true, 1: false} {
		if (Config{Blend: members}).blends() != want || (Config{Blend: members, Method: &blend.Method}).blends() {
			t.Errorf("%d members are a blend: %v", members, !want)
		}
	}
	for dim, want := range map[int]bool{-1: false, 0: false, 1: true, 3: true, 4: false} {
		if (Config{Dim: dim}).hasFewOutputs() != want {
			t.Errorf("%d outputs are few: %v", dim, !want)
		}
	}
}

// TestNotes: all columns, and why the winner is not the one with the most correct rows.
func TestNotesOfAChoice(t *testing.T) {
	r := &Result{columns: 5, common: model.Choice{Chosen: "dim"}}
	score := model.Score{Method: "lda", Dim: 4, Scale: model.ScaleNone, Landmarks: 3, Width: 2}
	if c := r.choice(score); c.Note != "" || c.Chosen != "dim" || c.Method != "lda" || c.Dim != 4 || c.Landmarks != 3 ||
		c.Width != 2 || c.Scale != model.ScaleNone {
		t.Errorf("%+v", c)
	}
	score.Dim = 5
	if c := r.choice(score); c.Note != "5 outputs of 5 columns: on these rows every reduction loses" {
		t.Errorf("note %q", c.Note)
	}
	if r.columns = 0; r.choice(score).Note != "" {
		t.Error("a given dimension has a note")
	}
}

// TestCandidatesAreOrdered by correct rows, then by more dimensions, then as they are.
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
		e.correct[d] = rightIn(from, 100)
	}
	if d := smallest(&candidate{method: e.method, dims: []int{1, 2}, correct: e.correct, score: e.score}, 3, 100); d != 3 {
		t.Errorf("no smaller one is as good, and %d is chosen", d)
	}
	if d := withoutLoss(&candidate{method: e.method, dims: []int{1, 2}, correct: e.correct}, 3, 2, 100); d != 3 {
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
	x := []float64{1, 2, 3, 4, 5, 6}
	if got := leadingColumns(x, 3, 2); !slices.Equal(got, []float64{1, 2, 4, 5}) || len(leadingColumns(x, 3, 3)) != 6 {
		t.Errorf("leading columns %v", got)
	}
	if s := perRow(model.Score{Correct: 10, Scored: 9}, 4); s.Correct != 2.5 || s.Scored != 3 {
		t.Errorf("a row counts as %+v", s)
	}
}

// TestSettingsOfCandidates: parameters that are auto are replaced in the folds, and variants change the ridge.
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

// TestKeptIntermediates: those of candidates of a blend, as long as they take less than 32 MiB.
func TestKeptIntermediates(t *testing.T) {
	linear := &candidate{method: &frame.Method{Map: "linear"}}
	kernel := &candidate{method: &frame.Method{Map: "kernel"}}
	task := func(m int) *frame.Task { return &frame.Task{M: m, Cache: 1} }
	for what, c := range map[string]struct {
		v    validator
		e    *candidate
		task *frame.Task
		want bool
	}{
		"of a blend":      {validator{blends: true}, linear, task(1448), true}, // 16 * 1448^2 is just below 32 MiB
		"without a blend": {validator{}, linear, task(3), false},
		"of a kernel":     {validator{blends: true}, kernel, task(3), false},
		"too large":       {validator{blends: true}, linear, task(1449), false},
		"nothing":         {validator{blends: true}, linear, &frame.Task{M: 3}, false},
		"one too many": {validator{blends: true, kept: map[fitKey]frame.Intermediates{{fold: 9}: {}}}, linear, task(1448),
			false},
		"two": {validator{blends: true, kept: map[fitKey]frame.Intermediates{{fold: 9}: {}}}, linear, task(1024), true},
	} {
		at := fitKey{c.e, 1}
		c.v.keep(at, c.task)
		if _, ok := c.v.kept[at]; ok != c.want {
			t.Errorf("%s: kept %v", what, ok)
		}
	}
}

// TestDimensionsToTry: within the rows less one, the columns and the configured bound, each once.
func TestDimensionsToTry(t *testing.T) {
	for _, c := range []struct {
		columns, rows, bound int
		want                 []int
	}{
		{50, 100, 0, []int{2, 5, 10, 20}}, {7, 100, 0, []int{2, 5, 7}}, {50, 9, 0, []int{2, 5, 8}}, {50, 100, 6, []int{2,
			5, 6}},
		{1, 100, 0, []int{1}}, {5, 1, 0, []int{1}},
	} {
		s := &selection{c: Config{MaxDim: c.bound}, total: &frame.Task{Columns: c.columns},
			v: &validator{rows: &frame.Rows{N: c.rows}}}
		if s.addDims(10, 2, 5, 20, 2); !slices.Equal(s.dims, c.want) {
			t.Errorf("%+v: %v", c, s.dims)
		}
	}
	v := &validator{}
	e := &candidate{method: &blend.Method}
	v.exclude(e, preprocess.ErrConstant)
	v.exclude(e, preprocess.ErrConstant)
	if want := []string{"blend: no feature varies"}; !e.excluded || !slices.Equal(v.leftOut, want) {
		t.Errorf("left out %q", v.leftOut)
	}
	total := &frame.Task{Columns: 3, Basis: &frame.BasisScatters{Total: mat.NewSymDense(3, nil)}}
	if s := (&selection{total: total, v: &validator{rows: &frame.Rows{N: 9}}}); s.scores() != nil {
		t.Error("no candidates have scores")
	}
}
