package scope

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
)

// Message is a message as it was received, from a consumer or on core NATS.
type Message struct {
	Subject string // as it was published, without the partition that the stream's subject transform adds
	Header  nats.Header
	Data    []byte
	Origin  wire.Origin // zero on core NATS
	Time    time.Time   // of the server; on core NATS of this process

	Delivered   uint64 // deliveries of this message, this one included
	ConsumerSeq uint64 // the consumer's sequence number of this delivery
	Pending     uint64 // messages that the consumer has not delivered yet
}

// IsDeleteMarker reports whether the server stored the message because the last one of its subject has expired.
func (m *Message) IsDeleteMarker() bool {
	return len(m.Data) == 0 && m.Header.Get(jetstream.MarkerReasonHeader) != ""
}

// messageOverhead is the memory of a message in addition to its data and headers. headerOverhead is that of the name of
// a header, and of each of its values, in addition to their bytes.
const (
	messageOverhead = 1024
	headerOverhead  = 64
)

// Size is about how many bytes the message takes in memory.
func (m *Message) Size() int64 {
	n := len(m.Data) + messageOverhead
	for name, values := range m.Header {
		n += len(name) + headerOverhead
		for _, v := range values {
			n += len(v) + headerOverhead
		}
	}
	return int64(n)
}

// Received reads the metadata of a message of the input stream, which was created at a time. It returns false, and logs
// it, when there is none.
func (s *Scope) Received(msg *natsx.Message, created time.Time) (Message, bool) {
	meta, err := msg.Metadata()
	if err != nil {
		s.Log.Error("a message without stream metadata", "subject", msg.Subject(), "error", err)
		return Message{}, false
	}
	return Message{Subject: needs.PublishedSubject(&s.Pipeline, msg.Subject()), Header: msg.Headers(), Data: msg.Data(),
		Origin: wire.Origin{Stream: s.Stream, Created: created, Seq: meta.Sequence.Stream}, Time: meta.Timestamp,
		Delivered: meta.NumDelivered, ConsumerSeq: meta.Sequence.Consumer, Pending: meta.NumPending}, true
}

// ReceivedCore is a message of core NATS that was received now.
func ReceivedCore(msg *nats.Msg) Message {
	return Message{Subject: msg.Subject, Header: msg.Header, Data: msg.Data, Time: time.Now(), Delivered: 1}
}

// CodeOf returns the code of an error of a message; an error without a code is internal.
func CodeOf(err error) wire.Code {
	if e, ok := errors.AsType[*arrowio.Error](err); ok {
		return e.Code
	}
	return wire.Internal
}
