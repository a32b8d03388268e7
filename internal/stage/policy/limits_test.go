package policy

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/plugin/spec"
)

// near reports whether two numbers are equal but for rounding; false for NaN.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

func TestGrown(t *testing.T) {
	for _, c := range []struct {
		rows, live int
		effect     float64
		want       bool
	}{
		{298, 249, 1, false}, {299, 249, 1, true}, {374, 250, 1, false}, {375, 250, 1, true},
		{1498, 999, 1, false}, {1499, 999, 1, true}, {3999, 1000, 1, false}, {4000, 1000, 1, true},
		{1500, 1000, 2, true}, {100, 0, 1, false},
	} {
		if Grown(c.rows, c.live, c.effect) != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
}

// TestNewClassHasHalfAFairShare: and the candidate has at least half of the live model's rows.
func TestNewClassHasHalfAFairShare(t *testing.T) {
	for _, c := range []struct {
		count, liveRows int
		want            bool
	}{{25, 100, true}, {24, 100, false}, {25, 200, true}, {25, 201, false}} {
		got := HasNewClass(100, []string{"new", "known"}, []int{c.count, 100 - c.count}, c.liveRows, []string{"known"})
		if got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestRecentRows: agreements are of the last 500 to 1,000 rows.
func TestRecentRows(t *testing.T) {
	var a Agreement
	for n := 1; n <= 3000; n++ {
		a.Add(1, "a", "a")
		want := float64(n)
		if n > 1000 {
			want = float64(500 + (n-1)%500 + 1)
		}
		if got := a.Last.Rows + a.Before.Rows; got != want {
			t.Fatalf("after %d rows an agreement is of %v, want %v", n, got, want)
		}
	}
}

// TestAboveChance: an agreement is above chance with 20 rows, and by three standard errors.
func TestAboveChance(t *testing.T) {
	for _, c := range []struct {
		rows, right int
		want        bool
	}{{18, 18, false}, {20, 20, true}, {100, 65, false}, {100, 66, true}, {400, 229, false}, {400, 231, true}} {
		half := float64(c.rows) / 2
		both := map[string]float64{"a": half, "b": half}
		a := Agreement{Last: Confusion{Rows: float64(c.rows), Right: float64(c.right), True: both, Predicted: both}}
		if !near(a.Chance(), 0.5) || a.AboveChance() != c.want {
			t.Errorf("%+v: chance %v, above it: %v", c, a.Chance(), a.AboveChance())
		}
	}
}

// TestScoresAreForgotten: after 3,000 rows a score has 1/e of its weight, and it needs a weight of 250 rows.
func TestScoresAreForgotten(t *testing.T) {
	s := RuleAverage{Weight: 1, Sum: 1}
	s.add(make([]float64, 3000), make([]float64, 3000), make([]evidence.Row, 3000))
	if !(math.Abs(s.Sum-1/math.E) <= 1e-3) {
		t.Errorf("after 3,000 rows a score has %.4f of its weight", s.Sum)
	}
	for weight, want := range map[float64]float64{249: 0, 250: 0.1} {
		if got := (&RuleAverage{Weight: weight, Sum: weight / 10}).mean(); !near(got, want) {
			t.Errorf("a score of weight %v is %v, want %v", weight, got, want)
		}
	}
}

// certain is the evidence of a pair of rules, in logarithms of capital.
func certain(size, other int, log float64) RulePair {
	p := RulePair{Size: size, Other: other}
	for i := range p.Test.Logs {
		p.Test.Logs[i] = log
	}
	return p
}

func score(size int, mean float64) RuleAverage { return RuleAverage{size, 1000, 1000 * mean} }

// TestBehind: the door for more rows closes at a lead of a quarter of a percentage point of a shorter suffix.
func TestBehind(t *testing.T) {
	for _, c := range []struct {
		size int
		lead float64
		want bool
	}{{0, 0.0024, false}, {0, 0.0026, true}, {1000, 0.0026, true}, {500, 0.0026, false}} {
		r := Rules{Averages: []RuleAverage{score(0, 0.01), score(1000, 0.01), score(500, 0.01+c.lead)}}
		if r.IsBehind(c.size) != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
	if r := (Rules{Followed: 500}); !r.IsBehind(0) {
		t.Error("a stage that follows a suffix is not behind")
	}
}

// TestShownBehind: a candidate takes the place of an early model unless odds of 3 show that a shorter suffix is better.
func TestShownBehind(t *testing.T) {
	for _, c := range []struct {
		size, against int
		odds          float64
		want          bool
	}{{0, 0, 3.1, true}, {0, 0, 2.9, false}, {1000, 1000, 3.1, true}, {1000, 0, 3.1, false}, {250, 250, 3.1, false}} {
		r := Rules{Averages: []RuleAverage{score(0, 0.01), score(1000, 0.01), score(500, 0.05)}}
		pair := r.pair(spec.Gate{}, 500, c.against)
		for i := range pair.Test.Logs {
			pair.Test.Logs[i] = math.Log(c.odds)
		}
		if r.IsShownBehind(c.size) != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
	if r := (Rules{Followed: 500}); !r.IsShownBehind(0) {
		t.Error("a stage that follows a suffix is not behind")
	}
}

// TestFollowedSuffix: following begins with the best suffix that is certainly better than the whole window and than the
// live model, of at most half of the window, and changes for a gain of 0.3 percentage points.
func TestFollowedSuffix(t *testing.T) {
	g := spec.Gate{Evidence: 100} // following needs odds of 10
	over, under := math.Log(10.1), math.Log(9.9)
	enough, tooLittle := math.Log(math.Sqrt(10.1)), math.Log(math.Sqrt(9.9))
	for name, c := range map[string]struct {
		rules Rules
		rows  int
		want  int
	}{
		"begins":           {Rules{Pairs: []RulePair{certain(500, 0, enough), certain(500, liveModel, over)}}, 1000, 500},
		"is not sure":      {Rules{Pairs: []RulePair{certain(500, 0, enough), certain(500, liveModel, under)}}, 1000, 0},
		"is no better":     {Rules{Pairs: []RulePair{certain(500, 0, tooLittle), certain(500, liveModel, over)}}, 1000, 0},
		"has no room":      {Rules{Pairs: []RulePair{certain(500, 0, enough), certain(500, liveModel, over)}}, 999, 0},
		"gains 0.1":        {Rules{Followed: 250, Pairs: []RulePair{certain(500, 0, enough)}}, 1000, 500},
		"gains too little": {Rules{Followed: 125, Pairs: []RulePair{certain(500, 0, enough)}}, 1000, 125},
		"is shorter":       {Rules{Followed: 2000, Pairs: []RulePair{certain(500, 0, enough)}}, 1000, 500},
	} {
		c.rules.Averages = []RuleAverage{score(500, 0.0201), score(250, 0.0170), score(125, 0.0172), score(2000, 0.0200)}
		c.rules.Choose(g, c.rows)
		if c.rules.Followed != c.want {
			t.Errorf("%s: follows %d, want %d", name, c.rules.Followed, c.want)
		}
	}
}

// TestFollowingIsDue: a model of the followed suffix is fitted and goes live after an eighth of it, at least 250 rows.
func TestFollowingIsDue(t *testing.T) {
	for followed, rows := range map[int]int{250: 250, 1000: 250, 2000: 250, 4000: 500} {
		r := Rules{Followed: followed, SwappedAt: 100}
		if r.FollowingDue(100+rows-1) || !r.FollowingDue(100+rows) {
			t.Errorf("a suffix of %d rows is not due after %d", followed, rows)
		}
		p := Schedule{Config: Config{Features: 10, Nested: true}}
		if got := p.refitRows(followed, followed, followed); got != min(rows, followed/4) {
			t.Errorf("a suffix of %d rows is fitted after %d", followed, got)
		}
		p.Features = 256
		if got := p.refitRows(followed, followed, followed); got != 2048 {
			t.Errorf("a suffix of %d rows of 256 features is fitted after %d", followed, got)
		}
	}
}

// TestEvidenceIsCapped: for a rule at ten times what following needs, and that a model beats chance at 40.
func TestEvidenceIsCapped(t *testing.T) {
	g := spec.Gate{Evidence: 100}
	var r Rules
	var s Sensitivity
	ones, zeros := []float64{1}, []float64{0}
	row := evidence.Row{NewRun: true}
	for range 2000 {
		r.Add(g, []RuleOutcomes{{0, zeros}, {500, ones}}, zeros, []evidence.Row{row})
		s.Add(1, 0.5, row)
	}
	if got := r.evidence(500, liveModel); !near(got, 100) {
		t.Errorf("the evidence for a rule is %v, want 100", got)
	}
	if got := s.Test.Value(); !near(got, 40) || !near(s.Test.Margin, 0.05) {
		t.Errorf("the evidence against chance is %v with margin %v, want 40 with 0.05", got, s.Test.Margin)
	}
	for value, want := range map[float64]bool{19.9: false, 20.1: true} {
		if s := (Sensitivity{certain(0, 0, math.Log(value)).Test}); s.BeatsChance() != want {
			t.Errorf("evidence of %v beats chance: %v", value, !want)
		}
	}
}

// TestSuspectRows: labels are suspect after 500 effective rows without a model that beats chance, of which a run counts
// at most eight.
func TestSuspectRows(t *testing.T) {
	for name, c := range map[string]struct {
		row  func(n int) evidence.Row
		want int
	}{
		"independent rows":   {func(int) evidence.Row { return evidence.Row{NewRun: true} }, 500},
		"design effect of 2": {func(int) evidence.Row { return evidence.Row{NewRun: true, Effect: 2} }, 1000},
		"runs of 100 rows":   {func(n int) evidence.Row { return evidence.Row{NewRun: n%100 == 0} }, 6204},
	} {
		var s Suspicion
		n := 0
		for ; n < 100_000 && !s.IsRaised(); n++ {
			s.Add([]evidence.Row{c.row(n)}, false, false)
		}
		if n != c.want {
			t.Errorf("%s: suspect after %d rows, want %d", name, n, c.want)
		}
	}
	s := Suspicion{Rows: 499.5}
	if s.Add([]evidence.Row{{NewRun: true}}, false, true) || s.Rows != 499 {
		t.Errorf("a model that agrees leaves %v rows", s.Rows)
	}
	s = Suspicion{Rows: 600}
	if !s.Add([]evidence.Row{{NewRun: true}}, true, false) || s.Rows != 0 {
		t.Errorf("a model that beats chance leaves %v rows", s.Rows)
	}
}

// TestFirstRows: a first model needs 250 rows, five for each feature, or four for each landmark; fewer if the window or
// the period of fits is shorter.
func TestFirstRows(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   int
	}{
		{Config{Features: 50}, 250}, {Config{Features: 51}, 255}, {Config{Features: 500, Landmarks: 300}, 1200},
		{Config{Features: 5, Landmarks: 60}, 250}, {Config{Features: 100, Every: spec.Every{Rows: 499}}, 499},
		{Config{Features: 100, MaxRows: 498}, 498},
	} {
		p := Schedule{Config: c.config}
		if got := p.FirstRows(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.config, got, c.want)
		}
	}
	// While classes come, or if labels come in runs, it waits, for at most three times the rows.
	for _, c := range []struct {
		learned, class int
		inRuns, want   bool
	}{{249, 0, false, false}, {250, 0, false, true}, {250, 126, false, false}, {250, 125, false, true},
		{749, 700, false, false}, {750, 700, false, true}, {749, 0, true, false}, {750, 0, true, true}} {
		p := Schedule{Config: Config{Features: 10}, Learned: c.learned, NewestClassAt: c.class}
		if p.FirstDue(c.learned, c.inRuns) != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
}

// TestSuffixes: suffixes have 250 rows times a power of two, at least as many as columns, and at most three quarters of
// the window.
func TestSuffixes(t *testing.T) {
	for _, c := range []struct {
		features, rows int
		want           []int
	}{
		{10, 250, []int{0}}, {10, 333, []int{0}}, {10, 334, []int{0, 250}}, {10, 1000, []int{0, 500, 250}},
		{250, 1000, []int{0, 500, 250}}, {251, 1000, []int{0, 500}}, {10, 4000, []int{0, 2000, 1000, 500, 250}},
	} {
		p := Schedule{Config: Config{Features: c.features, Nested: true}}
		if got := p.Sizes(c.rows); !slices.Equal(got, c.want) {
			t.Errorf("%d features, %d rows: %v, want %v", c.features, c.rows, got, c.want)
		}
	}
}

// TestRefits: a suffix is fitted again when a quarter of it is new, a small window when a fifth is, or as many rows as
// cost as much to score as the fit; for a method that needs the rows, when half of it is.
func TestRefits(t *testing.T) {
	for _, c := range []struct {
		config     Config
		size, rows int
		want       int
	}{
		{Config{Features: 10, Nested: true}, 0, 1000, 200}, {Config{Features: 10, Nested: true}, 0, 100, 32},
		{Config{Features: 10, Nested: true}, 500, 1000, 250}, {Config{Features: 10, Nested: true}, 0, 2000, 400},
		{Config{Features: 10, Nested: true}, 0, 2040, 410},
		{Config{Features: 256, Nested: true}, 0, 1000, 2048}, {Config{Features: 10}, 500, 500, 250},
		{Config{Features: 10}, 0, 1000, math.MaxInt},
	} {
		p := Schedule{Config: c.config}
		if got := p.refitRows(c.size, c.rows, 0); got != c.want {
			t.Errorf("%+v: %d, want %d", c, got, c.want)
		}
	}
	// A candidate needs 64 rows, and as many as it has columns.
	for _, c := range []struct {
		features, rows int
		want           bool
	}{{10, 63, false}, {10, 64, true}, {100, 99, false}, {100, 100, true}} {
		p := Schedule{Config: Config{Features: c.features, Nested: true}, Learned: c.rows}
		if got := slices.Contains(p.Due(c.rows, 0), 0); got != c.want {
			t.Errorf("%d features: %d rows are due: %v", c.features, c.rows, got)
		}
	}
}

// TestClassIsDue: the whole window is fitted again for its newest class when the rows since it came have doubled, are
// at least 64 and as many as the features, and at most a quarter of the window.
func TestClassIsDue(t *testing.T) {
	for _, c := range []struct {
		features, since, at, rows int
		nested, want              bool
	}{
		{10, 63, 0, 1000, true, false}, {10, 64, 0, 1000, true, true}, {10, 250, 0, 1000, true, true},
		{10, 251, 0, 1000, true, false}, {10, 199, 100, 1000, true, false}, {10, 200, 100, 1000, true, true},
		{100, 99, 0, 1000, true, false}, {100, 100, 0, 1000, true, true}, {10, 62, 0, 1000, false, true},
		{10, 61, 0, 1000, false, false},
	} {
		p := Schedule{Config: Config{Features: c.features, Nested: c.nested}, NewestClassAt: 5000, Learned: 5000 + c.since}
		if got := p.classDue(SuffixFit{At: 5000 + c.at}, c.rows); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestRareEvents: auto chooses again at four times the rows, and a checkpoint is due every 2,500.
func TestRareEvents(t *testing.T) {
	for rows, want := range map[int]bool{399: false, 400: true} {
		p := Schedule{ChosenFrom: 100}
		if p.ChoiceDue(rows) != want {
			t.Errorf("a choice is due at %d rows: %v", rows, !want)
		}
	}
	for rows, want := range map[int]bool{2499: false, 2500: true} {
		p := Schedule{Config: Config{Nested: true}, CheckpointAt: 1000, Learned: 1000 + rows}
		if p.CheckpointDue() != want {
			t.Errorf("a checkpoint is due after %d rows: %v", rows, !want)
		}
	}
	p := Schedule{Config: Config{Features: 10, Nested: true}, Learned: 100_000}
	p.Cut(300)
	if got := fmt.Sprint(p.Learned, p.ChosenFrom, p.ChoiceDue(249), p.ChoiceDue(250)); got != "300 62 true true" {
		t.Errorf("after a cut: %s", got)
	}
}
