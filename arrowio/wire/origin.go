package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// Origin names one input message for good: a stream that was deleted and filled again has another creation time.
type Origin struct {
	Stream  string // "" on core NATS, which keeps no message and gives it no number
	Created time.Time
	Seq     uint64
}

// Source is the value of Embedd-Source.
func (o Origin) Source() string { return o.Stream + ":" + strconv.FormatUint(o.Seq, 10) }

// Pairs say which input an output comes from, where a stream keeps it, and which part of it, counted from 0, where it
// was split.
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

// Answer is what an input became.
type Answer string

// The kinds of answer.
const (
	AnswerOut  Answer = "out"
	AnswerDead Answer = "dead"      // the message itself, as a dead letter
	AnswerRows Answer = "dead-rows" // some of its rows, as a dead letter
)

// ID is the Nats-Msg-Id of one part of an answer. It is a function of the input and the configuration, never of the
// model: an answer to a redelivery after a model swap is the same answer (Invariant 2).
func (o Origin) ID(pipeline string, a Answer, part int) string {
	text := append(make([]byte, 0, 256), o.Stream...) // as "%s\x00%d\x00%d\x00%s\x00%s\x00%d" writes it
	text = strconv.AppendInt(append(text, 0), o.Created.UnixNano(), 10)
	text = strconv.AppendUint(append(text, 0), o.Seq, 10)
	text = append(append(text, 0), pipeline...)
	text = append(append(text, 0), a...)
	text = strconv.AppendInt(append(text, 0), int64(part), 10)
	sum := sha256.Sum256(text)
	return string(hex.AppendEncode(make([]byte, 0, 32), sum[:16]))
}
