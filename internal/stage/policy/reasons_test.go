package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/plugin/spec"
)

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
	gate, good := spec.Gate{Evidence: 400}, Standing{Agreement: right, Candidate: true, Live: true}
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
			HeldOut: HeldOut{Evidence: 500, Rows: 70, Live: true}},
			&Standing{Agreement: wrong}, true, "evidence 500 that it is better, on 70 rows that neither has seen"},
		{"held out, at chance", Comparison{Door: DoorBetter, Test: capital(2, 50), HeldOut: HeldOut{Evidence: 500, Rows: 70}},
			&Standing{Agreement: right}, false, "it does not beat chance on the rows that are held out"},
		{"held out by less", Comparison{Door: DoorBetter, Test: capital(450, 50), HeldOut: HeldOut{Evidence: 440, Rows: 70}},
			&good, true, "evidence 450 that it is better, on 50 rows that neither has seen"},
		{"contradicted", Comparison{Door: DoorBetter, Test: capital(500, 50)}, &Standing{Agreement: wrong, Live: true}, false,
			"it is right about 50.0% of the last rows, and chance is 50.0%: the labels contradict every model"},
		{"nothing beats chance", Comparison{Door: DoorBetter, Test: capital(500, 50)}, &Standing{Agreement: right}, false,
			"it is right about 100.0% of the last rows, and chance is 50.0%: the labels contradict every model"},
		{"live at chance", Comparison{Door: DoorMoreRows, Test: capital(30, 50)},
			&Standing{Agreement: right, Candidate: true}, false,
			"evidence 30 that it is not worse, from more rows or classes, on 50 rows: while the live model does not " +
				"beat chance, 400 is needed"},
		{"early", Comparison{Door: DoorMoreRows, Test: capital(0.26, 32), EarlyOdds: notWorseOdds}, &good, true,
			"the live model is from few rows or classes, and on 32 rows that neither has seen evidence 0.26 does not show " +
				"that one from more is worse"},
		{"early, on few rows", Comparison{Door: DoorMoreRows, Test: capital(0.26, 31), EarlyOdds: notWorseOdds}, &good, false,
			"it was judged on 31 rows of at least 32, of a run at most eight"},
		{"early, surely", Comparison{Door: DoorMoreRows, Test: capital(3.1, 32), EarlyOdds: notWorseOdds}, &good, true,
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

// TestDoorOf: a candidate from more rows, or with a new class, has the door that asks for less evidence; one that is
// closed is none.
func TestDoorOf(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		gate               spec.Gate
		moreRows, newClass bool
		want               string
	}{
		{spec.Gate{Evidence: 100}, false, false, DoorBetter}, {spec.Gate{Evidence: 100}, true, false, DoorMoreRows},
		{spec.Gate{Evidence: 100}, false, true, DoorNewClass}, {spec.Gate{Evidence: 100}, true, true, DoorMoreRows},
		{spec.Gate{Evidence: 100, NewClass: 9}, true, true, DoorNewClass},
		{spec.Gate{Evidence: 100, NewClass: 11}, true, true, DoorMoreRows},
		{spec.Gate{Evidence: 100, MoreRows: inf}, true, false, DoorBetter},
		{spec.Gate{Evidence: 100, MoreRows: inf}, true, true, DoorNewClass},
	} {
		if got := DoorOf(c.gate, c.moreRows, c.newClass); got != c.want {
			t.Errorf("%+v: door %s", c, got)
		}
	}
	g := spec.Gate{Evidence: 100, Margin: 0.02}
	for door, want := range map[string]float64{DoorBetter: 0.025, DoorMoreRows: 0.01, DoorNewClass: 0.01,
		DoorFollowing: 0.025} {
		c := Compare(g, door)
		if c.Door != door || !near(c.Test.Margin, want) || !near(c.Nearest.Margin, want) ||
			c.NeedNotBeBetter() != (door != DoorBetter) || !c.IsOpen(g) {
			t.Errorf("door %s: %+v, want a margin of %g", door, c, want)
		}
	}
	if c := (&Comparison{Test: capital(3, 1), HeldOut: HeldOut{Evidence: 4}}); !near(c.Evidence(), 4) {
		t.Errorf("evidence %g", c.Evidence())
	}
	if want := []string{DoorBootstrap, DoorFirst, DoorBetter, DoorMoreRows, DoorNewClass, DoorFollowing}; !slices.Equal(
		TrainedDoors(), want) {
		t.Errorf("doors %v", TrainedDoors())
	}
}

// TestAgreement: its rate, chance and clone are of the last rows and those before.
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
