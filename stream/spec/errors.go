package spec

import (
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// The errors that a host reacts to, for errors.Is.
var (
	// ErrStreamMissing is returned by Run of an engine when the input stream of a pipeline does not exist, or no stream
	// takes its outputs or dead letters. It is jetstream.ErrStreamNotFound too. Setup creates what is missing.
	ErrStreamMissing = Describe("a stream is missing", jetstream.ErrStreamNotFound)
	// ErrNoJetStream is returned by Run of an engine and by Setup when a pipeline has an input stream and the server has
	// no JetStream.
	ErrNoJetStream = natsx.ErrNoJetStream
	// ErrConsumerTaken is returned by Run of an engine when the durable consumer of a pipeline's name reads another
	// subject, is of a kind that a pipeline cannot pull from, or is one of another stream, to which the models of the
	// name belong.
	ErrConsumerTaken = errors.New("the consumer belongs to another pipeline")
	// ErrDenied is in errors whose cause is a permission that the server's user lacks. The text names it.
	ErrDenied = natsx.ErrPermissionDenied
	// ErrDrain is returned by Run of an engine when inputs that were pulled could not be answered in time after it was
	// stopped. They stay in their stream.
	ErrDrain = errors.New("not drained")
)

// described is an error whose text replaces that of its cause.
type described struct {
	text  string
	cause error
}

func (e *described) Error() string { return e.text }
func (e *described) Unwrap() error { return e.cause }

// Describe returns an error with the given text alone, which wraps cause.
func Describe(text string, cause error) error { return &described{text, cause} }
