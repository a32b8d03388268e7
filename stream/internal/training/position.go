package training

import (
	"fmt"
	"time"

	"github.com/embedd/embedd/stream/internal/health"
)

// Cause is why learning began to read again: a label of the metric of reader restarts.
type Cause string

const (
	Recreated  Cause = "recreated"  // the input stream was deleted and made again
	purged     Cause = "purged"     // messages left the input stream before they were learned
	renumbered Cause = "renumbered" // the numbers of the input stream mean other messages now
	behind     Cause = "behind"     // the hot path's messages have a gap, which is read from the stream
	failed     Cause = "failed"     // the server, or its consumer, went away
)

// position is where learning stands in the input stream.
type position struct {
	stream  time.Time // creation time of the stream
	created time.Time // of its numbering: of the stream too, unless it was renumbered
	next    uint64    // all before it was learned, or is gone
	last    uint64    // number of the newest message that was learned, 0: none since the numbering began
	time    time.Time // the server's, of that message
	end     uint64    // the highest number that the stream is known to have had
	skipped hole      // numbers that were passed over since the stream was looked at
}

// hole is numbers without a message of ours: of another subject, or gone before they were learned.
type hole struct{ first, last, n uint64 }

// learned moves past a message.
func (a *position) learned(seq uint64, at time.Time) {
	a.skip(seq)
	a.next, a.last, a.time = seq+1, seq, at
}

// skip moves up to a number.
func (a *position) skip(to uint64) {
	if to <= a.next {
		return
	}
	h := &a.skipped
	if h.n == 0 {
		h.first = a.next
	}
	h.last = to - 1
	h.n += to - a.next
	a.next = to
}

// streamState is what the server says of the input stream.
type streamState struct {
	created     time.Time
	now         time.Time // the server's
	first, last uint64
	at          time.Time // of message position.last where it was asked for and is there
	resume      uint64    // number of the first message after position.time, where it was asked for
}

// same tells whether the stream is the one that was learned from, under the same numbers.
func (a *position) same(s streamState) bool {
	return s.created.Equal(a.stream) && s.last+1 >= a.next && (s.at.IsZero() || s.at.Equal(a.time))
}

// newer tells whether the stream is another that was made later: none of its messages was learned.
func (a *position) newer(s streamState) bool { return s.created.After(a.stream) }

// follow moves to where learning continues. It returns why it does not go on where it was, how many messages were lost
// at most, and a sentence; no cause where all is as it was.
func (a *position) follow(s streamState) (c Cause, lost uint64, text string) {
	begun := a.last > 0
	switch {
	case a.newer(s):
		if a.end >= a.next {
			lost = a.end - a.next + 1
			text = fmt.Sprintf("; at least %d messages of the one before were not learned", lost)
		}
		*a = position{stream: s.created, created: s.created, next: s.first, end: s.last}
		return Recreated, lost, fmt.Sprintf(
			"the input stream was recreated at %s; learning continues from its first message%s", health.Timestamp(s.created), text)
	case !a.same(s):
		was := a.next - 1
		*a = position{stream: s.created, created: s.now, next: max(s.resume, s.first), end: s.last}
		return renumbered, 0, fmt.Sprintf("the input stream was renumbered, seen at %s: its last message is %d, and %d was read; learning continues from message %d, the first that was stored after those",
			health.Timestamp(s.now), s.last, was, a.next)
	}
	h := a.skipped
	a.skipped, a.end = hole{}, max(a.end, s.last)
	if h.n > 0 && s.first > h.first {
		lost = min(h.n, s.first-h.first)
	}
	if s.first > a.next {
		lost += s.first - a.next
		a.next = s.first
	}
	if lost == 0 || !begun {
		return "", 0, "" // what was gone before the first message was read is no loss of ours
	}
	return purged, lost, fmt.Sprintf("at %s up to %d messages were gone from the input stream (purged, or over its limits) before they were learned; learning continues from message %d",
		health.Timestamp(s.now), lost, a.next)
}
