package choose

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// rightIn is 1 for rows from and to, of 100.
func rightIn(from, to int) []int {
	out := make([]int, 100)
	for i := from; i < to; i++ {
		out[i] = 1
	}
	return out
}

// TestPaired: the difference and its standard error, by hand.
func TestPaired(t *testing.T) {
	for _, c := range []struct {
		x, y            []int
		more, deviation float64
	}{
		{[]int{1, 1, 1, 1}, []int{0, 0, 0, 0}, 4, 0},
		{[]int{1, 0, 1, 0}, []int{0, 0, 0, 0}, 2, 1},
		{[]int{0, 0, 2, 0}, []int{0, 0, 0, 1}, 1, math.Sqrt(4 + 1 - 0.25)},
	} {
		if more, deviation := paired(c.x, c.y); more != c.more || !(math.Abs(deviation-c.deviation) <= 1e-12) {
			t.Errorf("%v against %v: %g ± %g, want %g ± %g", c.x, c.y, more, deviation, c.more, c.deviation)
		}
	}
	x, y := []int{1, 0, 1, 0}, []int{0, 0, 0, 0} // two standard errors
	if !isAhead(x, y, 1.99) || isAhead(x, y, 2) || isAhead(x, x, 0) || isAhead(y, x, 0) {
		t.Error("two standard errors are not between 1.99 and more than 2")
	}
}

// TestSmallerDimensions: a dimension of at least 5 and half of the columns is preferred if it loses no row, one of
// fewer only if it wins by two standard errors.
func TestSmallerDimensions(t *testing.T) {
	for _, c := range []struct {
		dim, columns int
		ahead, loses int // rows
		want         bool
	}{
		{5, 20, 0, 0, true}, {5, 20, 0, 1, false}, {5, 20, 1, 1, true}, {4, 20, 0, 0, false},
		{4, 20, 5, 0, true}, {4, 20, 3, 0, false}, // of 5 rows, 2.3 standard errors; of 3 rows, 1.8
		{4, 8, 0, 0, true}, {4, 9, 0, 0, true}, {4, 10, 0, 0, false}, {3, 8, 0, 0, false},
	} {
		e := &candidate{method: method.Table[0], dims: []int{c.dim, 20}}
		e.reset(false)
		e.nearestCounts[20], e.nearestCounts[c.dim] = rightIn(0, 50), rightIn(c.loses, 50+c.ahead)
		if got := withoutLoss(e, 20, c.columns, 100); (got == c.dim) != c.want {
			t.Errorf("%+v: dimension %d", c, got)
		}
	}
	// The smallest that is not worse by half a standard error: two rows lost are 1.4 of them.
	e := &candidate{method: method.Table[0], dims: []int{2, 3, 20}}
	e.reset(false)
	e.nearestCounts[20], e.nearestCounts[3], e.nearestCounts[2] = rightIn(0, 50), rightIn(0, 50), rightIn(2, 50)
	if got := smallest(e, 20, 100); got != 3 {
		t.Errorf("the smallest is %d", got)
	}
}

// TestMembersOfABlend: candidates more than three standard errors behind the best are left out, and of each method and
// preprocessing the best is taken.
func TestMembersOfABlend(t *testing.T) {
	s := &selection{v: &validator{rows: &frame.Rows{N: 100}}, total: &frame.Task{Columns: 20}, dims: []int{2},
		scales: []model.Scale{model.ScaleStandard}}
	add := func(name string, spec preprocess.Spec, from, to int) {
		m, err := method.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		e := &candidate{method: m, spec: spec, dims: s.dims}
		e.reset(true)
		e.nearestCounts[2] = rightIn(from, to)
		e.score[2].Correct, e.score[2].Scored = float64(to-from), 100
		s.candidates = append(s.candidates, e)
	}
	wide := preprocess.Spec{Landmarks: 300, Width: 4}
	narrow := preprocess.Spec{Landmarks: 300, Width: 1}
	add("pca", preprocess.Spec{}, 0, 80)
	add("lda", preprocess.Spec{}, 0, 72)   // 8 rows are 2.9 standard errors
	add("mfa", preprocess.Spec{}, 0, 70)   // 10 rows are 3.3
	add("pca", preprocess.Spec{}, 0, 79)   // another setting
	add("ksmpa", preprocess.Spec{}, 0, 90) // no member
	add("lda", wide, 0, 78)
	add("mfa", wide, 0, 77)
	add("mfa", narrow, 0, 76)
	all := s.bestBlendable(100)
	var names []string
	for _, e := range all {
		names = append(names, fmt.Sprintf("%s %g %g", e.method.Name, e.spec.Width, e.best().Correct))
	}
	if want := []string{"pca 0 80", "lda 4 78", "mfa 4 77", "lda 0 72", "mfa 0 70"}; !slices.Equal(names, want) {
		t.Errorf("members are chosen from %v, want %v", names, want)
	}
	if n := len(s.bestBlendable(2)); n != 2 {
		t.Errorf("%d of 2 candidates", n)
	}
	if kept := notBehind(all, 100); len(kept) != 4 || kept[3] != s.candidates[1] {
		t.Errorf("%d of the five are kept", len(kept))
	}
	if kept := notBehind(nil, 100); len(kept) != 0 {
		t.Errorf("%d of none are kept", len(kept))
	}
}

// TestSimilarMembers: of more than 500 rows, a member whose outputs in every fold are similar to those of its method at
// an earlier scale is replaced by the member of that scale.
func TestSimilarMembers(t *testing.T) {
	members := func(rows int) (names []string) {
		p := &frame.Rows{N: rows, Classes: []string{"a", "b"}}
		for i := range rows {
			p.Y = append(p.Y, i%2)
		}
		s := &selection{v: &validator{rows: p}, c: Config{Dim: 1}, total: &frame.Task{Columns: 20}, dims: []int{1},
			scales: []model.Scale{model.ScaleStandard, model.ScaleNone, model.ScaleMinMax}}
		outputs := func(n int, other float64) (y []float64) { // two uncorrelated columns, the second times other
			for i := range n {
				y = append(y, float64(i%2*2-1)+other*float64(i/2%2*2-1))
			}
			return y
		}
		add := func(name string, scale model.Scale, others ...float64) {
			m, err := method.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			e := &candidate{method: m, spec: preprocess.Spec{Scale: scale}, dims: s.dims}
			e.reset(true)
			e.nearestCounts[1], e.score[1].Scored = make([]int, rows), rows
			for round := range s.v.rounds() {
				pick, deal := frame.Folds(p, rows, folds, round)
				for f, other := range others {
					train, test := frame.HeldOut(pick, deal, f)
					e.outputs[folds*round+f] = map[int]*frame.OutputPair{1: {Train: outputs(len(train), other),
						Test: outputs(len(test), other), D: 1}}
				}
			}
			s.candidates = append(s.candidates, e)
		}
		add("pca", model.ScaleMinMax, 0.06, 0.06, 0.06) // similar by 1 / (1 + 0.06^2), 0.9964
		add("pca", model.ScaleNone, 0, 0, 0.1)          // 0.99 in one fold
		add("pca", model.ScaleStandard, 0, 0, 0)
		add("lda", model.ScaleStandard, 0.1, 0.1, 0.1)
		add("lda", model.ScaleMinMax, 0, 0, 0)
		add("mfa", model.ScaleMinMax, 0.12, 0.12, 0.12) // similar to none by 0.9964, to standard by 0.986
		add("mfa", model.ScaleNone, 0.06, 0.06, 0.06)
		add("mfa", model.ScaleStandard, 0, 0, 0)
		if err := s.makeBlend(t.Context()); err != nil || s.blend == nil {
			t.Fatal("no blend", err)
		}
		for _, m := range s.blend.members {
			names = append(names, m.Method+" "+string(m.Scale))
		}
		return names
	}
	want := []string{"pca standard", "pca none", "pca standard", "lda standard", "lda minmax", "mfa minmax",
		"mfa standard", "mfa standard"}
	if got := members(501); !slices.Equal(got, want) {
		t.Errorf("of 501 rows the members are %q, want %q", got, want)
	}
	want[0], want[6] = "pca minmax", "mfa none"
	if got := members(500); !slices.Equal(got, want) {
		t.Errorf("of 500 rows the members are %q", got)
	}
}

// TestPerfectCandidates: candidates with all rows correct are not tried with other parameters, unless a linear
// classifier counts too.
func TestPerfectCandidates(t *testing.T) {
	d := fixture.Synthetic(5, 60, 4, 2)
	for i, y := range d.Y {
		d.X[i*d.M] += 1e3 * float64(y)
	}
	p, err := frame.Prepare(t.Context(), d, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	for dim, want := range map[int]bool{4: false, 3: true} {
		s, err := newSelection(t.Context(), p, Config{Scale: model.ScaleNone, Dim: dim})
		if err != nil {
			t.Fatal(err)
		}
		ranked, err := s.rank(t.Context())
		if err != nil || ranked[0].Correct != float64(ranked[0].Scored) {
			t.Fatalf("%+v, %v", ranked, err)
		}
		if got := slices.ContainsFunc(s.candidates, func(e *candidate) bool { return e.base != nil }); got != want {
			t.Errorf("with %d outputs other parameters are tried: %v", dim, got)
		}
	}
}

// TestRivals: with up to 3 outputs the best kernel method and all others are compared with a blend, each at its best
// dimension; with more only the kernel method.
func TestRivals(t *testing.T) {
	for dim, want := range map[int][]int{3: {0, 1, 3, 4, 5, 6, 7}, 4: {0}, 0: {0}} {
		s := &selection{v: &validator{}, c: Config{Dim: dim}}
		var ranked []model.Score
		for _, name := range []string{"ksmpa", "pca", "pca", "lda", "mfa", "dla", "lfda", "lpp", "lenews"} {
			m, err := method.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			if len(ranked) != 2 {
				e := &candidate{method: m, dims: []int{2, 5}}
				e.reset(true)
				s.candidates = append(s.candidates, e)
			}
			ranked = append(ranked, model.Score{Method: name, Dim: map[bool]int{true: 5, false: 2}[len(ranked) == 2]})
		}
		if got := s.rivals(ranked); !slices.Equal(got, want) {
			t.Errorf("%d outputs: %v, want %v", dim, got, want)
		}
	}
}

// TestRoundsOfFewRows: up to 500 rows are dealt to 3 folds four times, more once, and each row is scored once a round.
func TestRoundsOfFewRows(t *testing.T) {
	for rows, want := range map[int]int{9: 4, 500: 4, 501: 1} {
		if got := (&validator{rows: &frame.Rows{N: rows}}).rounds(); got != want {
			t.Errorf("%d rows: %d rounds, want %d", rows, got, want)
		}
	}
	d := fixture.Synthetic(3, 30, 3, 2)
	p, err := frame.Prepare(t.Context(), d, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	fits := 0
	own := *method.Table[0]
	inner := own.Fit
	own.Fit = func(ctx context.Context, t *frame.Task) *frame.Solution { fits++; return inner(ctx, t) }
	e := &candidate{method: &own, params: map[string]string{"whiten": "false"}, dims: []int{2}}
	e.reset(true)
	v := &validator{c: Config{Method: &own}, rows: p, single: true}
	if err := v.run(t.Context(), []*candidate{e}); err != nil || fits != 12 || e.score[2].Scored != 120 {
		t.Errorf("%d fits, %d scored rows, %v", fits, e.score[2].Scored, err)
	}
}

// TestFirstOfARanking: moving one to the front keeps the order of the others, and the runner-up is of another method.
func TestFirstOfARanking(t *testing.T) {
	ranked := []model.Score{{Method: "a", Dim: 1}, {Method: "b", Dim: 1}, {Method: "b", Dim: 2}, {Method: "c", Dim: 1}}
	moved := withFirst(ranked, model.Score{Method: "b"}, 2)
	if moved[0].Method != "b" || moved[0].Dim != 2 || moved[1].Method != "a" ||
		moved[2].Dim != 1 || moved[3].Method != "c" || ranked[0].Method != "a" {
		t.Errorf("%v", moved)
	}
	if r := runnerUp(moved, true); r.Method != "a" {
		t.Errorf("the runner-up of another method is %+v", *r)
	}
	if r := runnerUp(moved[:1], true); r != nil {
		t.Errorf("the runner-up of one is %+v", *r)
	}
	same := []model.Score{{Method: "b", Dim: 2}, {Method: "b", Dim: 1}}
	if r := runnerUp(same, false); r == nil || r.Dim != 1 || runnerUp(same, true) != nil {
		t.Errorf("the runner-up of a given method is %+v", r)
	}
}

// TestWhatAutoTries: auto tries the dimensions, the landmarks and the number of refined candidates that docs/methods.md
// names, and settings on four folds.
func TestWhatAutoTries(t *testing.T) {
	d := fixture.Synthetic(5, 40, 24, 3)
	p, err := frame.Prepare(t.Context(), d, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSelection(t.Context(), p, Config{Scale: model.ScaleStandard, Nonlinear: true})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{2, 5, 10, 20}; !slices.Equal(s.dims, want) {
		t.Errorf("dimensions %v, want %v", s.dims, want)
	}
	kernels := map[preprocess.Spec]bool{}
	for _, e := range s.candidates {
		if e.spec.Landmarks > 0 {
			kernels[preprocess.Spec{Landmarks: e.spec.Landmarks, Width: e.spec.Width}] = true
		}
	}
	if len(kernels) != 3 || !kernels[preprocess.Spec{Landmarks: 300, Width: 0.25}] {
		t.Errorf("kernels %v", kernels)
	}
	if s, err = newSelection(t.Context(), p, Config{Scale: model.ScaleAuto, Dim: 2}); err != nil {
		t.Fatal(err)
	}
	before := len(s.candidates)
	if _, err := s.rank(t.Context()); err != nil {
		t.Fatal(err)
	}
	refined := map[string]bool{}
	for _, e := range s.candidates[before:] {
		refined[e.method.Name+string(e.spec.Scale)] = true
	}
	if len(refined) != 5 {
		t.Errorf("%d candidates are refined, want 5: %v", len(refined), refined)
	}
	calls := 0
	settings := Settings{Method: &frame.Method{}, All: []map[string]string{{}, {"ridge": "1"}},
		Scale: model.ScaleStandard, Progress: func(float64) { calls++ }}
	if settings.Method, err = method.Find("lda"); err != nil {
		t.Fatal(err)
	}
	settings.All[0]["ridge"] = "0.1"
	if _, err := settings.Rank(t.Context(), p, []int{1}); err != nil || calls != 4*len(settings.All) {
		t.Errorf("%d fits of %d settings, %v", calls, len(settings.All), err)
	}
}

// TestTiedCandidates: of candidates with equally many correct rows one with more outputs comes first, then the earlier
// one.
func TestTiedCandidates(t *testing.T) {
	scores := []model.Score{{Method: "a", Dim: 2, Correct: 7}, {Method: "b", Dim: 5, Correct: 7},
		{Method: "c", Dim: 5, Correct: 7}, {Method: "d", Dim: 1, Correct: 8}}
	slices.SortStableFunc(scores, compareScores)
	order := ""
	for _, s := range scores {
		order += s.Method
	}
	if order != "dbca" {
		t.Errorf("the order is %s", order)
	}
}
