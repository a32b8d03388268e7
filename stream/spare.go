package stream

import (
	"iter"
	"math"
	"sync/atomic"
	"time"
)

// spare is how long the hot path has waited for inputs, of the time that it runs: what is left of its time is what says
// that one more replica would help.
type spare struct {
	waited atomic.Int64 // nanoseconds, of the waits that are over
	since  atomic.Int64 // when the wait began that is not, 0: there is none
	ratio  atomic.Uint64

	last   time.Time // of the last look
	before time.Duration
}

// each yields what comes until there is no more, and counts how long it is waited for. What is there already costs no look
// at the clock.
func (s *spare) each(from <-chan *input) iter.Seq[*input] {
	return func(yield func(*input) bool) {
		for {
			var in *input
			more := true
			select {
			case in, more = <-from:
			default:
				begin := time.Now()
				s.since.Store(begin.UnixNano())
				in, more = <-from
				s.since.Store(0)
				s.waited.Add(int64(time.Since(begin)))
			}
			if !more || !yield(in) {
				return
			}
		}
	}
}

// recent is for how long what was counts: the weight of a second falls by so much.
const recent = 10 * time.Second

// look counts the time since the last look. One goroutine calls it.
func (s *spare) look(now time.Time) {
	waited := time.Duration(s.waited.Load())
	if since := s.since.Load(); since != 0 {
		waited += now.Sub(time.Unix(0, since))
	}
	if !s.last.IsZero() && now.After(s.last) {
		took := now.Sub(s.last)
		busy := 1 - min(max(float64(waited-s.before)/float64(took), 0), 1)
		weight := -math.Expm1(-float64(took) / float64(recent))
		old := math.Float64frombits(s.ratio.Load())
		s.ratio.Store(math.Float64bits(old + weight*(busy-old)))
	}
	s.last, s.before = now, waited
}

// busy is the share of the last seconds in which the hot path had something to do.
func (s *spare) busy() float64 { return math.Float64frombits(s.ratio.Load()) }
