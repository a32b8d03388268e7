package training

import (
	"strings"
	"testing"
	"time"
)

// TestFollow: where learning continues, why, and how many messages were lost, for all that a stream can become.
func TestFollow(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	read := position{stream: at(10), created: at(10), next: 101, last: 100, time: at(50), end: 100}
	fresh := position{stream: at(10), created: at(10), next: 1}
	behind := read
	behind.end = 130
	passed := read
	passed.last = 90
	passed.skip(111)
	for name, c := range map[string]struct {
		from    position
		to      streamState
		cause   Cause
		lost    uint64
		next    uint64
		created time.Time
		says    string
	}{
		"as it was":           {read, streamState{at(10), at(99), 1, 100, time.Time{}, 0}, "", 0, 101, at(10), ""},
		"grown":               {read, streamState{at(10), at(99), 40, 900, at(50), 0}, "", 0, 101, at(10), ""},
		"purged, all learned": {read, streamState{at(10), at(99), 101, 100, time.Time{}, 0}, "", 0, 101, at(10), ""},
		"purged": {read, streamState{at(10), at(99), 151, 160, time.Time{}, 0}, purged, 50, 151, at(10),
			"up to 50 messages were gone"},
		"purged while passing": {passed, streamState{at(10), at(99), 106, 160, time.Time{}, 0}, purged, 5, 111, at(10),
			"up to 5 messages"},
		"other subjects":       {passed, streamState{at(10), at(99), 1, 160, time.Time{}, 0}, "", 0, 111, at(10), ""},
		"begins in the middle": {fresh, streamState{at(10), at(99), 500, 600, time.Time{}, 0}, "", 0, 500, at(10), ""},
		"recreated": {read, streamState{at(20), at(99), 1, 7, time.Time{}, 0}, Recreated, 0, 1, at(20),
			"recreated at 1970-01-01T00:00:20Z; learning continues from its first message"},
		"recreated, longer": {read, streamState{at(20), at(99), 1, 700, time.Time{}, 0}, Recreated, 0, 1, at(20),
			"recreated"},
		"recreated, renumbered": {read, streamState{at(20), at(99), 101, 110, time.Time{}, 0}, Recreated, 0, 101, at(20),
			"recreated"},
		"recreated, behind": {behind, streamState{at(20), at(99), 1, 0, time.Time{}, 0}, Recreated, 30, 1, at(20),
			"at least 30 messages of the previous one were not learned"},
		"an older copy": {read, streamState{at(10), at(99), 1, 60, time.Time{}, 61}, renumbered, 0, 61, at(99),
			"its last message is 60, and 100 was read; learning continues from message 61"},
		"an older copy, grown": {read, streamState{at(10), at(99), 1, 300, at(77), 61}, renumbered, 0, 61, at(99),
			"learning continues from message 61"},
		"an older stream": {read, streamState{at(5), at(99), 1, 300, time.Time{}, 200}, renumbered, 0, 200, at(99),
			"learning continues from message 200"},
	} {
		p := c.from
		cause, lost, text := p.follow(c.to)
		if cause != c.cause || lost != c.lost || p.next != c.next || !p.created.Equal(c.created) ||
			!p.stream.Equal(c.to.created) || !strings.Contains(text, c.says) || (text == "") != (cause == "") {
			t.Errorf("%s: cause %q, %d lost, continues with %d as of %d: %q", name, cause, lost, p.next,
				p.created.Unix(), text)
		}
		if again, _, _ := p.follow(streamState{c.to.created, at(99), c.to.first, max(c.to.last, p.next-1), time.Time{},
			0}); again != "" {
			t.Errorf("%s: looked at again, the cause is %q", name, again)
		}
	}
}
