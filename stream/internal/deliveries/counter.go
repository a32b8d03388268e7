// Package deliveries finds out whether a client that is no replica takes messages from a pipeline's durable consumer:
// it compares what the server has delivered with what all replicas report that they have received.
package deliveries

import (
	"sync/atomic"

	"github.com/embedd/embedd/stream/spec"
)

// Counter counts what this replica receives from the consumer. One goroutine pulls; Report is safe for concurrent use.
type Counter struct {
	received, newest, ended, failed atomic.Uint64
	isOpen                          atomic.Bool
}

// Begin notes that a pull begins.
func (c *Counter) Begin() { c.isOpen.Store(true) }

// Add counts a message of the pull, with its consumer sequence.
func (c *Counter) Add(sequence uint64) {
	c.received.Add(1)
	c.newest.Store(sequence)
}

// End notes that the pull has ended. Without an error all messages that the server sent for it were counted.
func (c *Counter) End(err error) {
	if err != nil {
		c.failed.Add(1)
	}
	c.ended.Add(1)
	c.isOpen.Store(false)
}

// Report returns the counts, for the status; reconnects are those of the connection, to a server.
func (c *Counter) Report(reconnects uint64, server string) *spec.Deliveries {
	d := &spec.Deliveries{Pulling: c.isOpen.Load(), Pulls: c.ended.Load(), Newest: c.newest.Load()}
	d.Received = c.received.Load() // read last: it has all messages of pulls that have ended, and before the newest
	d.Interruptions, d.Server = c.failed.Load()+reconnects, server
	return d
}
