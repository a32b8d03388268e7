package policy

import (
	"fmt"
	"testing"

	"github.com/embedd/embedd/internal/transcript"
	"github.com/embedd/embedd/plugin/spec"
)

// TestDecisions replays transcripts; the text after "->" is the expected result of the policy or the gate.
func TestDecisions(t *testing.T) {
	transcript.Replay(t, "testdata/decisions/*.txt", func() func(*transcript.Event) string { return new(decisions).event })
}

// decisions is the state that the events of a file change.
type decisions struct {
	policy Schedule
	rows   int // in the window
	live   bool
	gate   spec.Gate
	trial  Comparison
	agree  Agreement
}

func (s *decisions) event(e *transcript.Event) string {
	p := &s.policy
	at := e.Time("at")
	switch e.Name {
	case "policy":
		*s = decisions{policy: Schedule{Config: Config{
			Every:    spec.Every{Rows: e.Int("rows"), Period: e.Duration("period")},
			Features: e.Int("features"), Nested: e.Text("nested") != "no"}}}
	case "learn":
		p.RecordRows(e.Int("rows"), e.Text("class") == "new", at)
		s.rows += e.Int("rows")
		return s.decide()
	case "tick":
		p.Tick(at)
		return s.decide()
	case "asked":
		p.Request()
		return s.decide()
	case "cut":
		s.rows = e.Int("rows")
		p.Cut(s.rows)
		return s.decide()
	case "lead":
		p.Suffix = e.Int("suffix")
		return s.decide()
	case "gate":
		s.gate = spec.Gate{Evidence: e.Float("evidence"), Margin: e.Float("margin"),
			MoreRows: e.Float("more_rows"), NewClass: e.Float("new_class")}
	case "trial":
		s.trial = NewComparison(s.gate, DoorOf(s.gate, e.Text("rows") == "twice", e.Text("class") == "new"))
		s.agree = Agreement{}
	case "rows": // number of rows on which candidate and live model are correct: both, one of the two, none
		kinds := []string{"both", "candidate", "live", "none"}
		total, done := 0, map[string]int{}
		for _, kind := range kinds {
			total += e.Int(kind)
		}
		for i := range total { // evenly mixed
			for _, kind := range kinds {
				if n := e.Int(kind); done[kind]*total < n*(i+1) {
					s.scored(kind, done[kind])
					done[kind]++
				}
			}
		}
		pass, reason := Passes(s.gate, &s.trial, &Standing{&s.agree, true, true})
		if pass {
			return "promote: " + reason
		}
		return "keep: " + reason
	default:
		e.Fatalf("unknown event %q", e.Name)
	}
	return ""
}

// scored adds one row of one of two classes.
func (s *decisions) scored(kind string, i int) {
	label, other := "a", "b"
	if i%2 == 0 {
		label, other = other, label
	}
	switch kind {
	case "both":
		s.trial.Test.Add(0)
		s.agree.Add(1, label, label)
	case "candidate":
		s.trial.Test.Add(1)
		s.agree.Add(1, label, label)
	case "live":
		s.trial.Test.Add(-1)
		s.agree.Add(0, label, other)
	case "none":
		s.trial.Test.Add(0)
		s.agree.Add(0, label, other)
	}
}

// decide returns what the policy fits now, and records it as done.
func (s *decisions) decide() string {
	if !s.live {
		if !s.policy.FirstDue(s.rows, false) {
			return "wait"
		}
		s.live = true
		s.policy.RecordFits([]int{0}, s.rows)
		return "first"
	}
	due := s.policy.Due(s.rows, 0)
	s.policy.RecordFits(due, s.rows)
	if len(due) == 0 {
		return "wait"
	}
	text := "fit"
	for _, size := range due {
		if size == 0 {
			text += " all"
		} else {
			text += fmt.Sprint(" ", size)
		}
	}
	return text
}
