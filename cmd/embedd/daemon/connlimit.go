package daemon

import (
	"net"
	"slices"
	"sync"
)

// maxConnections is the number of connections over which probes, metrics and the API are requested, besides those of
// event streams. A kubelet, a few Prometheus servers and browsers use a handful; each may take half a megabyte while
// its client does not read.
const maxConnections = 32

// maxConnectionStreams is the number of concurrent requests of one connection over HTTP/2. A page in a browser uses one
// event stream and a few requests.
const maxConnectionStreams = 16

// connLimit bounds the open connections (Invariant 5). It refuses no new one, so that probes are answered while another
// client holds as many as it can: it closes the oldest one of the address that has most. Safe for concurrent use.
type connLimit struct {
	mu   sync.Mutex
	open []*limitedConn // oldest first
}

// limitedConn is a connection that counts until it is closed.
type limitedConn struct {
	net.Conn
	limit *connLimit
	host  string
}

// add counts a connection. streams is how many there may be for event streams.
func (l *connLimit) add(c net.Conn, streams int) net.Conn {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	one := &limitedConn{c, l, host}
	l.mu.Lock()
	l.open = append(l.open, one)
	var victim *limitedConn
	if len(l.open) > maxConnections+streams {
		victim = l.victim()
	}
	l.mu.Unlock()
	if victim != nil {
		victim.Close()
	}
	return one
}

// victim is the oldest connection of the address that has most. The caller holds the lock.
func (l *connLimit) victim() (oldest *limitedConn) {
	counts := map[string]int{}
	most := 0
	for _, c := range l.open {
		counts[c.host]++
		most = max(most, counts[c.host])
	}
	for _, c := range l.open {
		if counts[c.host] == most {
			return c
		}
	}
	return nil
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.limit.mu.Lock()
	c.limit.open = slices.DeleteFunc(c.limit.open, func(one *limitedConn) bool { return one == c })
	c.limit.mu.Unlock()
	return c.Conn.Close()
}
