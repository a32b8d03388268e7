package natsx

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// The server answers a flush within flushWait. The errors of subscriptions have all arrived when their number is the
// same for settledChecks.
const (
	flushWait     = 5 * time.Second
	settledChecks = 20
	settleDelay   = 10 * time.Millisecond
)

// CountSubscriptions returns how many further subscriptions a connection may have, wanted at most. No server reports
// its limit, so it subscribes and counts the errors.
func CountSubscriptions(ctx context.Context, nc *nats.Conn, wanted int) (int, error) {
	var refused atomic.Int64
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
			refused.Add(1)
		} else if before != nil {
			before(nc, sub, err)
		}
	})
	defer nc.SetErrorHandler(before)
	none := make(chan *nats.Msg, 1) // the client would make one of 512 KiB for each
	for range wanted {
		sub, err := nc.ChanSubscribe(nc.NewInbox(), none)
		if err != nil {
			return 0, err
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	ctx, cancel := context.WithTimeout(ctx, flushWait)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		return 0, err
	}
	if !errors.Is(nc.LastError(), nats.ErrMaxSubscriptionsExceeded) {
		return wanted, nil
	}
	// The errors are handled by another goroutine, one after another; the last error may be an older one.
	for last, same := int64(0), 0; same < settledChecks; same++ {
		if !Sleep(ctx, settleDelay) {
			return 0, ctx.Err()
		}
		if now := refused.Load(); now != last {
			last, same = now, 0
		}
	}
	return wanted - int(min(refused.Load(), int64(wanted))), nil
}
