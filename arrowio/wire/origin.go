package wire

import (
	"strconv"
	"time"
)

// Origin identifies an input message permanently: a stream that was deleted and created again has another creation
// time.
type Origin struct {
	Stream  string // "" on core NATS, which has no streams and sequence numbers
	Created time.Time
	Seq     uint64
}

// Source returns the value of Embedd-Source.
func (o Origin) Source() string {
	var digits [20]byte
	return o.Stream + ":" + string(strconv.AppendUint(digits[:0], o.Seq, 10))
}

// AppendPairs appends the pairs that identify the input of an output, if it is in a stream, and its part, counted from
// 0, if it was split.
func (o Origin) AppendPairs(to []Pair, part, parts int) []Pair {
	if o.Stream != "" {
		to = append(to, Pair{HeaderSource, o.Source()})
	}
	if parts > 1 {
		to = append(to, Pair{HeaderPart, PartOf(part, parts)})
	}
	return to
}

// Answer is a kind of result of an input.
type Answer string

// The kinds of results.
const (
	AnswerOut  Answer = "out"
	AnswerDead Answer = "dead"      // the message itself, as a dead letter
	AnswerRows Answer = "dead-rows" // some of its rows, as a dead letter
)
