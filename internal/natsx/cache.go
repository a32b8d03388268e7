package natsx

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// streamCacheAge is how long an answer about a stream is shared.
const streamCacheAge = time.Second

// StreamCache shares stream info requests among the pipelines of an engine: a thousand of them write to a few streams.
type StreamCache = Cache[jetstream.Stream]

// Cache shares the answers to requests among concurrent callers, for a time.
type Cache[T any] struct {
	age      time.Duration
	mu       sync.Mutex
	requests map[string]*sharedRequest[T]
}

// sharedRequest is a request; its result is there when done is closed.
type sharedRequest[T any] struct {
	begin    time.Time
	done     chan struct{}
	value    T
	err      error
	canceled bool // the requester's context ended; other callers request again
}

// NewStreamCache returns an empty cache.
func NewStreamCache() *StreamCache { return NewCache[jetstream.Stream](streamCacheAge) }

// NewCache returns an empty cache of answers that are shared for a time.
func NewCache[T any](age time.Duration) *Cache[T] {
	return &Cache[T]{age: age, requests: map[string]*sharedRequest[T]{}}
}

// Get returns what a request returned that began at most the age of the cache ago, and calls request if no other caller
// has. Callers share the value; of a stream they must only read the cached info.
func (c *Cache[T]) Get(ctx context.Context, name string, request func(context.Context) (T, error)) (T, error) {
	value, _, err := c.GetAt(ctx, name, time.Time{}, request)
	return value, err
}

// GetAt is Get for a request that began after a time, and returns when it began.
func (c *Cache[T]) GetAt(ctx context.Context, name string, after time.Time,
	request func(context.Context) (T, error)) (T, time.Time, error) {
	for {
		c.mu.Lock()
		r := c.requests[name]
		if r == nil || r.canceled || time.Since(r.begin) > c.age || !r.begin.After(after) {
			r = &sharedRequest[T]{begin: time.Now(), done: make(chan struct{})}
			c.requests[name] = r
			c.mu.Unlock()
			r.value, r.err = request(ctx)
			c.mu.Lock()
			r.canceled = r.err != nil && ctx.Err() != nil
			c.mu.Unlock()
			close(r.done)
			return r.value, r.begin, r.err
		}
		c.mu.Unlock()
		select {
		case <-r.done:
			if !r.canceled {
				return r.value, r.begin, r.err
			}
		case <-ctx.Done():
			var none T
			return none, time.Time{}, ctx.Err()
		}
	}
}
