package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is what lies between the daemon and the server. It carries everything, or cuts all connections, or holds what
// is sent: then neither side hears of the other, as across a network that has parted.
type link struct {
	listener net.Listener
	to       string
	held     atomic.Bool
	delay    atomic.Int64 // nanoseconds that each piece takes

	mu    sync.Mutex
	open  map[net.Conn]bool
	group sync.WaitGroup
}

func newLink(to string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, to: to, open: map[net.Conn]bool{}}
	l.group.Go(l.accept)
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) accept() {
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
		l.mu.Lock()
		l.open[near], l.open[far] = true, true
		l.mu.Unlock()
		l.group.Go(func() { l.carry(far, near) })
		l.group.Go(func() { l.carry(near, far) })
	}
}

// carry brings bytes one way until either end is gone.
func (l *link) carry(to, from net.Conn) {
	defer l.drop(to, from)
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		for l.held.Load() {
			time.Sleep(5 * time.Millisecond)
		}
		if d := l.delay.Load(); d > 0 {
			time.Sleep(time.Duration(d))
		}
		if n > 0 {
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err == io.EOF || err != nil {
			return
		}
	}
}

func (l *link) drop(both ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range both {
		c.Close()
		delete(l.open, c)
	}
}

// cut ends every connection.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.Close()
	}
}

func (l *link) close() {
	l.listener.Close()
	l.held.Store(false)
	l.cut()
	l.group.Wait()
}
