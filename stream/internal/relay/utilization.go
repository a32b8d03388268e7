package relay

import (
	"iter"
	"math"
	"sync/atomic"
	"time"
)

// utilization measures the fraction of time in which the hot path is not waiting for inputs. Near 1, another replica
// would help.
type utilization struct {
	waited       atomic.Int64  // nanoseconds of the waits that have ended
	waitingSince atomic.Int64  // start of the current wait in Unix nanoseconds; 0: there is none
	ratio        atomic.Uint64 // bits of a float64
	rate         atomic.Int64  // inputs a second while processing; 0: not known

	// Of the last sample:
	sampledAt     time.Time
	sampledWaited time.Duration

	// Since rate was last set; used by the hot path alone:
	inputs  int
	seconds float64
}

// receive yields the inputs of a channel until it is closed, and measures how long it waits for them. An input that is
// there already costs no call of the clock.
func (u *utilization) receive(from <-chan *input) iter.Seq[*input] {
	return func(yield func(*input) bool) {
		for {
			var in *input
			more := true
			select {
			case in, more = <-from:
			default:
				end := u.wait()
				in, more = <-from
				end()
			}
			if !more || !yield(in) {
				return
			}
		}
	}
}

// wait begins to wait for an input, until end is called.
func (u *utilization) wait() (end func()) {
	begin := time.Now()
	u.waitingSince.Store(begin.UnixNano())
	return func() {
		u.waitingSince.Store(0)
		u.waited.Add(int64(time.Since(begin)))
	}
}

// utilizationDecay is the time constant of the moving average.
const utilizationDecay = 10 * time.Second

// sample adds the time since the last sample to the moving average. One goroutine calls it.
func (u *utilization) sample(now time.Time) {
	waited := time.Duration(u.waited.Load())
	if since := u.waitingSince.Load(); since != 0 {
		waited += now.Sub(time.Unix(0, since))
	}
	if !u.sampledAt.IsZero() && now.After(u.sampledAt) {
		elapsed := now.Sub(u.sampledAt)
		busy := 1 - min(max(float64(waited-u.sampledWaited)/float64(elapsed), 0), 1)
		weight := -math.Expm1(-float64(elapsed) / float64(utilizationDecay))
		old := u.value()
		u.ratio.Store(math.Float64bits(old + weight*(busy-old)))
	}
	u.sampledAt, u.sampledWaited = now, waited
}

// minRateSeconds is the least processing time from which a rate is computed.
const minRateSeconds = 0.1

// processed records how many seconds an input took.
func (u *utilization) processed(seconds float64) {
	u.inputs++
	if u.seconds += seconds; u.seconds >= minRateSeconds {
		u.rate.Store(max(1, int64(float64(u.inputs)/u.seconds)))
		u.inputs, u.seconds = 0, 0
	}
}

// maxMessages is the largest number of messages that the process holds: two seconds of work, so that a pull fetches one
// second's messages while another second's are processed. Other replicas cannot answer what this one holds.
func (u *utilization) maxMessages() int {
	if rate := u.rate.Load(); rate > 0 {
		return int(min(max(2*rate, minMessages), maxPending))
	}
	return maxPending
}

// minMessages keeps the round trips of pulls from taking longer than the work.
const minMessages = 16

// value is the fraction of the last seconds in which the hot path had something to do.
func (u *utilization) value() float64 { return math.Float64frombits(u.ratio.Load()) }
