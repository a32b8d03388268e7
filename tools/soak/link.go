package main

import (
	"sync/atomic"
	"time"

	carrier "github.com/embedd/embedd/internal/link"
)

// link is the network between the daemon and the server. It forwards everything, or cuts all connections, or holds all
// data: then neither side receives anything from the other, as in a partitioned network.
type link struct {
	*carrier.Link
	held  atomic.Bool
	delay atomic.Int64 // delay of each piece, in nanoseconds
}

func newLink(to string) (l *link, err error) {
	l = &link{}
	l.Link, err = carrier.New(to, l.watch, l.watch)
	return l, err
}

func (l *link) watch([]byte) error {
	for l.held.Load() {
		time.Sleep(5 * time.Millisecond)
	}
	if d := l.delay.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	return nil
}

func (l *link) close() {
	l.held.Store(false)
	l.Close()
}
