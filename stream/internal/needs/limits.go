package needs

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

const (
	// serviceSubscriptions are those of the service of a pipeline: its endpoints, reload, the verbs of NATS services
	// for all services, those of its name, and itself, and what its replicas announce: their start, and models.
	serviceSubscriptions = 20
	// connectionSubscriptions are those of a connection: replies, confirmations, and lookups of outputs.
	connectionSubscriptions = 4
)

// Subscriptions is how many subscriptions a connection that runs pipelines with these needs has at most.
func Subscriptions(all []Need) int {
	n := connectionSubscriptions
	for _, need := range all {
		switch {
		case need.Kind == Subject && need.Purpose == "service":
			n += serviceSubscriptions
		case need.Kind == Bucket: // announcements of changes
			n++
		case need.Kind == Consumer, need.Kind == Subject:
			n++
		}
	}
	return n
}

// SubscriptionShortage returns why a connection cannot have the subscriptions of the needs, with the fix; or "".
func SubscriptionShortage(ctx context.Context, nc *nats.Conn, all []Need) (string, error) {
	need, present := Subscriptions(all), nc.NumSubscriptions()
	more, err := natsx.CountSubscriptions(ctx, nc, need)
	limit := present + more
	need += max(present-connectionSubscriptions, 0) // those of the host
	if err != nil || limit >= need {
		return "", err
	}
	return fmt.Sprintf("the server or the account allows a connection %d subscriptions, and the pipelines need %d; raise "+
		"max_subscriptions (in a JWT: subs) to %d at least, or run the pipelines in several daemons", limit, need, need), nil
}

// StreamShortage returns why an account cannot have as many more streams, with the fix; or "".
func StreamShortage(account *jetstream.AccountInfo, missing int) string {
	limit, have := account.Limits.MaxStreams, account.Streams
	if limit <= 0 || have+missing <= limit {
		return ""
	}
	return fmt.Sprintf("the account may have %d streams and has %d, and the pipelines need %d more (each bucket is one, "+
		"that of models two); raise max_streams of the account to %d at least, or store models in a directory "+
		"(model.store)", limit, have, missing, have+missing)
}

// MissingStreams counts the streams of buckets that the server does not have.
func MissingStreams(ctx context.Context, js jetstream.JetStream, all []Need) (missing int, err error) {
	names := map[string]bool{} // pipelines share buckets
	for _, need := range all {
		for _, name := range need.Streams { // only buckets have them
			names[name] = true
		}
	}
	for name := range names {
		have, err := stream(ctx, js, name)
		if err != nil {
			return 0, err
		}
		if have == nil {
			missing++
		}
	}
	return missing, nil
}

// WorkQueueFault is that another consumer reads messages of a pipeline's subject from a work queue.
func WorkQueueFault(stream, subject string) *Fault {
	return &Fault{fmt.Sprintf("stream %s is a work queue, and another consumer reads messages of %s from it: each "+
		"message has one reader there", stream, subject), "give the pipelines subjects that do not overlap, or the stream " +
		"limits retention", ""}
}

// ConsumerFault is what keeps a stream from having the durable consumer of a pipeline.
func ConsumerFault(stream string, limit int) *Fault {
	return &Fault{fmt.Sprintf("stream %s allows %d consumers (max_consumers, of the stream or the account) and has them: "+
		"the pipeline gets none", stream, limit), "delete an unused one ('nats consumer ls " + stream + "'); the limit of " +
		"a stream cannot be changed", ""}
}
