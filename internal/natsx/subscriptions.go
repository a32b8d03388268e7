package natsx

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// flushWait bounds how long the server takes to answer, and the client to call handlers of errors.
const flushWait = 10 * time.Second

// CountSubscriptions returns how many further subscriptions a connection may have, wanted at most. No server reports
// its limit, so it subscribes and counts the errors.
func CountSubscriptions(ctx context.Context, nc *nats.Conn, wanted int) (int, error) {
	var refused atomic.Int64
	before := nc.ErrorHandler()
	count := func(refuse func()) {
		nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
				refuse()
			} else if before != nil {
				before(nc, sub, err)
			}
		})
	}
	defer nc.SetErrorHandler(before)
	count(func() { refused.Add(1) })
	ctx, cancel := context.WithTimeout(ctx, flushWait)
	defer cancel()
	none := make(chan *nats.Msg, 1) // the client would make one of 512 KiB for each
	var all []*nats.Subscription
	defer func() {
		for _, sub := range all {
			_ = sub.Unsubscribe()
		}
	}()
	subscribe := func(n int) error {
		for range n {
			sub, err := nc.ChanSubscribe(nc.NewInbox(), none)
			if err != nil {
				return err
			}
			all = append(all, sub)
		}
		return nc.FlushWithContext(ctx)
	}
	if err := subscribe(wanted); err != nil {
		return 0, err
	}
	if !errors.Is(nc.LastError(), nats.ErrMaxSubscriptionsExceeded) {
		return wanted, nil
	}
	// The client calls the error handler from another goroutine, in the order of the errors. So one more subscription,
	// which is refused too, reports when all errors before it are counted. If LastError is from before this call, nothing
	// is refused, and the wait ends with ctx.
	counted := make(chan struct{})
	count(sync.OnceFunc(func() { close(counted) }))
	if err := subscribe(1); err != nil {
		return 0, err
	}
	select {
	case <-counted:
	case <-ctx.Done():
	}
	return wanted - int(min(refused.Load(), int64(wanted))), nil
}
