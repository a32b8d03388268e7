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
	second atomic.Int64 // how many inputs the hot path answers in a second, were it to do nothing else; 0: not known

	last   time.Time // of the last look
	before time.Duration

	done int // inputs since the rate was told, and how long they took in seconds; of the hot path alone
	took float64
}

// each yields what comes until there is no more, and counts how long it is waited for. What is there already costs no
// look at the clock.
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

// paced is the least work, in seconds, from which a rate is told.
const paced = 0.1

// did notes how many seconds an input took.
func (s *spare) did(seconds float64) {
	s.done++
	if s.took += seconds; s.took >= paced {
		s.second.Store(max(1, int64(float64(s.done)/s.took)))
		s.done, s.took = 0, 0
	}
}

// share is how many messages one process may hold: two seconds' work, so that a pull is for one of them while the
// other is done; what it holds longer others cannot answer.
func (s *spare) share() int {
	if n := s.second.Load(); n > 0 {
		return int(min(max(2*n, leastShare), ackPending))
	}
	return ackPending
}

// leastShare keeps the server's answers from taking longer than the work.
const leastShare = 16

// busy is the share of the last seconds in which the hot path had something to do.
func (s *spare) busy() float64 { return math.Float64frombits(s.ratio.Load()) }
