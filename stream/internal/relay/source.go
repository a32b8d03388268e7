package relay

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/stream/internal/lease"
)

// source is a durable consumer of the input stream. A pipeline has one, which all of its replicas share. With
// partitions it has one for each partition, which one replica owns at a time.
type source struct {
	durable    string
	filter     string // the subjects that it delivers, as they are in the stream
	identity   consumerIdentity
	attempts   attempts
	unbind     atomic.Pointer[context.CancelFunc] // see requestRebind; nil before the first binding
	ahead      atomic.Int64                       // by how much the clock of the stream's server is ahead of ours
	isMirror   atomic.Bool                        // the messages have the times of another server
	*ownership                                    // nil: replicas share it, and keep no order between them
}

// ownership is the time in which this process owns a partition, from one binding of its consumer to the next.
type ownership struct {
	lease     *lease.Lease
	term      uint64
	isAborted atomic.Bool        // an input was not answered, so the inputs behind it must not be answered either
	stop      context.CancelFunc // ends the pull

	previous bookmark  // as the owner before this one left it
	current  bookmark  // of this process
	answered *bookmark // of this owner; its floor is up to where it has answered everything
	first    uint64    // sequence of the first unacknowledged message, 0 once it was delivered
	taken    uint64    // sequence of the newest message that was pulled, 0: none
	// hasPostponed is set once an input was postponed: then it is not answered although it is not in flight.
	hasPostponed atomic.Bool

	inFlight int           // messages between pull and acknowledgement; guarded by the mutex of type inFlight
	removed  chan struct{} // signalled when one leaves
}

// requestRebind makes the puller bind the consumer again, because it was deleted or created again.
func (s *source) requestRebind() {
	if unbind := s.unbind.Load(); unbind != nil {
		(*unbind)()
	}
}

// isOrdered reports whether the messages are answered in stream order.
func (s *source) isOrdered() bool { return s != nil && s.ownership != nil }

// isOwned reports whether this process may answer the messages, by its own clock. A lease that expired is lost, even if
// it was renewed later, under another term: an input that was not answered in between must be answered first.
func (s *source) isOwned() bool { return !s.isOrdered() || s.lease.Term() == s.term }

// isActive reports whether the next message may be answered.
func (s *source) isActive() bool { return s.isOwned() && (!s.isOrdered() || !s.isAborted.Load()) }

// abort ends the ownership. Nothing more is answered until the consumer is bound again and has delivered all
// unacknowledged messages again.
func (o *ownership) abort() {
	o.isAborted.Store(true)
	o.stop()
}

// errNotOwned is the error of an answer that is not sent, because another replica may own the partition of its input.
var errNotOwned = errors.New("another replica may hold the partition now")

// bookmark is what the owner of a partition stores for the next one: where its consumer starts, and whether it ended
// cleanly.
type bookmark struct {
	Created time.Time `json:"created"` // of the stream
	Floor   uint64    `json:"floor"`   // up to here all messages are acknowledged
	UpTo    uint64    `json:"up_to"`   // up to here some may be answered
	Deaths  uint64    `json:"deaths"`  // how often an owner ended at this floor without a clean end
	Holder  string    `json:"holder"`  // the owner; "" when all that it pulled is answered
	// Of an owner that ended so: when, and up to where inputs may be answered, none behind; 0 if that is not known.
	Ended  time.Time `json:"ended,omitzero"`
	Newest uint64    `json:"newest,omitempty"`
}

// maxHandOver is how old the bookmark of an owner that ended may be so that the next one relies on it, or half the
// duplicate window of the outputs. A server that lost power may have lost a later one: what was answered since is then
// in that window.
const maxHandOver = 10 * time.Second

// newestAnswered is the sequence up to which inputs may be answered, as of a time, with a duplicate window of the
// outputs; 0: it must be read from the outputs.
func (b *bookmark) newestAnswered(at time.Time, window time.Duration) uint64 {
	if b.Holder != "" || at.Sub(b.Ended).Abs() > min(maxHandOver, window/2) {
		return 0
	}
	return b.Newest
}
