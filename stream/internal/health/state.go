package health

import (
	"fmt"
	"time"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/spec"
)

// Facts are what the state of a pipeline is derived from, in addition to its Status (Invariant 14).
type Facts struct {
	IsDraining  bool
	IsInspected bool           // its streams have been inspected, or it has none
	Blocked     string         // first reason of the conditions that block all answers
	Parked      string         // first reason of those that block dead letters
	Notice      string         // first reason of those that block nothing
	Until       plugin.Until   // what happens before a first model exists
	WhenStale   spec.WhenStale // what happens while the live model is stale
	Progress    string         // towards the first model, a sentence
	Learning    string         // the same without what happened to the streams
	Stale       string         // why the live model is stale, a sentence
	Idle        time.Duration  // since an input was last answered
}

// idleAfter is the time without input after which a pipeline is idle.
const idleAfter = time.Minute

// Derive returns the state of a pipeline and its reason: the first state that applies, in the order of spec.States.
func Derive(s *spec.Status, f Facts) (spec.State, string) {
	live := s.Stage.Live
	waits := live == nil && f.Until != plugin.UntilSkip
	switch {
	case f.IsDraining:
		return spec.StateStopping, "inputs that were pulled are answered, and no more are pulled"
	case s.Halted != "":
		return spec.StateHalted, s.Halted
	case f.Blocked != "" && waits:
		return spec.StateBlocked, f.Blocked + "; " + f.Progress
	case f.Blocked != "":
		return spec.StateBlocked, f.Blocked
	case !f.IsInspected:
		return spec.StateStarting, "the streams are being inspected"
	case waits:
		return spec.StateWaitingForModel, f.Progress
	case s.Stale && f.WhenStale == spec.StaleHold:
		return spec.StateWaitingForModel, f.Stale
	case s.Stale:
		return spec.StateStale, f.Stale
	case s.Undeliverable > 0:
		return spec.StateParked, fmt.Sprintf("%d inputs wait because their dead letters cannot be stored, and are "+
			"redelivered; the last: %s", s.Undeliverable, s.UndeliverableReason)
	case f.Parked != "":
		return spec.StateParked, "dead letters cannot be stored, other inputs are answered: " + f.Parked
	case f.Notice != "" && live == nil:
		return spec.StateDegraded, f.Notice + "; inputs are skipped until a first model exists; " + f.Progress
	case f.Notice != "":
		return spec.StateDegraded, f.Notice
	case live == nil:
		return spec.StateLearning, "inputs are skipped until a first model exists; " + f.Progress
	case live.WasReset:
		return spec.StateLearning, "model " + live.Version + ", which was reset, answers until the first model of the next " +
			"epoch exists; " + f.Learning
	case live.Bootstrap:
		return spec.StateLearning, "a PCA answers until a first model exists; " + f.Learning
	case s.Lag == 0 && f.Idle > idleAfter:
		return spec.StateIdle, fmt.Sprintf("no input for %v", f.Idle.Round(time.Second))
	}
	return spec.StateReady, ""
}

// Timestamp formats a time for the texts of the status.
func Timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
