package relay

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/scope"
)

// consumerIdentity verifies, before an acknowledgement, that a durable consumer is still the one that delivered the
// messages in flight. If the stream and the consumer were recreated, the names and the sequence number of the
// acknowledgement mean another message. While a pull is open the consumer exists, since the server ends the pull when
// its consumer is deleted. Otherwise the server is asked.
type consumerIdentity struct {
	mu         sync.Mutex
	created    time.Time
	pulls      int       // pulls that were started
	isPulling  bool      // the newest of them is open
	verified   int       // the newest pull that is known to be open at this consumer
	reconnects uint64    // of the connection when it was verified
	verifiedAt time.Time // when the server last confirmed the consumer
}

// verificationTTL is how long a verification holds while no pull is open. A user does not recreate a stream and its
// consumer, publishes, and pulls within this time. Under load it saves a request for each acknowledgement.
const verificationTTL = 2 * time.Millisecond

// bind starts with a consumer.
func (i *consumerIdentity) bind(c jetstream.Consumer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.created = c.CachedInfo().Created
}

// beginPull notes that a pull is open until end is called.
func (i *consumerIdentity) beginPull() (end func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pulls++
	i.isPulling = true
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.isPulling = false
	}
}

// isVerified reports whether the consumer is known to be the same without asking the server.
func (i *consumerIdentity) isVerified(nc *nats.Conn) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return (i.isPulling && i.verified == i.pulls || time.Since(i.verifiedAt) < verificationTTL) && nc.IsConnected() &&
		nc.Stats().Reconnects == i.reconnects
}

// verify asks the server whether the consumer is the same.
func (i *consumerIdentity) verify(ctx context.Context, s *scope.Scope, durable string) (bool, error) {
	i.mu.Lock()
	created, pulls, reconnects, now := i.created, i.pulls, s.Conn.Stats().Reconnects, time.Now()
	i.mu.Unlock()
	c, err := natsx.Consumer(ctx, s.JS, s.Stream, durable)
	if err != nil || !c.CachedInfo().Created.Equal(created) {
		return false, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.verified, i.reconnects, i.verifiedAt = pulls, reconnects, now
	return true, nil
}
