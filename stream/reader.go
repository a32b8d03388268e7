package stream

import (
	"context"
	"time"

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
func fetch(ctx context.Context, js jetstream.JetStream, c jetstream.Consumer, most int, free int64,
	take func(*delivery)) (int, error) {
	bound := max(min(free, maxPull), js.Conn().MaxPayload()+headerLimit)
	begin := time.Now()
	n, err := pull(ctx, js, c, take, most, int(bound))
	if n > 0 || err != nil || time.Since(begin) > fetchWait/2 {
		return n, err
	}
	return pull(ctx, js, c, take, 1, 0)
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
