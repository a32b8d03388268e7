package relay

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/training"
)

// input is an input message from its receipt to its acknowledgement.
type input struct {
	scope.Message
	msg        *natsx.Message // nil on core NATS
	source     *source        // that delivered it; nil on core NATS
	size       int64          // in memory, as it was received
	output     string         // subject of its outputs, once it was mapped
	receivedAt time.Time

	mayBeAnswered bool   // an earlier attempt may have stored an answer
	isRedelivered bool   // with partitions: it was delivered before
	isSuspect     bool   // an earlier process had it and did not acknowledge it: it may have crashed the process
	attempts      uint64 // known failed attempts
	isCounted     bool   // this attempt is stored, see attempts.record

	// Guarded by the mutex of type inFlight:
	isProcessing bool
	expanded     int64 // what decoding and answering it takes in addition to size

	training training.Delivery
	span     trace.Span // nil without tracing

	// isStale is set when the input stream was created again: an acknowledgement would name another message.
	isStale atomic.Bool
}

// canHaveAnswer reports whether a message that a sink stored at a time can be an answer to the input. An earlier one
// answers another input: after an older copy of the stream is restored, new messages have sequences that others had.
// The time of an input in a mirror, or of one that is more than maxClockSkew ahead of our clock, does not count.
func (in *input) canHaveAnswer(s *sink, at time.Time) bool {
	if in.source == nil || in.source.isMirror.Load() {
		return true
	}
	stored := in.Time.Add(-time.Duration(in.source.ahead.Load())) // by our clock
	return !at.Before(in.timeAt(s).Add(-maxClockSkew)) || stored.After(in.receivedAt.Add(maxClockSkew))
}

// timeAt is when the input was stored, by the clock of a sink's server; in a mirror by that of its origin.
func (in *input) timeAt(s *sink) time.Time {
	if in.source == nil || in.source.isMirror.Load() {
		return in.Time
	}
	return in.Time.Add(time.Duration(s.ahead.Load() - in.source.ahead.Load()))
}

func (in *input) bytes() int64 { return in.size }

// answer is what an input becomes: messages to publish, and what to count once they are stored.
type answer struct {
	in          *input
	parts       []*part
	single      [1]*part      // storage of parts in the usual case, which saves an allocation
	deadLetters []*deadLetter // that the parts carry; one without parts cannot be published in any form
	result      string        // out, dead, skip or pass: one of them is counted (Invariant 10)
	seconds     float64       // that decoding, projecting and encoding took
	rows        health.RowCounts
	publishing  trace.Span // until all parts are confirmed; nil without tracing
	maxBody     int64      // bytes of the body of an output, for which it was split; 0: it has none

	// With partitions, guarded by the mutex of the publisher:
	next       *answer // of the same key: it is sent when this one is finished
	isReleased bool    // next may be sent
}

// failure returns the first dead letter of an answer if no row of the message could be answered; its code is "" if one
// could.
func (a *answer) failure() (l wire.Letter) {
	if len(a.deadLetters) > 0 && a.rows.Out+a.rows.Pass+a.rows.Skip == 0 {
		l = a.deadLetters[0].Letter
	}
	return l
}

func (a *answer) isStored() bool {
	return a != nil && !slices.ContainsFunc(a.parts, func(o *part) bool { return !o.isStored })
}

// bytes is the size of the bodies.
func (a *answer) bytes() (n int64) {
	for _, o := range a.parts {
		n += int64(len(o.msg.Data))
	}
	return n
}

// doubtful returns the parts that may be stored.
func (a *answer) doubtful() (parts []*part) {
	for _, o := range a.parts {
		if o.isDoubtful && !o.isStored {
			parts = append(parts, o)
		}
	}
	return parts
}

// part is one message of an answer.
type part struct {
	msg         *nats.Msg
	id          string    // Nats-Msg-Id; "" on core NATS
	ids         [1]string // id as the value of a header
	sink        *sink     // the stream that stores it; nil on core NATS
	isStored    bool      // by this or an earlier attempt
	isDuplicate bool      // an earlier attempt had stored it, as a lookup or the server said
	isDoubtful  bool      // it was sent, and it is not known whether it was stored
	in          *input
	kind        wire.Answer // with index what the identity is made of
	index       int
	isSecond    bool        // id is the second identity
	claimant    uint64      // sequence of the message that has its identity, as the server says
	deadLetter  *deadLetter // of which it is a part; nil: it is an output
	attempt     uint64      // number of the attempt in progress; 0: there is none
	sentAt      time.Time   // of that attempt

	firstSentAt time.Time // of the first attempt of this process; zero: it was not sent
	after       position  // end of the stream before the first attempt
	err         error     // of the last attempt
	answer      *answer   // set where the answers of a key are sent in order
}

// hasResult reports whether the result of the last attempt is known.
func (o *part) hasResult() bool { return o.isStored || o.err != nil }

// fail records that an attempt failed. If the stream refused the message, or there was no stream, it is known not to be
// stored.
func (o *part) fail(err error) {
	o.attempt, o.err = 0, err
	var refused *jetstream.APIError
	o.isDoubtful = o.isDoubtful || !errors.As(err, &refused) && !errors.Is(err, nats.ErrNoResponders) &&
		!errors.Is(err, jetstream.ErrNoStreamResponse)
}

// component is the part of the pipeline whose health depends on the confirmation. Dead letters that are not stored do
// not block outputs.
func (o *part) component() health.Component {
	if o.deadLetter != nil {
		return health.DeadLetter
	}
	return health.Publish
}

// deadLetter is a dead letter before it is split into messages.
type deadLetter struct {
	wire.Letter
	kind wire.Answer
	body []byte

	isPublishable bool  // it fits into messages that can be published
	limit         int64 // bytes that each of them may take
}
