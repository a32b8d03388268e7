package stream

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// origin names one input message for good: a stream that was deleted and filled again has another creation time.
type origin struct {
	stream  string
	created time.Time
	seq     uint64
}

// source is the Embedd-Source header.
func (o origin) source() string { return o.stream + ":" + strconv.FormatUint(o.seq, 10) }

// The kinds of answer.
const (
	kindOut  = "out"
	kindDead = "dead"      // the message itself
	kindRows = "dead-rows" // some of its rows
)

// id is the Nats-Msg-Id of one answer. It is a function of the input and the configuration, never of the model: an answer to a redelivery
// after a model swap is the same answer (Invariant 2).
func (o origin) id(pipeline, kind string, part int) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00%d\x00%s\x00%s\x00%d", o.stream, o.created.UnixNano(), o.seq, pipeline, kind, part)
	return hex.EncodeToString(h.Sum(nil)[:16])
}
