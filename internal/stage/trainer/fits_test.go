package trainer

import (
	"errors"
	"math"
	"testing"

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
		k.comparison = policy.Compare(l.config.Training.Gate, c.was)
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
