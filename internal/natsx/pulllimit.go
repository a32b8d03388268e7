package natsx

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// minFetchBytes is the least that a pull may be reduced to. A larger message is pulled alone.
	minFetchBytes = 64 << 10
	// pullLimitAge is how long the connection has to last before a reduced pull is doubled.
	pullLimitAge = time.Hour
	// breakWindow is the time within which a second break has the same reason. A network failure breaks it once.
	breakWindow = time.Minute
)

// PullLimit is the maximum number of bytes of one pull of a connection. A server disconnects a client for which more
// than its max_pending wait to be written, and no client can ask for that limit. So a pull is halved when the
// connection broke during pulls twice within breakWindow, until the server keeps the connection. A break does not count
// if the client is with a server after it that it did not know: a restarted server has a new id. Safe for concurrent
// use; a nil one does not change.
type PullLimit struct {
	nc  *nats.Conn
	log *slog.Logger

	mu         sync.Mutex
	bytes      int64
	reconnects uint64    // of the connection, when it was last seen to work
	isBroken   bool      // a pull saw the connection break, and it is not restored yet
	brokeAt    time.Time // when that last happened
	changedAt  time.Time // when bytes was reduced or doubled
	isLogged   bool
	servers    map[string]bool // the ids of those that the connection was with
}

// NewPullLimit returns the limit of a connection, which begins at MaxFetchBytes.
func NewPullLimit(nc *nats.Conn, log *slog.Logger) *PullLimit {
	return &PullLimit{nc: nc, log: log, bytes: MaxFetchBytes, reconnects: nc.Stats().Reconnects,
		servers: map[string]bool{nc.ConnectedServerId(): true}}
}

// Bytes is the present limit.
func (p *PullLimit) Bytes() int64 {
	if p == nil {
		return MaxFetchBytes
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes < MaxFetchBytes && time.Since(p.changedAt) > pullLimitAge {
		p.bytes, p.changedAt = min(2*p.bytes, MaxFetchBytes), time.Now()
	}
	return p.bytes
}

// Fetch sends one pull request for at most maxMessages and about maxBytes, within the limit, calls handle with each
// message in order, and returns the number of messages.
//
// A server refuses a pull request whose byte limit is below the next message, indefinitely and without an error that
// reaches the caller. So the limit is never below the server's max_payload, which is read for each request because it
// may change with a reconnect. A message stored under a larger max_payload ends the request at once and empty; then one
// message is requested without a byte limit.
func (p *PullLimit) Fetch(ctx context.Context, js jetstream.JetStream, c jetstream.Consumer, maxMessages int,
	maxBytes int64, handle func(*Message)) (int, error) {
	nc := js.Conn()
	limit := max(min(maxBytes, MaxFetchBytes), nc.MaxPayload()+MaxHeaderBytes)
	if now := p.Bytes(); now < MaxFetchBytes {
		limit = min(limit, now)
	}
	begin := time.Now()
	n, err := Pull(ctx, js, c, maxMessages, int(limit), handle)
	p.observe(limit)
	if n > 0 || err != nil || time.Since(begin) > fetchWait/2 {
		return n, err
	}
	return Pull(ctx, js, c, 1, 0, handle)
}

// observe halves the limit if the connection was lost again during a pull. It does not require that bytes of the pull
// have arrived: a server that disconnects a slow client discards the pending bytes.
func (p *PullLimit) observe(limit int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	reconnects, isConnected := p.nc.Stats().Reconnects, p.nc.IsConnected()
	if reconnects != p.reconnects || !isConnected {
		p.isBroken = true
	}
	p.reconnects = reconnects
	if !p.isBroken || !isConnected {
		return
	}
	p.isBroken = false
	if id := p.nc.ConnectedServerId(); !p.servers[id] {
		p.servers[id] = true
		return
	}
	isAgain := time.Since(p.brokeAt) < breakWindow
	if p.brokeAt = time.Now(); !isAgain {
		return
	}
	p.bytes, p.changedAt = max(min(p.bytes, limit)/2, minFetchBytes), time.Now()
	if !p.isLogged {
		p.isLogged = true
		p.log.Warn("the connection broke again during a pull; less is pulled at a time, since the server's max_pending may "+
			"be below a pull: raise it", "bytes", p.bytes)
	}
}
