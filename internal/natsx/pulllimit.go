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
)

// PullLimit is the maximum number of bytes of one pull of a connection. A server disconnects a client for which more
// than its max_pending wait to be written, and no client can ask for that limit. So a pull during which the connection
// broke is halved, until the server keeps the connection. Safe for concurrent use; a nil one does not change.
type PullLimit struct {
	nc  *nats.Conn
	log *slog.Logger

	mu         sync.Mutex
	bytes      int64
	reconnects uint64    // of the connection, when it was last seen to work
	brokeAt    time.Time // when it was last reduced or doubled
	broken     string    // server of a pull that saw the connection break; "" = none since it worked
	suspected  bool      // that happened, and another server took over
	isLogged   bool
}

// NewPullLimit returns the limit of a connection, which begins at MaxFetchBytes.
func NewPullLimit(nc *nats.Conn, log *slog.Logger) *PullLimit {
	return &PullLimit{nc: nc, log: log, bytes: MaxFetchBytes, reconnects: nc.Stats().Reconnects}
}

// Bytes is the present limit.
func (p *PullLimit) Bytes() int64 {
	if p == nil {
		return MaxFetchBytes
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes < MaxFetchBytes && time.Since(p.brokeAt) > pullLimitAge {
		p.bytes, p.brokeAt = min(2*p.bytes, MaxFetchBytes), time.Now()
	}
	return p.bytes
}

// Fetch is the function Fetch within the limit.
func (p *PullLimit) Fetch(ctx context.Context, js jetstream.JetStream, c jetstream.Consumer, maxMessages int,
	maxBytes int64, handle func(*Message)) (int, error) {
	nc := js.Conn()
	limit := max(min(maxBytes, MaxFetchBytes), nc.MaxPayload()+MaxHeaderBytes)
	if now := p.Bytes(); now < MaxFetchBytes {
		limit = min(limit, now)
	}
	server, received, begin := nc.ConnectedServerId(), nc.Stats().InBytes, time.Now()
	n, err := Pull(ctx, js, c, maxMessages, int(limit), handle)
	p.observe(server, int64(nc.Stats().InBytes-received), limit, n)
	if n > 0 || err != nil || time.Since(begin) > fetchWait/2 {
		return n, err
	}
	return Pull(ctx, js, c, 1, 0, handle)
}

// observe halves the limit if the connection to a server broke while it was sending. The same server took it back:
// it had not stopped. Where another one did, the first may have stopped, and only the second time in a row counts.
func (p *PullLimit) observe(server string, received, limit int64, messages int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	reconnects, now := p.nc.Stats().Reconnects, p.nc.ConnectedServerId()
	broke := reconnects != p.reconnects || now == ""
	if broke && p.broken == "" && received > 0 {
		p.broken = server
	}
	if !broke && messages > 0 {
		p.suspected = false
	}
	if now == "" || p.broken == "" { // not connected again yet; or it worked, or was idle when it broke
		p.reconnects = reconnects
		return
	}
	isSame := p.broken == now
	p.reconnects, p.broken = reconnects, ""
	if !isSame && !p.suspected {
		p.suspected = true
		return
	}
	p.suspected, p.brokeAt = false, time.Now()
	p.bytes = max(min(p.bytes, limit)/2, minFetchBytes)
	if !p.isLogged {
		p.isLogged = true
		p.log.Warn("the connection broke while the server was sending; less is pulled at a time, since the server's "+
			"max_pending may be below a pull: raise it", "bytes", p.bytes)
	}
}
