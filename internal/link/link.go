// Package link is a TCP proxy to a server, for tests and the soak, that can delay, drop or end the traffic.
package link

import (
	"net"
	"sync"
)

// Watch is called with each piece before it is forwarded. It may block to delay the piece; an error closes the
// connection and drops the piece. Each connection calls it from one goroutine.
type Watch func(piece []byte) error

// Link is an address of this machine from which connections are carried to a server.
type Link struct {
	listener net.Listener
	to       string

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
	group  sync.WaitGroup
}

// New forwards connections to an address. up is called for traffic to the address, down for traffic from it; nil
// forwards everything.
func New(to string, up, down Watch) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, to: to, open: map[net.Conn]bool{}}
	l.group.Go(func() { l.accept(up, down) })
	return l, nil
}

// Address is where the link is reached.
func (l *Link) Address() string { return l.listener.Addr().String() }

func (l *Link) accept(up, down Watch) {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.to)
		if err != nil {
			near.Close()
			continue
		}
		if !l.add(near, far) {
			return
		}
		l.group.Go(func() { l.carry(far, near, up) })
		l.group.Go(func() { l.carry(near, far, down) })
	}
}

func (l *Link) add(both ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range both {
		if l.closed {
			c.Close()
		} else {
			l.open[c] = true
		}
	}
	return !l.closed
}

// carry forwards pieces in one direction until either end is closed.
func (l *Link) carry(to, from net.Conn, watch Watch) {
	defer l.drop(to, from)
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 && watch != nil && watch(piece[:n]) != nil {
			return
		}
		if n > 0 {
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *Link) drop(both ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range both {
		c.Close()
		delete(l.open, c)
	}
}

// Cut ends every connection; new ones are carried.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.Close()
	}
}

// Close ends everything and waits for it. What watches must let go by itself.
func (l *Link) Close() {
	l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.Cut()
	l.group.Wait()
}
