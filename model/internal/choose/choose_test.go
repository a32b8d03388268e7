package choose

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// For one method the best dimension has to win by half a standard error of the difference on the same rows over each
// smaller one; of the candidates of auto the one with the most correct rows wins, unless it has every column: then the
// smallest without a loss, and one of very few only if it wins by two standard errors.
func TestSettledDimension(t *testing.T) {
	const n = 100
	type at struct{ dim, from, to int } // rows that are right, in two rounds of two
	for _, c := range []struct {
		what   string
		isAuto bool
		dims   []at
		want   int
	}{
		{"better by luck", false, []at{{2, 10, 100}, {5, 0, 91}, {9, 0, 91}}, 2}, // 1 of 19, of rows that differ
		{"better for good", false, []at{{2, 0, 80}, {5, 0, 91}, {9, 0, 91}}, 5},  // 11 of 11
		{"nothing but better", false, []at{{2, 0, 90}, {5, 0, 91}}, 5},           // 1 of 1
		{"as good", false, []at{{2, 0, 90}, {5, 0, 90}}, 2},
		{"of auto", true, []at{{2, 10, 100}, {5, 0, 91}}, 5},
		{"every column, of auto, one row better", true, []at{{2, 10, 100}, {5, 0, 90}, {10, 0, 91}}, 10},
		{"every column, of auto, as good", true, []at{{2, 0, 91}, {5, 0, 91}, {10, 0, 91}}, 5}, // 2 has to win
		{"every column, of auto, few outputs win", true, []at{{2, 0, 93}, {5, 0, 91}, {10, 0, 91}}, 2},
		{"every column, for good", true, []at{{2, 0, 80}, {5, 0, 79}, {10, 0, 91}}, 10},
	} {
		m, err := method.Find("mfa")
		if err != nil {
			t.Fatal(err)
		}
		a := &selection{v: &validator{rows: &frame.Rows{N: n}}, total: &frame.Task{Columns: 10}}
		if !c.isAuto {
			a.c.Method = m
		}
		e := &candidate{method: m}
		for _, one := range c.dims {
			e.dims = append(e.dims, one.dim)
		}
		e.reset(false)
		for _, one := range c.dims {
			right := make([]int, n)
			for i := one.from; i < one.to; i++ {
				right[i] = 2
				e.score[one.dim].Correct += 2
			}
			e.nearestCounts[one.dim] = right
		}
		a.candidates = []*candidate{e}
		ranked := a.scores()
		best := ranked[0]
		note := a.preferSmaller(ranked)
		if ranked[0].Dim != c.want {
			t.Errorf("%s: %d of %+v, want %d", c.what, ranked[0].Dim, best, c.want)
		}
		reason := fmt.Sprintf("mfa at %d has more rows right", best.Dim)
		if strings.Contains(note, reason) != (best.Correct > ranked[0].Correct) {
			t.Errorf("%s: %q of %+v before %+v", c.what, note, ranked[0], best)
		}
	}
}

// The score of a view in a fold uses only the rows of the cross-validation, however many more there are.
func TestAutoLooksAtSomeRows(t *testing.T) {
	data := fixture.Synthetic(91, 1600, 4, 3)
	for _, c := range []Config{{Scale: model.ScaleStandard, Nonlinear: true, Dim: 2},
		{Scale: model.ScaleStandard, Dim: 2, Applied: &preprocess.Applied{Spec: preprocess.Spec{Scale: model.ScaleRank},
			Inner: model.ScaleStandard}}} {
		p, err := frame.Prepare(t.Context(), data, true, false, &model.Report{})
		if err != nil {
			t.Fatal(err)
		}
		if c.Applied != nil {
			c.Applied.Rows = p
		}
		a, err := newSelection(t.Context(), p, c)
		if err != nil {
			t.Fatal(err)
		}
		a.candidates = slices.DeleteFunc(a.candidates, func(e *candidate) bool {
			return e.method.Name != "lda" && e.method.Name != "pca"
		})
		if _, err := a.rank(t.Context()); err != nil {
			t.Fatal(err)
		}
		pick, fold := frame.Folds(p, frame.MaxValidated, 3, 0)
		train, test := frame.HeldOut(pick, fold, 0)
		if scored := a.candidates[0].best().Scored; a.v.rows.N != len(pick) || len(train)+len(test) != len(pick) ||
			scored != len(pick) {
			t.Errorf("%d rows of %d are looked at, %d scored, not %d", a.v.rows.N, p.N, scored, len(pick))
		}
		if a.v.c.Applied != nil && a.v.c.Applied.Rows.N != len(pick) {
			t.Errorf("%d rows go through the steps before the fit", a.v.c.Applied.Rows.N)
		}
	}
}

// Of a blend's dimensions the largest is chosen unless another is better by two standard errors on the same rows; if
// it is every column, the smallest without a loss, one below half of the columns and 5 only if it wins. A linear
// classifier counts as much as neighbours. If as few as possible are asked for, it is the smallest that is not worse.
func TestDimensionOfABlend(t *testing.T) {
	const n = 40
	rows := func(right int) []int {
		out := make([]int, n)
		for i := range right {
			out[i] = 1
		}
		return out
	}
	for _, c := range []struct {
		what          string
		columns       int
		nearest, line [3]int // rows that are right at 2, 5 and 10
		want, fewest  int
	}{
		// where others agree, three rows are 1.8 standard errors, and four are 2.1
		{"four rows better", 60, [3]int{20, 34, 30}, [3]int{10, 20, 20}, 5, 5},
		{"three rows better", 60, [3]int{20, 33, 30}, [3]int{10, 20, 20}, 10, 5},
		{"as good", 60, [3]int{30, 30, 30}, [3]int{20, 20, 20}, 10, 2},
		{"better for neighbours, worse for lines", 60, [3]int{34, 30, 30}, [3]int{16, 20, 20}, 10, 2},
		{"better for lines", 60, [3]int{30, 30, 30}, [3]int{26, 24, 20}, 2, 2},
		{"every column, as good", 10, [3]int{30, 30, 30}, [3]int{20, 20, 20}, 5, 2},
		{"every column, few outputs as good", 4, [3]int{30, 30, 30}, [3]int{20, 20, 20}, 2, 2},
		{"every column, few outputs win", 10, [3]int{34, 30, 30}, [3]int{20, 20, 20}, 2, 2},
		{"every column, few win by luck", 10, [3]int{33, 30, 30}, [3]int{20, 20, 20}, 5, 2},
		{"every column, one row worse", 10, [3]int{30, 29, 30}, [3]int{20, 20, 20}, 10, 2},
		{"every column, worse for lines", 10, [3]int{30, 30, 30}, [3]int{10, 20, 20}, 5, 5},
		{"every column, all worse", 10, [3]int{10, 10, 30}, [3]int{10, 20, 20}, 10, 10},
	} {
		a := &selection{v: &validator{rows: &frame.Rows{N: n}}, total: &frame.Task{Columns: c.columns}}
		a.blend = &candidate{method: &blend.Method, dims: []int{2, 5, 10}}
		a.blend.reset(true)
		for i, d := range a.blend.dims {
			a.blend.nearestCounts[d], a.blend.linearCounts[d] = rows(c.nearest[i]), rows(c.line[i])
		}
		if d := a.chosenBlendDim(); d != c.want {
			t.Errorf("%s: %d outputs, want %d", c.what, d, c.want)
		}
		a.c.Fewest = true
		if d := a.chosenBlendDim(); d != c.fewest {
			t.Errorf("%s: %d outputs at fewest, want %d", c.what, d, c.fewest)
		}
	}
}

// If a blend cannot be computed, the best candidate is used.
func TestBlendOfHugeOutputs(t *testing.T) {
	huge := &frame.OutputPair{Train: []float64{1e200, -1e200, 1e200}, Test: []float64{1}, D: 1}
	p, err := frame.Prepare(t.Context(), fixture.Dataset(t, "iris"), true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := newSelection(t.Context(), p, Config{Dim: 1, Scale: model.ScaleStandard})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range a.candidates {
		e.outputs[0] = map[int]*frame.OutputPair{1: huge}
	}
	if err := a.makeBlend(t.Context()); err != nil || a.blend != nil || len(a.v.leftOut) != 1 ||
		!strings.HasPrefix(a.v.leftOut[0], "blend: ") {
		t.Errorf("error %v, blend %v, left out %v", err, a.blend, a.v.leftOut)
	}
}

// TestResultKeepsNoScratch: the memory that fits in folds and blends reused is not kept until the choice is fitted.
func TestResultKeepsNoScratch(t *testing.T) {
	p, err := frame.Prepare(t.Context(), fixture.Dataset(t, "iris"), true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSelection(t.Context(), p, Config{Dim: 2, Scale: model.ScaleStandard})
	if err != nil {
		t.Fatal(err)
	}
	ranked, err := s.rank(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if reflect.ValueOf(s.v.scratch).IsZero() || reflect.ValueOf(s.scratch).IsZero() {
		t.Fatal("nothing was reused")
	}
	s.result(t.Context(), ranked, time.Now())
	if !reflect.ValueOf(s.v.scratch).IsZero() || !reflect.ValueOf(s.scratch).IsZero() || s.v.intermediates != nil {
		t.Error("the result keeps the memory of fits")
	}
}

// Each choice has the table of all scores, beginning with its own.
func TestTableStartsWithTheChoice(t *testing.T) {
	p, err := frame.Prepare(t.Context(), fixture.Dataset(t, "iris"), true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), p, Config{Dim: 2, Blend: 3, Scale: model.ScaleStandard})
	if err != nil {
		t.Fatal(err)
	}
	if first := r.Blend.Scores[0]; first.Method != blend.Name || first.Dim != r.Blend.Dim {
		t.Errorf("the table of the blend begins with %+v", first)
	}
	for c := range r.Candidates {
		if first := c.Scores[0]; first.Method != c.Method || first.Dim != c.Dim || c.RunnerUp.Method == c.Method ||
			len(c.Scores) != len(r.ranked) {
			t.Errorf("%s at %d: %+v, runner-up %+v", c.Method, c.Dim, c.Scores, c.RunnerUp)
		}
	}
}

// TestContributions: what a member adds is the correct rows of the blend in one round less those without it.
func TestContributions(t *testing.T) {
	var some []int
	for i := 0; i < 990; i += 10 {
		some = append(some, i)
	}
	data := fixture.Dataset(t, "vowel").Subset(some)
	p, err := frame.Prepare(t.Context(), data, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	for _, dim := range []int{2, 0} { // 0 is auto
		s, err := newSelection(t.Context(), p, Config{Dim: dim, Blend: 3, Scale: model.ScaleStandard})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.rank(t.Context()); err != nil {
			t.Fatal(err)
		}
		d, members := 2, s.bestBlendable(3)
		if dim == 0 {
			if d = s.chosenBlendDim(); d == s.dims[0] {
				t.Errorf("auto has the first dimension, %d", d)
			}
		}
		correct := func(without int) (count int) {
			some := slices.Clone(members)
			if without >= 0 {
				some = slices.Delete(some, without, without+1)
			}
			s.eachFold(t.Context(), some, 0, func(fold *blend.Fold, train, test []int) {
				y, err := fold.Outputs(t.Context(), -1, d)
				if err != nil {
					t.Fatal(err)
				}
				count += len(y.Leading(d).Correct(t.Context(), s.v.rows, train, test))
			})
			return count
		}
		differ := false
		for i, m := range s.blend.members {
			if want := correct(-1) - correct(i); m.Adds != want {
				t.Errorf("of %d dimensions member %d adds %d, want %d", d, i, m.Adds, want)
			}
			differ = differ || m.Adds != 0
		}
		if len(s.blend.members) != 3 || !differ {
			t.Errorf("of %d members none adds anything", len(s.blend.members))
		}
	}
}

// TestChoiceWithoutScores: without scores the choice is lda if it has enough outputs, else pairacc, and pca without
// classes.
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

// TestNotesOfAChoice: a chosen dimension of all columns is noted; a given one is not.
func TestNotesOfAChoice(t *testing.T) {
	r := &Result{from: &selection{total: &frame.Task{Columns: 5}}, common: model.Choice{Chosen: "dim"}}
	score := model.Score{Method: "lda", Dim: 4, Scale: model.ScaleNone, Landmarks: 3, Width: 2}
	if c := r.choice(score); c.Note != "" || c.Chosen != "dim" || c.Method != "lda" || c.Dim != 4 || c.Landmarks != 3 ||
		c.Width != 2 || c.Scale != model.ScaleNone {
		t.Errorf("%+v", c)
	}
	score.Dim = 5
	if c := r.choice(score); c.Note != "5 outputs of 5 columns: on these rows every reduction loses" {
		t.Errorf("note %q", c.Note)
	}
	if r.from.c.Dim = 7; r.choice(score).Note != "" {
		t.Error("a given dimension has a note")
	}
}
