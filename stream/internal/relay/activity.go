package relay

import (
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/cores"
)

// Activity reports whether the hot paths of an engine have messages to process and need the processor for that.
// Training, of any pipeline of the engine, yields while they do. Safe for concurrent use.
type Activity struct {
	cores      cores.Meter
	processing atomic.Int64 // inputs that are being transformed or published
	until      atomic.Int64 // more inputs are expected until then, in Unix nanoseconds
}

const (
	// arrivalGap is how long after an input the next one is expected.
	arrivalGap = 5 * time.Millisecond
	// backlogGap replaces arrivalGap while the stream has messages that are not delivered yet.
	backlogGap = time.Second
	// turn is the time of which training gets its share of the idle cores while inputs are processed.
	turn = 20 * time.Millisecond
)

// received records an input. pending is the number of messages that the consumer has not delivered yet.
func (a *Activity) received(at time.Time, pending uint64) {
	gap := arrivalGap
	if pending > 0 {
		gap = backlogGap
	}
	a.until.Store(at.Add(gap).UnixNano())
}

// IsBusy reports whether inputs are being processed or are expected now, and training has used its share of the idle
// cores in this turn.
func (a *Activity) IsBusy() bool {
	now := time.Now().UnixNano()
	gap := time.Duration(a.until.Load() - now) // longer than any if the clock was set back
	active := a.processing.Load() > 0 || 0 < gap && gap <= backlogGap
	return active && float64(now%int64(turn)) >= a.cores.Share()*float64(turn)
}

// Processing is the number of inputs that are being processed. An input that waits for a model does not count.
func (a *Activity) Processing() int64 { return a.processing.Load() }
