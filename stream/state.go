package stream

import (
	"fmt"
	"time"

	"github.com/embedd/embedd/plugin"
)

// idleAfter is how long no input came where a pipeline is idle.
const idleAfter = time.Minute

// state is the word, and the sentence to it.
func (p *pipeline) state(s *Status) (State, string) {
	live := s.Stage.Live
	progress := ""
	if live == nil {
		progress = p.progress()
	}
	obstacle := p.obstacle()
	switch {
	case p.draining.Load():
		return StateStopping, "what was taken is answered, and nothing more is taken"
	case s.Halted != "":
		return StateHalted, s.Halted
	case obstacle != "":
		if live == nil && p.holds() {
			obstacle += "; " + progress
		}
		return StateBlocked, obstacle
	case p.input != nil && p.arrived == nil && p.sight.Load() == nil:
		return StateStarting, "the streams are looked at"
	case live == nil && p.Stage.Until != plugin.UntilSkip:
		return StateHolding, progress
	case s.Stale && p.WhenStale == StaleHold:
		return StateHolding, p.staleReason(s.Age)
	case s.Stale:
		return StateStale, p.staleReason(s.Age)
	case s.Parked > 0:
		return StateParked, fmt.Sprintf("%d inputs cannot leave in any form now and come back; the last: %s", s.Parked,
			s.ParkedBy)
	case live == nil:
		return StateLearning, "inputs are skipped until a first model exists; " + progress
	case live.Bootstrap:
		return StateLearning, "a PCA answers until a first model exists; " + p.learned()
	case s.Lag == 0 && p.idle() > idleAfter:
		return StateIdle, fmt.Sprintf("no input for %v", p.idle().Round(time.Second))
	}
	return StateReady, ""
}

// idle is how long ago an input was answered, or since the pipeline began.
func (p *pipeline) idle() time.Duration { return time.Since(time.Unix(0, p.busy.Load())) }
