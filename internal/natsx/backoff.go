package natsx

import (
	"context"
	"time"
)

// Backoff waits before the next attempt, 50 ms after the first and up to 5 s, and returns false if ctx ends first.
func Backoff(ctx context.Context, attempt int) bool {
	wait := min(50*time.Millisecond<<min(attempt, 8), 5*time.Second)
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}
