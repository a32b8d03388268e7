package stream

import (
	"sync/atomic"
	"time"
)

// pressure tells whether the hot paths of an engine have something to do. Learning, of any pipeline, gives way then.
type pressure struct {
	held  atomic.Int64 // inputs that are answered; one that waits for a model waits for learning
	until atomic.Int64 // until when there is some at least, in nanoseconds of the clock
}

const (
	// lull is how long after an input came the next one is looked for.
	lull = 5 * time.Millisecond
	// arrears is how long what waits in the stream counts, where nothing of it comes.
	arrears = time.Second
)

// came notes an input, behind which so many wait in the stream.
func (p *pressure) came(pending uint64) {
	wait := lull
	if pending > 0 {
		wait = arrears
	}
	p.until.Store(time.Now().Add(wait).UnixNano())
}

func (p *pressure) busy() bool { return p.held.Load() > 0 || time.Now().UnixNano() < p.until.Load() }
