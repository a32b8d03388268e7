package policy

import (
	"math"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/plugin/spec"
)

// TestHasNewClass: new classes count if they have together half of the fair share of one class, in at least half of the
// live model's rows. With fewer rows, such as a few wrong labels, they count only in half as many more rows than those
// of the live model.
func TestHasNewClass(t *testing.T) {
	known := []string{"c0", "c1", "c2"}
	if classes := append([]string{"one", "another"}, known...); !HasNewClass(300, classes, []int{15, 15, 90, 90, 90}, 300,
		known) || HasNewClass(300, classes, []int{15, 14, 90, 90, 91}, 300, known) {
		t.Error("of two new classes both count")
	}
	for _, c := range []struct {
		name   string
		rows   int
		fourth int // rows of a class that is new
		want   bool
	}{
		{"a full share", 400, 100, true},
		{"half of one", 400, 50, true},
		{"less", 400, 49, false},
		{"far fewer rows than the live model has", 140, 35, false},
		{"one row, in half as many more rows", 450, 1, true},
		{"one row, in fewer", 449, 1, false},
		{"no further class", 300, 0, false},
		{"no further class, in half as many more rows", 450, 0, false},
	} {
		classes, counts := known, []int{100, 100, 100}
		if c.fourth > 0 {
			classes, counts = append([]string{"a new one"}, known...), append([]int{c.fourth}, counts...)
		}
		if got := HasNewClass(c.rows, classes, counts, 300, known); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// TestEarlyModels: a model from few effective rows, or of few of the classes, is replaced by one from a fifth more
// rows, or with a new class, unless that is shown to be worse or odds are
// configured; dependent rows count less.
func TestEarlyModels(t *testing.T) {
	s := Schedule{Config: Config{Features: 10}}
	for _, c := range []struct {
		rows                 int
		effect               float64
		classes, established int
		changed              bool
		want                 float64
	}{
		{249, 1, 2, 2, false, 0.25}, {250, 1, 2, 2, false, 3}, {499, 1, 2, 2, false, 3}, {500, 1, 2, 2, false, 0},
		{2499, 10, 2, 2, false, 0.25}, {2500, 10, 2, 2, false, 3}, {5000, 10, 2, 2, false, 0},
		{249, 1, 2, 2, true, 3}, {250, 1, 2, 2, true, 0},
		{2500, 1, 3, 5, false, 0}, {2500, 1, 3, 6, false, 0.25}, {2500, 1, 3, 6, true, 0}, {2500, 1, 0, 0, false, 0},
	} {
		if got := s.EarlyOdds(c.rows, c.effect, c.classes, c.established, c.changed); got != c.want {
			t.Errorf("%+v: odds of %g", c, got)
		}
	}
	for _, c := range []struct {
		rows, live int
		effect     float64
		want       bool
	}{{3999, 2000, 2, false}, {2999, 1999, 2, true}, {2998, 1999, 2, false}, {2999, 2499, 10, true},
		{2998, 2499, 10, false}, {3749, 2500, 10, false}} {
		if got := Grown(c.rows, c.live, c.effect); got != c.want {
			t.Errorf("%d rows for a model of %d, design effect %g: %t", c.rows, c.live, c.effect, got)
		}
	}
	inf := math.Inf(1)
	for _, c := range []struct {
		gate spec.Gate
		door string
		want float64
	}{
		{spec.Gate{Evidence: 1e4}, DoorMoreRows, 0.25},
		{spec.Gate{Evidence: 1e4, MoreRows: 50}, DoorMoreRows, 50},
		{spec.Gate{Evidence: 1e4, MoreRows: inf}, DoorMoreRows, inf},
		{spec.Gate{Evidence: inf}, DoorMoreRows, inf},
		{spec.Gate{Evidence: 1e4}, DoorNewClass, 0.25},
		{spec.Gate{Evidence: 1e4, NewClass: 50}, DoorNewClass, 50},
		{spec.Gate{Evidence: 1e4}, DoorBetter, 1e4},
	} {
		if got := (&Comparison{Door: c.door, EarlyOdds: 0.25}).Required(c.gate); got != c.want {
			t.Errorf("%+v: door %s needs %g, want %g", c.gate, c.door, got, c.want)
		}
	}
	g := spec.Gate{Evidence: 1000}
	for _, runs := range []int{3, 4} { // rows of one run say little: eight of each count
		one := Comparison{Door: DoorMoreRows, EarlyOdds: 0.25}
		for i := range 20 * runs {
			one.Test.AddRow(0, evidence.Row{NewRun: i%20 == 0})
		}
		if pass, reason := Passes(g, &one, nil); pass != (runs == 4) {
			t.Errorf("judged by %d runs of 20 rows: %t: %s", runs, pass, reason)
		}
	}
	for _, c := range []struct {
		rows            int
		evidence        float64
		candidate, live bool
		want            bool
	}{
		{31, 10, true, true, false},
		{32, 0.25, true, true, true},
		{32, 0.24, true, true, false},
		{32, 1, true, false, true},
		{32, 1, false, true, true},
		{32, 1, false, false, false},
	} {
		held := Comparison{Door: DoorMoreRows, EarlyOdds: 0.25, HeldOut: HeldOut{Evidence: c.evidence, Rows: c.rows,
			CandidateBeats: c.candidate, LiveBeats: c.live}}
		held.Test.Logs = [5]float64{-9, -9, -9, -9, -9}
		pass, reason := Passes(g, &held, &Standing{Agreement: &Agreement{}})
		if pass != c.want || pass && !strings.Contains(reason, "the live model is early") {
			t.Errorf("%+v in place of an early model: %t: %s", c, pass, reason)
		}
		held.Test.Logs = [5]float64{} // no row has judged it since it was fitted
		if pass, reason := Passes(g, &held, &Standing{Agreement: &Agreement{}}); pass != c.want {
			t.Errorf("%+v before newer rows: %t: %s", c, pass, reason)
		}
	}
}

// TestNearestContradicts: a candidate whose share of the nearest references is higher, and whose nearest one is right
// far less often, stays a candidate; one that is right as often goes live.
func TestNearestContradicts(t *testing.T) {
	gate, right := spec.Gate{Evidence: 1000}, Agreement{}
	for i := range 100 {
		right.Add(1, []string{"a", "b"}[i%2], []string{"a", "b"}[i%2])
	}
	for _, lost := range []bool{false, true} {
		c := NewComparison(gate, DoorMoreRows)
		for i := range 100 {
			c.Test.Add(0.3)
			if lost && i%5 < 2 {
				c.Nearest.Add(-1)
			} else {
				c.Nearest.Add(0)
			}
		}
		c.Nearest.Forget()
		held := Comparison{Door: DoorMoreRows, HeldOut: HeldOut{Evidence: 40, Rows: 100, Nearest: c.Nearest.Value()}}
		for _, c := range []*Comparison{&c, &held} {
			if pass, why := Passes(gate, c, &Standing{CandidateBeats: true, LiveBeats: true, Agreement: &right}); pass == lost {
				t.Errorf("lost %v: %v, %s", lost, pass, why)
			}
		}
	}
}

// capital is a test whose bettors have this capital, from some rows.
func capital(value float64, rows int) (t evidence.SequentialTest) {
	for i := range t.Logs {
		t.Logs[i] = math.Log(value)
	}
	t.Count, t.Judged = rows, rows
	return t
}

// TestReasons: why a candidate passes the gate or not, at each threshold and below it.
func TestReasons(t *testing.T) {
	right, wrong := &Agreement{}, &Agreement{}
	for i := range 100 {
		class := []string{"a", "b"}[i%2]
		right.Add(1, class, class)
		wrong.Add(float64(i%2), class, "b")
	}
	gate, good := spec.Gate{Evidence: 400}, Standing{Agreement: right, CandidateBeats: true, LiveBeats: true}
	for _, c := range []struct {
		name     string
		c        Comparison
		standing *Standing
		pass     bool
		want     string
	}{
		{"enough", Comparison{Door: DoorBetter, Test: capital(400.1, 50)}, &good, true,
			"evidence 400.1 that it is better, on 50 rows that neither has seen"},
		{"too little", Comparison{Door: DoorBetter, Test: capital(399.9, 50)}, &good, false,
			"evidence 400 of 400 that it is better, on 50 rows"},
		{"no worse", Comparison{Door: DoorMoreRows, Test: capital(20.1, 50), Nearest: capital(1, 50)}, &good, true,
			"evidence 20.1 that it is not worse, from more rows or classes, on 50 rows that neither has seen"},
		{"no labels", Comparison{Door: DoorMoreRows, Test: capital(20.1, 50)}, nil, true,
			"evidence 20.1 that it is not worse, from more rows or classes, on 50 rows that neither has seen"},
		{"unproven", Comparison{Door: DoorNewClass, Test: capital(19, 50)}, &good, false,
			"evidence 19 of 20 that it is not worse, from more rows or classes, on 50 rows"},
		{"nearest at its limit", Comparison{Door: DoorMoreRows, Test: capital(30, 50), Nearest: capital(0.701, 50)}, &good,
			true, "evidence 30 that it is not worse, from more rows or classes, on 50 rows that neither has seen"},
		{"nearest below", Comparison{Door: DoorMoreRows, Test: capital(30, 50), Nearest: capital(0.69, 50)}, &good, false,
			"evidence 0.69 of at least 0.7 that it is not worse by the nearest reference alone, on 50 rows"},
		{"held out, nearest at its limit", Comparison{Door: DoorMoreRows, HeldOut: HeldOut{Evidence: 30, Nearest: 0.7,
			Rows: 70}}, &good, true, "evidence 30 that it is not worse, from more rows or classes, on 70 rows that neither " +
			"has seen"},
		{"nearest of better", Comparison{Door: DoorBetter, Test: capital(500, 50), Nearest: capital(0.1, 50)}, &good, true,
			"evidence 500 that it is better, on 50 rows that neither has seen"},
		{"held out", Comparison{Door: DoorBetter, Test: capital(2, 50),
			HeldOut: HeldOut{Evidence: 500, Rows: 70, LiveBeats: true}},
			&Standing{Agreement: wrong}, true, "evidence 500 that it is better, on 70 rows that neither has seen"},
		{"held out, at chance", Comparison{Door: DoorBetter, Test: capital(2, 50), HeldOut: HeldOut{Evidence: 500, Rows: 70}},
			&Standing{Agreement: right}, false, "it does not beat chance on the rows that are held out"},
		{"held out by less", Comparison{Door: DoorBetter, Test: capital(450, 50), HeldOut: HeldOut{Evidence: 440, Rows: 70}},
			&good, true, "evidence 450 that it is better, on 50 rows that neither has seen"},
		{"contradicted", Comparison{Door: DoorBetter, Test: capital(500, 50)},
			&Standing{Agreement: wrong, LiveBeats: true}, false,
			"it is right about 50.0% of the last rows, and chance is 50.0%: the labels contradict every model"},
		{"nothing beats chance", Comparison{Door: DoorBetter, Test: capital(500, 50)}, &Standing{Agreement: right}, false,
			"it is right about 100.0% of the last rows, and chance is 50.0%: the labels contradict every model"},
		{"live at chance", Comparison{Door: DoorMoreRows, Test: capital(30, 50)},
			&Standing{Agreement: right, CandidateBeats: true}, false,
			"evidence 30 that it is not worse, from more rows or classes, on 50 rows: while the live model does not " +
				"beat chance, 400 is needed"},
		{"early", Comparison{Door: DoorMoreRows, Test: capital(0.26, 32), EarlyOdds: 0.25}, &good, true,
			"the live model is early, and this one, from more rows or classes, is not shown to be worse: evidence 0.26 " +
				"that it is not, on 32 rows that neither has seen"},
		{"early, on few rows", Comparison{Door: DoorMoreRows, Test: capital(0.26, 31), EarlyOdds: 0.25}, &good, false,
			"it was judged on 31 rows of at least 32, of a run at most eight"},
		{"early, at low odds", Comparison{Door: DoorMoreRows, EarlyOdds: 0.25, HeldOut: HeldOut{Evidence: 3, Rows: 32}},
			&good, true, "evidence 3 that it is not worse, from more rows or classes, on 32 rows that neither has seen"},
		{"early, surely", Comparison{Door: DoorMoreRows, Test: capital(3.1, 32), EarlyOdds: 0.25}, &good, true,
			"evidence 3.1 that it is not worse, from more rows or classes, on 32 rows that neither has seen"},
	} {
		if pass, reason := Passes(gate, &c.c, c.standing); pass != c.pass || reason != c.want {
			t.Errorf("%s: %v, %q, want %v, %q", c.name, pass, reason, c.pass, c.want)
		}
	}
	for door, want := range map[string]string{
		DoorBetter: "evidence 500 that it is better, on 50 rows, and the door is closed: training.gate.evidence is never",
		DoorMoreRows: "evidence 500 that it is not worse, from more rows or classes, on 50 rows, and the door is closed: " +
			"training.gate.more_rows is never",
	} {
		closed := spec.Gate{Evidence: math.Inf(1), MoreRows: math.Inf(1)}
		if pass, reason := Passes(closed, &Comparison{Door: door, Test: capital(500, 50)}, &good); pass || reason != want {
			t.Errorf("closed: %v, %q, want %q", pass, reason, want)
		}
	}
}

// TestAgreement: rate and chance are those of the newest rows, and a clone does not share its counts.
func TestAgreement(t *testing.T) {
	var a Agreement
	for i := range 750 {
		a.Add(float64(i%4/3), []string{"a", "b", "c"}[i%3], []string{"a", "b"}[i%2])
	}
	if a.Before.Rows != 500 || a.Last.Rows != 250 || !near(a.Rate(), 187./750) ||
		!near(a.Chance(), (250*375+250*375)/(750.*750)) {
		t.Errorf("%+v: rate %g, chance %g", a, a.Rate(), a.Chance())
	}
	b := a.Clone()
	if b.Add(1, "a", "a"); a.Last.Rows != 250 || a.Last.True["a"] == b.Last.True["a"] ||
		b.Before.True["a"] != a.Before.True["a"] {
		t.Error("a clone shares counts")
	}
}
