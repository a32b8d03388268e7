package relay

import (
	"sync/atomic"
	"time"
)

// Activity reports whether the hot paths of an engine have messages to process. Training, of any pipeline of the
// engine, yields while they do. Safe for concurrent use.
type Activity struct {
	processing atomic.Int64 // inputs that are being transformed or published
	until      atomic.Int64 // more inputs are expected until then, in Unix nanoseconds
}

const (
	// arrivalGap is how long after an input the next one is expected.
	arrivalGap = 5 * time.Millisecond
	// backlogGap replaces arrivalGap while the stream has messages that are not delivered yet.
	backlogGap = time.Second
)

// received records an input. pending is the number of messages that the consumer has not delivered yet.
func (a *Activity) received(pending uint64) {
	gap := arrivalGap
	if pending > 0 {
		gap = backlogGap
	}
	a.until.Store(time.Now().Add(gap).UnixNano())
}

// IsBusy reports whether inputs are being processed or are expected now.
func (a *Activity) IsBusy() bool {
	return a.processing.Load() > 0 || time.Now().UnixNano() < a.until.Load()
}

// Processing is the number of inputs that are being processed. An input that waits for a model does not count.
func (a *Activity) Processing() int64 { return a.processing.Load() }
