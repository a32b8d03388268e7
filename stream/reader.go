package stream

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// headerLimit is what a stored message may weigh beside its payload: subject, reply and headers.
const headerLimit = 64 << 10

// fetchWait is how long one pull waits for messages; those that arrive meanwhile are handed on at once.
const fetchWait = 5 * time.Second

// maxFetch is the most messages of one pull. It sizes the client's channels, so it is far below what a byte bound
// alone would ask for.
const maxFetch = 1024

// maxPull is the most bytes of one pull, however many are free. A server sends a pull as fast as its disk reads, and
// cuts a connection off as a slow consumer when more than its max_pending (64 MiB by default) waits there to be
// written. Both readers of every pipeline share one connection.
const maxPull = 8 << 20

// fetch pulls so many messages, of at most free bytes, and hands each to take, in order. It returns after one pull,
// with the number of messages.
//
// A byte bound below one message makes a server refuse the pull, for good and without an error that reaches the
// caller. So the bound is never below the server's own payload limit, asked anew at each pull because a reconnect may
// change it; and where a pull comes back empty at once, one message is pulled without a bound: it was stored under a
// larger limit.
func fetch(ctx context.Context, nc *nats.Conn, c jetstream.Consumer, most int, free int64,
	take func(jetstream.Msg)) (int, error) {
	bound := max(min(free, maxPull), nc.MaxPayload()+headerLimit)
	begin := time.Now()
	n, err := pull(ctx, c, take, most, jetstream.FetchMaxBytes(int(bound)))
	if n > 0 || err != nil || time.Since(begin) > fetchWait/2 {
		return n, err
	}
	return pull(ctx, c, take, 1)
}

func pull(ctx context.Context, c jetstream.Consumer, take func(jetstream.Msg), most int,
	opts ...jetstream.FetchOpt) (n int, err error) {
	wait, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel() // ends the client's goroutine where the pull is given up
	batch, err := c.Fetch(most, append(opts, jetstream.FetchContext(wait), jetstream.FetchHeartbeat(fetchWait/5))...)
	if err != nil {
		return 0, err
	}
	for msg := range batch.Messages() {
		if ctx.Err() != nil {
			return n, ctx.Err() // what the pull still brings is redelivered
		}
		n++
		take(msg)
	}
	err = batch.Error()
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, jetstream.ErrNoMessages) {
		err = nil
	}
	return n, err
}

// pause waits before a further attempt, longer each time, and tells whether to go on.
func pause(ctx context.Context, attempt int) bool {
	wait := min(50*time.Millisecond<<min(attempt, 8), 5*time.Second)
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}
