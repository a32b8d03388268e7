package connection

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// Options say how to connect.
type Options struct {
	Wait   time.Duration // for the first connection
	Logger *slog.Logger  // default: no logs
	// Server is a server in this process, which is reached without a socket.
	Server nats.InProcessConnProvider
}

// Conn is a connection that reconnects for ever.
type Conn struct {
	*nats.Conn
	target target
	log    *slog.Logger
	closed chan struct{}

	received atomic.Uint64 // bytes, also of a message that has not come whole

	mu     sync.Mutex
	way    net.Conn // to the server, as it was made last
	down   outage
	denied []string             // what the server denied, the last of them last
	told   map[string]time.Time // when a report of the client was logged
}

const retryPause = 250 * time.Millisecond

// Dial reaches the server that n names, trying again until the wait is over.
func Dial(ctx context.Context, n config.NATS, o Options) (*Conn, error) {
	t, err := targetOf(n)
	if err != nil {
		return nil, err
	}
	c := &Conn{target: t, log: o.Logger, closed: make(chan struct{}), told: map[string]time.Time{}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	if o.Server != nil {
		options = append(options, nats.InProcessServer(o.Server))
	}
	for deadline := time.Now().Add(o.Wait); ; {
		nc, err := nats.Connect(strings.Join(t.servers, ","), options...)
		if err == nil {
			c.mu.Lock()
			c.Conn = nc
			c.mu.Unlock()
			return c, nil
		}
		last := time.Now().Add(retryPause).After(deadline)
		switch {
		case !passes(err):
			return nil, c.explain(err)
		case last && o.Wait > 0:
			return nil, fmt.Errorf("no connection within %v: %w", o.Wait, c.explain(err))
		case last:
			return nil, c.explain(err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(retryPause):
		}
	}
}

// JetStream is the server's JetStream, in the domain that was asked for.
func (c *Conn) JetStream() (jetstream.JetStream, error) {
	if c.target.prefix == "" {
		return jetstream.New(c.Conn)
	}
	return jetstream.NewWithAPIPrefix(c.Conn, c.target.prefix)
}

// APIPrefix begins the subjects of JetStream's requests; "" is the usual one.
func (c *Conn) APIPrefix() string { return c.target.prefix }

// Prefixes begin the requests of JetStream and the answers to requests where n connects; "" are the usual ones.
func Prefixes(n config.NATS) (api, inbox string, err error) {
	t, err := targetOf(n)
	return t.prefix, t.inbox, err
}

// Address is where the connection leads, without secrets.
func (c *Conn) Address() string {
	if url := c.ConnectedUrl(); url != "" {
		return config.Redact(url)
	}
	return c.target.where
}

// Ended is closed when the connection has ended and will not come back: by Close, or by what no further attempt can
// mend.
func (c *Conn) Ended() <-chan struct{} { return c.closed }

// Leave ends the way to the server, and the client makes one to another of those that it knows. It waits for nothing: a
// server that takes nothing that is written to it holds the client itself up.
func (c *Conn) Leave() error {
	c.mu.Lock()
	way := c.way
	c.mu.Unlock()
	if way == nil {
		return nil // a server in this process
	}
	return way.Close()
}

// Received is how many bytes have come from servers.
func (c *Conn) Received() uint64 { return c.received.Load() }

// nc is the client's connection, nil before the first connect has returned.
func (c *Conn) nc() *nats.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Conn
}
