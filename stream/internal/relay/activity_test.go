package relay

import (
	"math"
	"testing"
	"time"
)

// TestActivityAfterAClockWasSetBack: training does not yield to inputs that were expected by a clock that was set back
// since. The first share of the idle cores is 0, so it yields whenever inputs are expected.
func TestActivityAfterAClockWasSetBack(t *testing.T) {
	var a Activity
	mustYield := a.Trainer()
	if mustYield() {
		t.Error("busy without an input")
	}
	if a.received(time.Now(), 1); !mustYield() {
		t.Error("not busy right after an input with others behind it")
	}
	if a.received(time.Now().Add(time.Hour), 1); mustYield() {
		t.Error("busy after the clock was set back by an hour")
	}
}

// TestTrainersShareIdleCores: trainers that want to work use the idle cores together, never more, and in turns. One
// that stops asking leaves its part to the others a time slice later.
func TestTrainersShareIdleCores(t *testing.T) {
	const step, slices = timeSlice / 20, 120
	for _, c := range []struct {
		trainers int
		cores    float64
	}{{1, 0.35}, {1, 1}, {2, 1}, {3, 0.6}, {10, 1.4}, {10, 3}} {
		var a Activity
		worked := make([]float64, c.trainers) // in time slices
		for now := time.Duration(0); now < slices*timeSlice; now += step {
			working := 0.0
			for i := range c.trainers {
				if now >= slices/2*timeSlice && i > 0 && i%2 == 0 {
					continue // it has nothing more to learn
				}
				if mayWork(a.rank(i+1, int64(now/timeSlice)), int64(now), c.cores) {
					worked[i] += float64(step) / float64(timeSlice)
					working++
				}
			}
			if !(working <= math.Ceil(c.cores)) {
				t.Fatalf("%v: %v trainers work together", c, working)
			}
		}
		sum := 0.0
		for i, w := range worked {
			sum += w
			if least := c.cores / float64(c.trainers) * slices; !(w >= 0.9*least || i > 0 && i%2 == 0 && w >= 0.45*least) {
				t.Errorf("%v: trainer %d works in %v of %d time slices", c, i, w, slices)
			}
		}
		if want := min(c.cores, float64(c.trainers)) * slices; !(math.Abs(sum-want) <= 0.05*want) {
			t.Errorf("%v: trainers work for %v time slices, want %v", c, sum, want)
		}
	}
}
