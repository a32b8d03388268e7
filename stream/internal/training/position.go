package training

import (
	"fmt"
	"time"

	"github.com/embedd/embedd/stream/internal/health"
)

// Cause is why the reader restarted: a label of the metric of reader restarts.
type Cause string

const (
	Recreated  Cause = "recreated"  // the input stream was deleted and created again
	purged     Cause = "purged"     // messages left the input stream before they were learned
	renumbered Cause = "renumbered" // an older copy was restored: sequence numbers mean other messages
	behind     Cause = "behind"     // messages are missing in the feed, and are read from the stream
	failed     Cause = "failed"     // a request failed, or the consumer was deleted
)

// position is how far learning has read the input stream. It is a state machine without I/O.
type position struct {
	stream  time.Time // creation time of the stream
	created time.Time // creation time of its numbering: the same, unless it was renumbered
	next    uint64    // sequence number to read next
	last    uint64    // of the newest message that was learned; 0: none under this numbering
	time    time.Time // of that message
	end     uint64    // the highest known sequence number of the stream
	skipped gap       // sequence numbers without a message since the stream was last inspected
}

// gap counts sequence numbers from first on that had no message to learn: it has another subject, or left the stream.
type gap struct{ first, n uint64 }

// advance moves past a message.
func (a *position) advance(seq uint64, at time.Time) {
	a.skip(seq)
	a.next, a.last, a.time = seq+1, seq, at
}

// skip moves up to a sequence number.
func (a *position) skip(to uint64) {
	if to <= a.next {
		return
	}
	h := &a.skipped
	if h.n == 0 {
		h.first = a.next
	}
	h.n += to - a.next
	a.next = to
}

// streamState is what the server reports of the input stream.
type streamState struct {
	created     time.Time
	now         time.Time // of the server
	first, last uint64
	at          time.Time // of the message at position.last; zero: not requested, or gone
	resume      uint64    // sequence number of the first message after position.time, if requested
}

// isSame reports whether it is the stream that was read, with the same sequence numbers.
func (a *position) isSame(s streamState) bool {
	return s.created.Equal(a.stream) && s.last+1 >= a.next && (s.at.IsZero() || s.at.Equal(a.time))
}

// isNewer reports whether it is another stream that was created later: none of its messages was learned.
func (a *position) isNewer(s streamState) bool { return s.created.After(a.stream) }

// follow moves to where learning continues. If that is not the next message, it returns the cause, an upper bound of
// the messages that were lost, and a sentence; else "".
func (a *position) follow(s streamState) (c Cause, lost uint64, text string) {
	begun := a.last > 0
	switch {
	case a.isNewer(s):
		if a.end >= a.next {
			lost = a.end - a.next + 1
			text = fmt.Sprintf("; at least %d messages of the previous one were not learned", lost)
		}
		*a = position{stream: s.created, created: s.created, next: s.first, end: s.last}
		return Recreated, lost, fmt.Sprintf(
			"the input stream was recreated at %s; learning continues from its first message%s",
			health.Timestamp(s.created), text)
	case !a.isSame(s):
		was := a.next - 1
		*a = position{stream: s.created, created: s.now, next: max(s.resume, s.first), end: s.last}
		return renumbered, 0, fmt.Sprintf("the input stream was renumbered, seen at %s: its last message is %d, "+
			"and %d was read; learning continues from message %d, the first that was stored after those",
			health.Timestamp(s.now), s.last, was, a.next)
	}
	h := a.skipped
	a.skipped, a.end = gap{}, max(a.end, s.last)
	if h.n > 0 && s.first > h.first {
		lost = min(h.n, s.first-h.first)
	}
	if s.first > a.next {
		lost += s.first - a.next
		a.next = s.first
	}
	if lost == 0 || !begun {
		return "", 0, "" // messages that left the stream before the first read are not lost
	}
	return purged, lost, fmt.Sprintf("at %s up to %d messages were gone from the input stream "+
		"(purged, or over its limits) before they were learned; learning continues from message %d",
		health.Timestamp(s.now), lost, a.next)
}
