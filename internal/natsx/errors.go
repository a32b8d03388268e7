package natsx

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrPermissionDenied is in errors whose cause is a permission that the user lacks. The text names it.
	ErrPermissionDenied = errors.New("permission denied")
	// ErrNoJetStream is in errors whose cause is a server without JetStream.
	ErrNoJetStream = errors.New("the server has no JetStream")
)

// ExplainAPIError adds the fix to an error of the JetStream API on a server without JetStream.
func ExplainAPIError(err error) error {
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w (%w); start it with 'nats-server -js', or leave input.stream out for core NATS",
			ErrNoJetStream, err)
	}
	return err
}

// ExplainPublishError adds the fix to the error of a publish on a subject that no stream takes.
func ExplainPublishError(err error, subject string) error {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("no stream takes subject %s (%w); create it with 'embedd setup --apply'", subject, err)
	}
	return err
}

// ExplainRequestError says what a request was about (as in "about stream x"), and what to look at if it was not
// answered.
func ExplainRequestError(err error, about string) error {
	if errors.Is(err, ErrPermissionDenied) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("the server does not answer %s: check whether it hangs, or its JetStream has no leader (%w)",
			about, err)
	}
	return fmt.Errorf("asking the server %s: %w", about, err)
}

// Error codes of a cluster whose JetStream has no leader or too few servers; nats.go has no names for them.
const (
	ErrCodeNoCluster jetstream.ErrorCode = 10008
	ErrCodeNoLeader  jetstream.ErrorCode = 10009
	ErrCodeNoServers jetstream.ErrorCode = 10023
)
