package stream

import (
	"fmt"
	"time"
)

// cause is why the learning side began to read anew; a label.
type cause string

const (
	recreated  cause = "recreated"  // the input stream was deleted and made again
	purged     cause = "purged"     // messages left the input stream before they were learned
	renumbered cause = "renumbered" // the numbers of the input stream mean other messages now
	behind     cause = "behind"     // the hot path's messages have a gap, which is read from the stream
	failed     cause = "failed"     // the server, or its consumer, went away
)

var causes = []cause{recreated, purged, renumbered, behind, failed}

// place is where learning stands in the input stream.
type place struct {
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
func (a *place) learned(seq uint64, at time.Time) {
	a.skip(seq)
	a.next, a.last, a.time = seq+1, seq, at
}

// skip moves up to a number.
func (a *place) skip(to uint64) {
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

// state is what the server says of the input stream.
type state struct {
	created     time.Time
	now         time.Time // the server's
	first, last uint64
	at          time.Time // of message place.last where it was asked for and is there
	resume      uint64    // number of the first message after place.time, where it was asked for
}

// same tells whether the stream is the one that was learned from, under the same numbers.
func (a *place) same(s state) bool {
	return s.created.Equal(a.stream) && s.last+1 >= a.next && (s.at.IsZero() || s.at.Equal(a.time))
}

// newer tells whether the stream is another that was made later: none of its messages was learned.
func (a *place) newer(s state) bool { return s.created.After(a.stream) }

// follow moves to where learning goes on. It returns why it does not go on where it was, how many messages were lost
// at most, and a sentence; no cause where all is as it was.
func (a *place) follow(s state) (c cause, lost uint64, text string) {
	begun := a.last > 0
	switch {
	case a.newer(s):
		if a.end >= a.next {
			lost = a.end - a.next + 1
			text = fmt.Sprintf("; at least %d messages of the one before were not learned", lost)
		}
		*a = place{stream: s.created, created: s.created, next: s.first, end: s.last}
		return recreated, lost, fmt.Sprintf(
			"the input stream was made anew at %s; learning goes on from its first message%s", stamp(s.created), text)
	case !a.same(s):
		was := a.next - 1
		*a = place{stream: s.created, created: s.now, next: max(s.resume, s.first), end: s.last}
		return renumbered, 0, fmt.Sprintf("the input stream was renumbered, seen at %s: its last message is %d, and %d was read; learning goes on from message %d, the first that was stored after those",
			stamp(s.now), s.last, was, a.next)
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
	return purged, lost, fmt.Sprintf("at %s up to %d messages were gone from the input stream (purged, or over its limits) before they were learned; learning goes on from message %d",
		stamp(s.now), lost, a.next)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
