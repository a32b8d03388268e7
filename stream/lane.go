package stream

import (
	"context"
	"sync/atomic"

	"github.com/embedd/embedd/stream/lease"
)

// lane is a durable consumer of the input, and how the hot path stands with it. A pipeline has one, which its replicas
// share; with partitions it has one for each of them, which one replica holds at a time.
type lane struct {
	durable string
	filter  string // the subjects that it brings, as the stream has them
	binding binding
	trials  trials
	lose    atomic.Pointer[context.CancelFunc] // says that the consumer that is bound is gone
	*hold                                      // nil: replicas share it, and no order is kept between them
}

// hold is a partition that this process holds, from one binding of its consumer to the next.
type hold struct {
	lease  *lease.Lease
	held   lease.Tenure
	broken atomic.Bool        // something was not answered: what comes behind it is not either
	stop   context.CancelFunc // ends the pull

	was   bookmark // of whoever held it before
	at    bookmark // of this process
	first uint64   // the first message that is not acknowledged, 0 once it came

	inside int           // messages between pull and acknowledgement, under the lock of held
	left   chan struct{} // signalled when one was taken out
}

// inOrder tells whether what it brings is answered in the order of the stream.
func (l *lane) inOrder() bool { return l != nil && l.hold != nil }

// mine tells whether this process still holds it, as far as its clock says. One that lapsed is lost for good, though it
// was renewed late under the same term: what came meanwhile was not answered, and has to come before what is here.
func (l *lane) mine() bool { return !l.inOrder() || l.lease.Tenure() == l.held }

// goesOn tells whether what comes next may be answered.
func (l *lane) goesOn() bool { return l.mine() && (!l.inOrder() || !l.broken.Load()) }

// breakOff ends it: nothing more is answered before it was bound again, and everything that is not acknowledged came
// again.
func (h *hold) breakOff() {
	h.broken.Store(true)
	h.stop()
}
