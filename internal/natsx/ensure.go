package natsx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// ensureWait is how long the servers of a cluster may take to know what was created.
	ensureWait = 30 * time.Second
	// ensureDelay is the time between two requests for it.
	ensureDelay = 250 * time.Millisecond
	// RecreateDelay is how long a stream or bucket has to be missing before it is created again: a server that is still
	// deleting it deletes the files of the new one too (nats-server 2.15.2), which then stores nothing.
	RecreateDelay = 2 * time.Second
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

// Recreating returns a function that does the same for what was there before: once it has been missing for
// RecreateDelay, for which the function waits. If ctx ends first, the next call within ensureWait waits for the rest.
func Recreating[T any](open func(context.Context) (T, error), create func(context.Context) error) func(
	context.Context) error {
	var missing atomic.Pointer[time.Time] // since when; nil: it is not known to be missing
	return func(ctx context.Context) error {
		_, err := open(ctx)
		if IsNotFound(err) {
			now := time.Now()
			since := missing.Load()
			if since == nil || now.Sub(*since) > ensureWait { // another process may have created it since then
				since = &now
				missing.Store(since)
			}
			if !Sleep(ctx, time.Until(since.Add(RecreateDelay))) {
				return err
			}
			_, err = Ensure(ctx, open, create)
		}
		if err == nil {
			missing.Store(nil)
		}
		return err
	}
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

// IsNotFound reports whether an error of the server is that a stream or bucket does not exist.
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
