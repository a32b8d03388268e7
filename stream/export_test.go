package stream

import "time"

// SetDrain sets how long a stop waits for what is in flight, and returns how long it waited before.
func SetDrain(e *Engine, d time.Duration) (before time.Duration) {
	before, e.drain = e.drain, d
	return before
}
