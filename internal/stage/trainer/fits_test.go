package trainer

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestFailedFits: the log and the report of a failed fit have its rows and its error.
func TestFailedFits(t *testing.T) {
	l, log, live := logged(t, fit.Config{Method: "lda", Dim: 2})
	var reports []spec.Outcome
	l.host.Report = func(o spec.Outcome) { reports = append(reports, o) }
	l.reportFailure(t.Context(), errors.New("no fit"), 7)
	if want := `level=ERROR msg="a fit failed; the live model stays" rows=7 error="no fit"` + "\n"; log.String() != want {
		t.Errorf("the log has %q", log.String())
	}
	if len(reports) != 1 || reports[0].Rows != 7 || reports[0].Reason != "no fit" || reports[0].Err == nil ||
		reports[0].Live != live() || reports[0].Promoted || !math.IsNaN(reports[0].Candidate) ||
		!math.IsNaN(reports[0].Previous) {
		t.Errorf("reports %+v", reports)
	}
	first, _ := newTrainer([]string{"x"}, l.config)
	log.Reset()
	first.reportFailure(t.Context(), errors.New("no fit"), 8)
	if want := `level=ERROR msg="a fit failed; no model is live yet" rows=8 error="no fit"` + "\n"; log.String() != want {
		t.Errorf("the log has %q", log.String())
	}
}

// TestRidgeOfDependentRows: once it is known how many rows are worth an independent one, the ridge of a fit is that of
// so many fewer rows.
func TestRidgeOfDependentRows(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	shrinkage := func() float64 {
		_, m, err := l.fitter.fit(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return *m.Report().Ridge.Shrinkage
	}
	l.drift = evidence.DriftDetector{}
	if l.drift.Blocks.IsKnown() {
		t.Fatal("the design effect is known")
	}
	independent := shrinkage()
	for n := range 4000 {
		l.drift.Blocks.Add(float64(n/8%5) - 2)
	}
	effect, rows := l.drift.Blocks.Effect(), float64(l.data.window.Len())
	want := independent * (rows + 1) / (rows/effect + 1)
	if got := shrinkage(); !(effect > 5) || !(math.Abs(got/want-1) <= 0.01) {
		t.Errorf("shrinkage %g with a design effect of %g, want %g; %g without", got, effect, want, independent)
	}
}

// TestDoorsOfACandidate: a candidate that was judged by whether it is better needs only be no worse once it has more
// rows, and starts over; otherwise its evidence stays when it is fitted again.
func TestDoorsOfACandidate(t *testing.T) {
	for _, c := range []struct {
		was   string
		grown bool
		door  string
		count int
	}{
		{policy.DoorBetter, false, policy.DoorBetter, 5}, {policy.DoorBetter, true, policy.DoorMoreRows, 0},
		{policy.DoorMoreRows, false, policy.DoorMoreRows, 5}, {policy.DoorMoreRows, true, policy.DoorMoreRows, 5},
	} {
		l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
		l.fitCandidate(t.Context(), 0)
		k := l.candidateOf(0)
		k.comparison = policy.NewComparison(l.config.Training.Gate, c.was)
		k.comparison.Test.Count = 5
		if c.grown {
			_, m, err := l.fitter.fit(t.Context(), 60)
			if err != nil {
				t.Fatal(err)
			}
			l.live = prequential.New(m)
		} else {
			l.live = prequential.New(k.Model.Model)
		}
		if l.fitCandidate(t.Context(), 0); k.comparison.Door != c.door || k.comparison.Test.Count != c.count {
			t.Errorf("%+v: door %s after %d rows", c, k.comparison.Door, k.comparison.Test.Count)
		}
	}
}

// TestFitThatPanics: a panic of a method is the error of its fit, with the name of the method.
func TestFitThatPanics(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	l.fitter.features = func() []string { panic("no names") }
	_, _, err := l.fitter.fit(t.Context(), 0)
	if want := "fitting lda panicked: no names; please report it"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestCandidatesOfAGate: a candidate of more rows waits while a shorter suffix is ahead, unless held-out rows suffice.
// A better one waits for more references while the window grows. Of those that pass, the one with the most evidence
// goes live, and of those that do not, the one with the most is reported.
func TestCandidatesOfAGate(t *testing.T) {
	l, _, live := logged(t, fit.Config{Method: "lda", Dim: 2})
	gate := l.config.Training.Gate
	of := func(size int, door string, log float64) *candidate {
		c := &candidate{Model: prequential.New(l.live.Model), size: size, rows: 300,
			comparison: policy.NewComparison(gate, door)}
		c.comparison.Test.Count, c.comparison.Test.Judged = 100, 100
		for i := range c.comparison.Test.Logs {
			c.comparison.Test.Logs[i] = log
		}
		for range 100 {
			c.Agreement.Add(1, "in", "in")
			c.Agreement.Add(1, "out", "out")
		}
		return c
	}
	check := func(what string, c *candidate, want bool, reason string) {
		t.Helper()
		if pass, why := l.passes(c); pass != want || !strings.HasPrefix(why, reason) {
			t.Errorf("%s: passes %v: %s", what, pass, why)
		}
	}
	for range 100 {
		l.live.Sensitivity.Add(1, 0.1, evidence.Row{NewRun: true})
	}
	more := of(0, policy.DoorMoreRows, 10)
	check("more rows", more, true, "evidence 2.203e+04 that it is not worse")
	l.rules.Followed = 250
	check("a shorter suffix is ahead", more, false, "more rows do not help: a shorter suffix is ahead")
	more.comparison.HeldOut = policy.HeldOut{Evidence: math.Sqrt(1000), Rows: 100}
	check("held-out rows suffice", more, true, "evidence 2.203e+04 that it is not worse")
	more.comparison.HeldOut.Evidence -= 0.01
	check("held-out rows do not suffice", more, false, "more rows do not help")
	l.rules.Followed = 0
	better := of(0, policy.DoorBetter, 10)
	if !l.data.window.IsGrowing() || l.data.references.AreFew() {
		t.Fatalf("%d references, the window grows: %v", l.data.references.Len(), l.data.window.IsGrowing())
	}
	check("many references", better, true, "evidence 2.203e+04 that it is better")
	all := l.data.references
	l.data.references = prequential.NewReferences(0)
	for _, r := range all.All()[:7] {
		l.data.references.Add(r)
	}
	check("few references", better, false, "few rows are held out, and the live model beats chance")
	l.live.Sensitivity = policy.Sensitivity{}
	check("no model beats chance", better, false, "it is right about 100.0% of the last rows")
	l.data.references = all

	var reports []spec.Outcome
	l.host.Report = func(o spec.Outcome) { reports = append(reports, o) }
	l.candidates = []*candidate{of(0, policy.DoorBetter, 2), of(250, policy.DoorBetter, 3), of(500, policy.DoorBetter, 9)}
	l.candidates[1].rows, l.candidates[2].comparison.Test.Count = 250, 0
	l.reportRejected()
	if len(reports) != 1 || reports[0].Rows != 250 || reports[0].Candidate != 1 || reports[0].Live != live() ||
		!strings.HasPrefix(reports[0].Reason, "evidence 20.1 of 1000 that it is better, on 100 rows") {
		t.Errorf("rejected: %+v", reports)
	}
	for range 100 {
		l.live.Sensitivity.Add(1, 0.1, evidence.Row{NewRun: true})
	}
	l.candidates = []*candidate{of(0, policy.DoorBetter, 10), of(250, policy.DoorBetter, 12),
		of(500, policy.DoorBetter, 11), of(1000, policy.DoorBetter, 2)}
	l.pinned = true
	if l.promoteBest(t.Context()); len(reports) != 1 {
		t.Errorf("with a pinned model %+v", reports[1:])
	}
	l.pinned = false
	l.promoteBest(t.Context())
	if len(reports) != 2 || !reports[1].Promoted || reports[1].Door != policy.DoorBetter || reports[1].Candidate != 1 ||
		!strings.HasPrefix(reports[1].Reason, "evidence 1.628e+05 that it is better") {
		t.Errorf("promoted: %+v", reports[1:])
	}
}

// TestFollowing: the newest fit of the followed suffix goes live, unless something speaks against it.
func TestFollowing(t *testing.T) {
	for what, change := range map[string]func(l *Trainer, c *candidate){
		"":               func(*Trainer, *candidate) {},
		"not followed":   func(l *Trainer, _ *candidate) { l.rules.Followed = 0 },
		"another suffix": func(_ *Trainer, c *candidate) { c.size = 500 },
		"pinned":         func(l *Trainer, _ *candidate) { l.pinned = true },
		"standby":        func(l *Trainer, _ *candidate) { l.standby = true },
		"a row after it": func(l *Trainer, _ *candidate) { l.schedule.Learned++ },
		"too soon":       func(l *Trainer, _ *candidate) { l.rules.SwappedAt = 51 },
		"by chance":      func(_ *Trainer, c *candidate) { c.Agreement = policy.Agreement{} },
		"no evidence":    func(_ *Trainer, c *candidate) { c.Sensitivity = policy.Sensitivity{} },
	} {
		l, _, live := logged(t, fit.Config{Method: "lda", Dim: 2})
		var reports []spec.Outcome
		l.host.Report = func(o spec.Outcome) { reports = append(reports, o) }
		c := &candidate{Model: prequential.New(l.live.Model), size: 250, rows: 240}
		for range 100 {
			c.Agreement.Add(1, "in", "in")
			c.Agreement.Add(1, "out", "out")
			c.Sensitivity.Add(1, 0.1, evidence.Row{NewRun: true})
		}
		l.candidates, l.rules.Followed, l.rules.SwappedAt = []*candidate{c}, 250, 50
		l.schedule.RecordFits([]int{250}, 300)
		before := live()
		change(l, c)
		follow(t.Context(), l)
		if follows := live() != before; follows != (what == "") || follows && (len(reports) != 1 || reports[0].Rows != 240 ||
			reports[0].Door != policy.DoorFollowing || reports[0].Candidate != 1 || l.rules.Live != 250 ||
			!strings.HasPrefix(reports[0].Reason, "refitting the newest 250 rows is better than the whole window")) {
			t.Errorf("%q: goes live %v: %+v", what, follows, reports)
		}
	}
}
