package natsx

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ReaderNames are the consumer names of readers other than the daemon. They are few and fixed so that a
// permission can name each: one with a wildcard would include the durable consumers of the stream, and their messages.
// No pipeline's consumer has such a name.
var ReaderNames = []string{"embedd-reader-1", "embedd-reader-2", "embedd-reader-3", "embedd-reader-4"}

// readerThreshold is when the server deletes the consumer of a reader that has ended without deleting it.
const readerThreshold = 2 * time.Minute

// ErrReadersBusy reports that as many readers as there are names read a stream.
var ErrReadersBusy = errors.New("all consumers for readers are in use")

// OpenNamedReader is OpenReader for a consumer with a name of ReaderNames that no other reader of the stream has.
func OpenNamedReader(ctx context.Context, js jetstream.JetStream, stream string, c jetstream.ConsumerConfig) (*Reader,
	error) {
	c.AckPolicy, c.MemoryStorage, c.InactiveThreshold = jetstream.AckNonePolicy, true, readerThreshold
	// The server returns an existing consumer of the same configuration, which is another reader's.
	c.Metadata = map[string]string{"embedd_reader": nats.NewInbox()}
	for _, i := range rand.Perm(len(ReaderNames)) {
		c.Name = ReaderNames[i]
		consumer, err := CreateConsumer(ctx, js, stream, c)
		if err == nil {
			return NewReader(js, consumer), nil
		}
		if !errors.Is(err, jetstream.ErrConsumerExists) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("stream %s already has %d readers: wait until one of them ends; one that was killed counts "+
		"for %v (%w)", stream, len(ReaderNames), readerThreshold, ErrReadersBusy)
}
