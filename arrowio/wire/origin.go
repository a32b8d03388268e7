package wire

import (
	"crypto/sha256"
	"encoding/hex"
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
func (o Origin) Source() string { return o.Stream + ":" + strconv.FormatUint(o.Seq, 10) }

// Pairs returns the pairs that identify the input of an output, if it is in a stream, and its part, counted from 0, if
// it was split.
func (o Origin) Pairs(part, parts int) []Pair {
	var out []Pair
	if o.Stream != "" {
		out = append(out, Pair{HeaderSource, o.Source()})
	}
	if parts > 1 {
		out = append(out, Pair{HeaderPart, PartOf(part, parts)})
	}
	return out
}

// Answer is a kind of result of an input.
type Answer string

// The kinds of results.
const (
	AnswerOut  Answer = "out"
	AnswerDead Answer = "dead"      // the message itself, as a dead letter
	AnswerRows Answer = "dead-rows" // some of its rows, as a dead letter
)

// ID returns the Nats-Msg-Id of one part of a result. It depends on the input and the configuration, never on the
// model, so that a redelivery after a change of models is deduplicated (Invariant 2).
func (o Origin) ID(pipeline string, a Answer, part int) string {
	text := append(make([]byte, 0, 256), o.Stream...) // the same as fmt.Sprintf("%s\x00%d\x00%d\x00%s\x00%s\x00%d", ...)
	text = strconv.AppendInt(append(text, 0), o.Created.UnixNano(), 10)
	text = strconv.AppendUint(append(text, 0), o.Seq, 10)
	text = append(append(text, 0), pipeline...)
	text = append(append(text, 0), a...)
	text = strconv.AppendInt(append(text, 0), int64(part), 10)
	sum := sha256.Sum256(text)
	return string(hex.AppendEncode(make([]byte, 0, 32), sum[:16]))
}
