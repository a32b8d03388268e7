package natsx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/wildcard"
)

const (
	// ensureWait is how long the servers of a cluster may take to know what was created.
	ensureWait = 30 * time.Second
	// ensureDelay is the time between two requests for it.
	ensureDelay = 250 * time.Millisecond
)

// Ensure opens a stream or bucket, and creates it where it is missing. In a cluster another server may answer the next
// request and not know yet what was just created, so open is then repeated while it reports that it is missing. It is
// not an error if another replica creates it first.
func Ensure[T any](ctx context.Context, open func(context.Context) (T, error),
	create func(context.Context) error) (T, error) {
	opened, err := open(ctx)
	if !IsNotFound(err) {
		return opened, err
	}
	if err := create(ctx); err != nil && !IsAlreadyInUse(err) {
		return opened, err
	}
	return Await(ctx, open)
}

// ErrNotKnownYet reports that a server does not know yet what was created.
var ErrNotKnownYet = errors.New("it was created, and the server that answers does not know it yet")

// Await opens a stream or bucket that exists, and repeats it while the server that answers does not know it yet. After
// ensureWait it fails with ErrNotKnownYet: a start, which may wait longer, tries again.
func Await[T any](ctx context.Context, open func(context.Context) (T, error)) (T, error) {
	for end := time.Now().Add(ensureWait); ; {
		opened, err := open(ctx)
		if !IsNotFound(err) {
			return opened, err
		}
		if time.Now().After(end) || !Sleep(ctx, ensureDelay) {
			return opened, fmt.Errorf("%w: %w", err, ErrNotKnownYet)
		}
	}
}

// AwaitStream is Await for the request of a stream by name.
func AwaitStream(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	return Await(ctx, func(ctx context.Context) (jetstream.Stream, error) { return js.Stream(ctx, name) })
}

// CreateStream creates a stream with a number of replicas (see WithReplicas). One that exists is no error: another
// replica was faster.
func CreateStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig, replicas int) error {
	err := WithReplicas(js, replicas, func(n int) error {
		c.Replicas = n
		_, err := js.CreateStream(ctx, c)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}
	return err
}

// FindStream returns a stream, nil if it does not exist.
func FindStream(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	return s, err
}

// StreamsOf lists the streams that take a subject or a part of it.
func StreamsOf(ctx context.Context, js jetstream.JetStream, subject string) (out []jetstream.Stream, err error) {
	names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
	for name := range names.Name() {
		s, err := FindStream(ctx, js, name)
		if err != nil {
			return nil, ExplainAPIError(err)
		}
		if s != nil {
			out = append(out, s)
		}
	}
	return out, ExplainAPIError(names.Err())
}

// LastMessage returns the last message of a subject, nil if there is none.
func LastMessage(ctx context.Context, s jetstream.Stream, subject string) (*jetstream.RawStreamMsg, error) {
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return m, err
}

// StreamName returns the name of the stream that takes a subject. Of a subject with wildcards it is the stream that
// takes all of it, else the error is [jetstream.ErrStreamNotFound].
func StreamName(ctx context.Context, js jetstream.JetStream, subject string) (string, error) {
	if !strings.ContainsAny(subject, "*>") {
		return js.StreamNameBySubject(ctx, subject)
	}
	names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
	var overlap []string
	for name := range names.Name() {
		overlap = append(overlap, name)
	}
	if err := names.Err(); err != nil {
		return "", err
	}
	for _, name := range overlap {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return "", err
		}
		if wildcard.CoveredBy(subject, s.CachedInfo().Config.Subjects) {
			return name, nil
		}
	}
	return "", jetstream.ErrStreamNotFound
}

// IsNotFound reports whether the server says that a stream or bucket does not exist.
func IsNotFound(err error) bool {
	return errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// IsAlreadyInUse reports whether a create failed because a stream or bucket of the name exists.
func IsAlreadyInUse(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, jetstream.ErrBucketExists)
}

// Error codes of a server that cannot place the requested replicas; the client has no names for them.
const (
	errCodeNoPeers             jetstream.ErrorCode = 10005
	errCodeInsufficientServers jetstream.ErrorCode = 10023
	errCodeNoCluster           jetstream.ErrorCode = 10074 // a leaf node reports a cluster name without being clustered
)

// WithReplicas creates something with a number of replicas; 0 is three in a cluster that has as many servers, else one.
func WithReplicas(js jetstream.JetStream, replicas int, create func(replicas int) error) error {
	if replicas > 0 {
		return create(replicas)
	}
	if js.Conn().ConnectedClusterName() == "" {
		return create(1)
	}
	err := create(3)
	api, ok := errors.AsType[*jetstream.APIError](err)
	if ok && slices.Contains([]jetstream.ErrorCode{errCodeNoPeers, errCodeInsufficientServers, errCodeNoCluster},
		api.ErrorCode) {
		return create(1)
	}
	return err
}

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
	value, _, err := c.GetAt(ctx, name, request)
	return value, err
}

// GetAt is Get with the time at which the request began.
func (c *Cache[T]) GetAt(ctx context.Context, name string, request func(context.Context) (T, error)) (T, time.Time,
	error) {
	for {
		c.mu.Lock()
		r := c.requests[name]
		if r == nil || r.canceled || time.Since(r.begin) > c.age {
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

const (
	hedgeWait  = 5 * time.Second
	hedgeDelay = time.Second
	maxHedges  = int(hedgeWait / hedgeDelay)
)

// Hedge sends a request, and again each second while it is unanswered, for five seconds. It returns the first answer.
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
	ctx, cancel := context.WithTimeout(ctx, hedgeWait)
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

// Backoff waits before the next attempt, 50 ms after the first and up to 5 s, and returns false if ctx ends first.
func Backoff(ctx context.Context, attempt int) bool {
	return Sleep(ctx, min(50*time.Millisecond<<min(attempt, 8), 5*time.Second))
}

// Sleep waits, and returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
