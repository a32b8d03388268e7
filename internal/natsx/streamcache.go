package natsx

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// streamCacheAge is how long an answer is shared.
const streamCacheAge = time.Second

// StreamCache shares stream info requests among the pipelines of an engine: a thousand of them write to a few streams.
type StreamCache struct {
	mu       sync.Mutex
	requests map[string]*streamRequest
}

// streamRequest is a request for a stream; its result is there when done is closed.
type streamRequest struct {
	begin    time.Time
	done     chan struct{}
	stream   jetstream.Stream
	err      error
	canceled bool // the requester's context ended; other callers request again
}

// NewStreamCache returns an empty cache.
func NewStreamCache() *StreamCache { return &StreamCache{requests: map[string]*streamRequest{}} }

// Stream returns a stream as it was at most a second ago, and calls request if no other caller has. Callers share the
// stream and must only read its cached info.
func (c *StreamCache) Stream(ctx context.Context, name string,
	request func(context.Context) (jetstream.Stream, error)) (jetstream.Stream, error) {
	stream, _, err := c.StreamAt(ctx, name, request)
	return stream, err
}

// StreamAt is Stream with the time at which it was requested.
func (c *StreamCache) StreamAt(ctx context.Context, name string,
	request func(context.Context) (jetstream.Stream, error)) (jetstream.Stream, time.Time, error) {
	for {
		c.mu.Lock()
		r := c.requests[name]
		if r == nil || r.canceled || time.Since(r.begin) > streamCacheAge {
			r = &streamRequest{begin: time.Now(), done: make(chan struct{})}
			c.requests[name] = r
			c.mu.Unlock()
			r.stream, r.err = request(ctx)
			c.mu.Lock()
			r.canceled = r.err != nil && ctx.Err() != nil
			c.mu.Unlock()
			close(r.done)
			return r.stream, r.begin, r.err
		}
		c.mu.Unlock()
		select {
		case <-r.done:
			if !r.canceled {
				return r.stream, r.begin, r.err
			}
		case <-ctx.Done():
			return nil, time.Time{}, ctx.Err()
		}
	}
}
