// Package connection connects verbs to a NATS server: by URLs or a context, with every kind of login, and TLS. A
// connection reconnects indefinitely and reads its login again each time. Its errors have the cause and the fix, and
// never a secret: users and tokens are removed from the URLs before the client sees them.
package connection

import (
	"cmp"
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
	"github.com/embedd/embedd/internal/natsx"
)

// Options are the options of Dial.
type Options struct {
	Wait   time.Duration // for the first connection
	Logger *slog.Logger  // default: no logs
	Inbox  string        // of the role that connects: tokens behind the prefix of reply subjects; "" = none
	// Server is a server in this process, to connect to without a socket.
	Server nats.InProcessConnProvider
}

// Conn is a connection that reconnects indefinitely.
type Conn struct {
	*nats.Conn
	target target
	log    *slog.Logger
	closed chan struct{}

	received atomic.Uint64                                // bytes, also those of an incomplete message
	relogin  atomic.Pointer[func() (config.Login, error)] // instead of that of target, if not nil

	mu       sync.Mutex
	raw      net.Conn // the current network connection
	down     outage
	denied   []string             // permissions that the server denied, the newest last
	loggedAt map[string]time.Time // when an error was last logged
}

const retryPause = 250 * time.Millisecond

// Dial connects to the server that n names. It retries until the wait is over. Each attempt may take twice as long as
// the one before, so that a server that answers late is reached, and later attempts to reconnect wait as long.
func Dial(ctx context.Context, n config.NATS, o Options) (*Conn, error) {
	t, err := targetOf(n)
	if err != nil {
		return nil, err
	}
	c := &Conn{target: t, log: o.Logger, closed: make(chan struct{}), loggedAt: map[string]time.Time{}}
	if o.Inbox != "" {
		c.target.inbox = cmp.Or(t.inbox, strings.TrimSuffix(nats.InboxPrefix, ".")) + "." + o.Inbox
	}
	c.log = cmp.Or(c.log, slog.New(slog.DiscardHandler))
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	if o.Server != nil {
		options = append(options, nats.InProcessServer(o.Server))
	}
	timeout := nats.DefaultTimeout
	for deadline := time.Now().Add(o.Wait); ; timeout = max(timeout, min(2*timeout, time.Until(deadline))) {
		nc, err := nats.Connect(strings.Join(t.servers, ","), append(options, nats.Timeout(timeout))...)
		if err == nil {
			c.mu.Lock()
			c.Conn = nc
			c.mu.Unlock()
			return c, nil
		}
		last := time.Now().Add(retryPause).After(deadline)
		switch {
		case !shouldRetry(err):
			return nil, c.explain(err)
		case last && o.Wait > 0:
			return nil, fmt.Errorf("no connection within %v: %w", o.Wait, c.explain(err))
		case last:
			return nil, c.explain(err)
		}
		if !natsx.Sleep(ctx, retryPause) {
			return nil, ctx.Err()
		}
	}
}

// JetStream is the JetStream context of the configured domain.
func (c *Conn) JetStream() (jetstream.JetStream, error) {
	if c.target.prefix == "" {
		return jetstream.New(c.Conn)
	}
	return jetstream.NewWithAPIPrefix(c.Conn, c.target.prefix)
}

// APIPrefix is the prefix of JetStream API subjects, "" for the default.
func (c *Conn) APIPrefix() string { return c.target.prefix }

// Prefixes are the prefixes of JetStream API subjects and of reply subjects for n, "" for the defaults.
func Prefixes(n config.NATS) (api, inbox string, err error) {
	t, err := targetOf(n)
	return t.prefix, t.inbox, err
}

// Address is the address of the server, without secrets.
func (c *Conn) Address() string {
	if url := c.ConnectedUrl(); url != "" {
		return config.Redact(url)
	}
	return c.target.where
}

// Ended is closed when the connection has ended for good: by Close, or by an error that a reconnect cannot fix.
func (c *Conn) Ended() <-chan struct{} { return c.closed }

// Leave closes the network connection, so that the client reconnects to another server. It does not block: a server
// that does not read blocks the client itself.
func (c *Conn) Leave() error {
	c.mu.Lock()
	raw := c.raw
	c.mu.Unlock()
	if raw == nil {
		return nil // a server in this process
	}
	return raw.Close()
}

// Received is the number of bytes received from servers.
func (c *Conn) Received() uint64 { return c.received.Load() }

// nc is the connection of the client, nil before the first connect returns.
func (c *Conn) nc() *nats.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Conn
}
