package natsx

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// HedgeWait is how long Hedge waits for an answer. TestMain extends it, for servers on a busy machine.
var HedgeWait = 5 * time.Second

const (
	hedgeDelay = time.Second
	maxHedges  = 5
)

// Hedge sends a request, and again each second while it is unanswered, five times. It returns the first answer, or an
// error after HedgeWait.
//
// A request to a stream that is electing its leader is lost without an error, as is one in flight when the connection
// breaks. The request must have the same effect when it is processed twice.
func Hedge[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, maxHedges)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithTimeout(ctx, HedgeWait)
	defer cancel()
	tick := time.NewTicker(hedgeDelay)
	defer tick.Stop()
	for sent := 0; ; sent++ {
		if sent < maxHedges {
			wg.Go(func() {
				v, err := request(ctx)
				answers <- answer{v, err}
			})
		}
		select {
		case a := <-answers:
			return a.value, a.err
		case <-tick.C:
		}
	}
}

// WhileConnected calls f with a context that is cancelled when the connection is lost. If f fails then, the error wraps
// nats.ErrDisconnected.
func WhileConnected(ctx context.Context, nc *nats.Conn, f func(context.Context) error) error {
	broken := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	within, cancel := context.WithCancel(ctx)
	isBroken := make(chan bool, 1)
	go func() {
		defer cancel()
		_, ok := <-broken
		isBroken <- ok
	}()
	err := f(within)
	nc.RemoveStatusListener(broken) // closes the channel
	if <-isBroken && err != nil {
		return fmt.Errorf("%w: %w", nats.ErrDisconnected, err)
	}
	return err
}

// Backoff waits before the next attempt, 50 ms after the first and up to 5 s, and returns false if ctx ends first.
func Backoff(ctx context.Context, attempt int) bool {
	return Sleep(ctx, min(50*time.Millisecond<<min(attempt, 8), 5*time.Second))
}

// ShortBackoff is Backoff with pauses of up to 1.6 s.
func ShortBackoff(ctx context.Context, attempt int) bool { return Backoff(ctx, min(attempt, 5)) }

// Sleep waits, and returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Signal wakes the goroutine that waits on a channel of capacity one. A signal that it has not received yet stays.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
