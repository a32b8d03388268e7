package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/plugin/spec"
)

// TestSensitivity: a model beats chance soon if it is right more often than random labels would be by more than five
// points, and stops doing so soon after the labels become random.
func TestSensitivity(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var s Sensitivity
	add := func(n int, accuracy float64) (rows int) {
		for rows = range n {
			right := 0.0
			if r.Float64() < accuracy {
				right = 1
			}
			s.Add(right, 0.25, evidence.Row{NewRun: true})
			if s.BeatsChance() == (accuracy > 0.3) {
				return rows
			}
		}
		return n
	}
	if n := add(1000, 0.7); n > 100 {
		t.Errorf("a model of 70 %% beats chance of 25 %% after %d rows", n)
	}
	add(500, 0.7)
	if n := add(1000, 0.25); n > 300 {
		t.Errorf("a model beats random labels for %d rows", n)
	}
}

// TestSuspicion: labels are suspect after 500 rows on which no model beats chance, and no longer. Rows of a long run,
// and rows that depend on each other, count as fewer, and agreement that is above chance is no reason for suspicion.
func TestSuspicion(t *testing.T) {
	rows := func(n, run int, effect float64) []evidence.Row {
		all := make([]evidence.Row, n)
		for i := range all {
			all[i] = evidence.Row{NewRun: i%run == 0, Effect: effect}
		}
		return all
	}
	var s Suspicion
	if s.Add(rows(499, 1, 1), false, false) || s.IsRaised() || !s.Add(rows(1, 1, 1), false, false) || !s.IsRaised() ||
		!s.Add(rows(1, 1, 1), true, false) || s.IsRaised() {
		t.Error("500 rows")
	}
	if s.Add(rows(10_000, 300, 1), false, false) {
		t.Errorf("34 runs of 300 rows: %v rows count", s.Rows)
	}
	s = Suspicion{}
	if s.Add(rows(4000, 1, 10), false, false) || !s.Add(rows(1000, 1, 10), false, false) {
		t.Errorf("rows that are sent ten times: %v rows count", s.Rows)
	}
	s = Suspicion{}
	if s.Add(rows(5000, 1, 1), false, true) || !s.Add(rows(1, 1, 1), false, false) || s.Add(rows(1, 1, 1), false, true) ||
		!s.IsRaised() {
		t.Error("rows that agree")
	}
}

// TestNothingPassesAtChance: while the live model is at chance, "not worse" says nothing, and only a candidate that
// beats chance may go live, at the odds of "better".
func TestNothingPassesAtChance(t *testing.T) {
	g := spec.Gate{Evidence: 1000}
	right := Agreement{}
	for i := range 200 {
		label := string(rune('a' + i%4))
		right.Add(1, label, label)
	}
	for _, c := range []struct {
		door            string
		evidence        int // outcomes of 1
		candidate, live bool
		want            bool
	}{
		{DoorMoreRows, 40, true, true, true},
		{DoorMoreRows, 14, true, true, true},
		{DoorMoreRows, 14, false, false, false},
		{DoorMoreRows, 14, true, false, false},
		{DoorMoreRows, 100, true, false, true},
		{DoorBetter, 100, true, false, true},
		{DoorBetter, 100, false, false, false},
		{DoorBetter, 100, false, true, true},
	} {
		trial := NewComparison(g, c.door)
		for range c.evidence {
			trial.Test.Add(1)
		}
		pass, reason := Passes(g, &trial, &Standing{Agreement: &right, CandidateBeats: c.candidate, LiveBeats: c.live})
		if pass != c.want {
			t.Errorf("%+v, evidence %.3g: %t: %s", c, trial.Evidence(), pass, reason)
		}
		held := NewComparison(g, c.door)
		held.HeldOut = HeldOut{Evidence: trial.Evidence() + 1, Rows: c.evidence, CandidateBeats: c.candidate,
			LiveBeats: c.live}
		if pass, reason := Passes(g, &held, &Standing{Agreement: &Agreement{}}); pass != c.want {
			t.Errorf("%+v, held out: %t: %s", c, pass, reason)
		}
	}
}
