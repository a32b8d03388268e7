package stream

import (
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// The errors that a host reacts to, for errors.Is.
var (
	// ErrStreamMissing is returned by [Engine.Run] when the input stream of a pipeline does not exist, or no stream
	// takes its outputs or dead letters. It is jetstream.ErrStreamNotFound too. [Setup] makes what is missing.
	ErrStreamMissing error = &because{"a stream is missing", jetstream.ErrStreamNotFound}
	// ErrNoJetStream is returned by [Engine.Run] and [Setup] when a pipeline has an input stream and the server has
	// no JetStream.
	ErrNoJetStream = errors.New("the server has no JetStream")
	// ErrConsumerTaken is returned by [Engine.Run] when the durable consumer of a pipeline's name reads another subject,
	// is of a kind that a pipeline cannot pull from, or is one of another stream, whose models the name's are.
	ErrConsumerTaken = errors.New("the consumer is another pipeline's")
	// ErrDenied is in errors whose cause is a right that the server's user lacks. The text says which.
	ErrDenied = errors.New("a right is missing")
	// ErrDrain is returned by [Engine.Run] when inputs that were taken could not be answered in time after it was told
	// to stop. They stay in their stream.
	ErrDrain = errors.New("not drained")
)

// because is an error with a sentence of its own, which the text of its cause would only repeat.
type because struct {
	text  string
	cause error
}

func (e *because) Error() string { return e.text }
func (e *because) Unwrap() error { return e.cause }
