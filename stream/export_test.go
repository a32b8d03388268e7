package stream

import "time"

// SetDrain sets how long a stop waits for what is in flight, and returns how long it waited before.
func SetDrain(e *Engine, d time.Duration) (before time.Duration) {
	before, e.drainTimeout = e.drainTimeout, d
	return before
}

// SetWatchInterval sets the time between two comparisons of the deliveries.
func SetWatchInterval(e *Engine, d time.Duration) { e.watchInterval = d }
