package trainer

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestDamagedCheckpoint: a checkpoint that cannot be read is logged, and the rows are learned again.
func TestDamagedCheckpoint(t *testing.T) {
	l, log, live := logged(t, fit.Config{Method: "lda", Dim: 2})
	for state, want := range map[string]string{"": "", "{}": "",
		"damaged": `level=WARN msg="the checkpoint cannot be read; the rows are learned again" error="the checkpoint is ` +
			`damaged: invalid character 'd' looking for beginning of value"` + "\n",
		`{"format":3}`: `level=WARN msg="the checkpoint cannot be read; the rows are learned again" error="the checkpoint ` +
			`has format 3 and this embedd reads 2; use a newer embedd"` + "\n"} {
		log.Reset()
		l.resumeFrom(&spec.Live{Model: live().Model, State: []byte(state)})
		if log.String() != want || l.resume == nil || l.resume.Format != 0 || l.live == nil || l.origin == nil {
			t.Errorf("%q: %q, %+v", state, log.String(), l.resume)
		}
	}
}

// TestUnsavedCheckpoint: a checkpoint that cannot be saved is logged, unless the trainer ends.
func TestUnsavedCheckpoint(t *testing.T) {
	l, log, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	var saved []byte
	var refused error
	l.config.Checkpoint = func(_ context.Context, state []byte) error {
		saved = state
		return refused
	}
	l.schedule.Learned += 7
	if l.saveCheckpoint(t.Context()); log.Len() > 0 || len(saved) == 0 || l.schedule.CheckpointAt != l.schedule.Learned {
		t.Errorf("%q, %q", saved, log.String())
	}
	refused = errors.New("no connection")
	l.saveCheckpoint(t.Context())
	if want := `level=WARN msg="a checkpoint could not be saved; a restart reads more rows" error="no connection"` +
		"\n"; log.String() != want {
		t.Errorf("the log has %q", log.String())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	log.Reset()
	saved = nil
	if l.saveCheckpoint(ended); saved != nil || log.Len() > 0 {
		t.Errorf("after the end: %q, %q", saved, log.String())
	}
}

// TestRestoredComparisons: a comparison continues after a restart with the same gate, and starts over with another one.
func TestRestoredComparisons(t *testing.T) {
	gate := spec.Gate{Evidence: 1000}
	for _, door := range []string{policy.DoorBetter, policy.DoorMoreRows, policy.DoorNewClass} {
		for name, c := range map[string]struct {
			gate    spec.Gate
			nearest int
			kept    bool
		}{
			"same": {gate, 3, true}, "earlier version": {gate, 0, true},
			"margin": {spec.Gate{Evidence: 1000, Margin: 0.1}, 3, false},
			"closed": {spec.Gate{Evidence: 1000, MoreRows: math.Inf(1), NewClass: math.Inf(1)}, 3, door == policy.DoorBetter},
		} {
			was := &candidate{Model: &prequential.Model{}, size: 250, comparison: policy.NewComparison(gate, door)}
			was.comparison.Test.Count, was.comparison.HeldOut.Rows, was.comparison.Nearest.Count = 5, 6, c.nearest
			s := stateOf(was)
			if s.Size != 250 || s.NonInferiority != (door != policy.DoorBetter) ||
				(s.Door != "") != (door == policy.DoorNewClass) {
				t.Errorf("the state of a candidate by door %s is %+v", door, s)
			}
			now := policy.NewComparison(c.gate, policy.DoorBetter)
			s.restore(&now, c.gate)
			got := now.Door == door && now.Test.Count == 5 && now.HeldOut.Rows == 6 && now.Nearest.Count == c.nearest
			if got != c.kept || !c.kept && now.Test.Count != 0 {
				t.Errorf("%s, door %s: %+v, kept %v", name, door, now, got)
			}
		}
	}
}

// TestForgottenModels: a checkpoint whose model is not the live one restores the state of its rows alone.
func TestForgottenModels(t *testing.T) {
	at := window.Position{Seq: 7}
	rows := checkpoint{Format: 2, Last: at, Oldest: at, Quota: 3, MaxReferences: 4, Alarms: 5, ChoiceClasses: 6,
		Policy: policy.Schedule{Learned: 7}, Labels: evidence.LabelSequence{Count: 8}}
	s := rows
	s.Rules, s.Candidates, s.Probe = policy.Rules{Live: 1}, []candidateState{{Size: 1}}, &probeState{}
	s.LiveAgreement.Last.Rows, s.LiveSensitivity.Test.Count, s.LiveFittedAt = 1, 2, 3
	s.LiveFirst, s.LiveLast, s.Judged = at, at, 4
	s.Policy.Fitted = []policy.SuffixFit{{Size: 1}}
	s.Drift.Add("a", 1)
	if s.forgetModels(); !reflect.DeepEqual(s, rows) {
		t.Errorf("%+v, want %+v", s, rows)
	}
}
