package stream

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// seen is how streams were last seen, for all pipelines of an engine: a thousand of them write to few streams, and each
// would ask for itself.
type seen struct {
	mu      sync.Mutex
	streams map[string]*asked
}

// asked is a question for a stream; what it came to is there when done is closed.
type asked struct {
	begin  time.Time
	done   chan struct{}
	stream jetstream.Stream
	err    error
	cut    bool // who asked could not wait for it; whoever else waits asks again
}

// seenFor is how long an answer does for others.
const seenFor = time.Second

func newSeen() *seen { return &seen{streams: map[string]*asked{}} }

// stream is a stream as it was a second ago at most. It is shared: it must not be asked for more.
func (s *seen) stream(ctx context.Context, name string, ask func(context.Context) (jetstream.Stream, error)) (
	jetstream.Stream, error) {
	for {
		s.mu.Lock()
		q := s.streams[name]
		if q == nil || q.cut || time.Since(q.begin) > seenFor {
			q = &asked{begin: time.Now(), done: make(chan struct{})}
			s.streams[name] = q
			s.mu.Unlock()
			q.stream, q.err = ask(ctx)
			s.mu.Lock()
			q.cut = q.err != nil && ctx.Err() != nil
			s.mu.Unlock()
			close(q.done)
			return q.stream, q.err
		}
		s.mu.Unlock()
		select {
		case <-q.done:
			if !q.cut {
				return q.stream, q.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
