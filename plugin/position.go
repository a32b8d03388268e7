package plugin

import (
	"time"

	"github.com/embedd/embedd/plugin/window"
)

// Position says where a message stands in its stream. Created is when the stream was made: one that was deleted and
// made again is another, and what it holds comes after. Seq is the sequence number, from 1; Time is the server's
// timestamp. A host without a stream counts its messages and takes its own clock.
type Position struct {
	Created time.Time
	Seq     uint64
	Time    time.Time
	Source  string // who sent it, where the host knows: a subject
}

// row is the position of a row of the message.
func (p Position) row(i int) window.Position {
	q := window.Position{Seq: p.Seq, Row: i}
	if !p.Created.IsZero() {
		q.Created = p.Created.UnixNano()
	}
	return q
}
