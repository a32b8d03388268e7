package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
)

// consumers creates and binds the durable consumers of a pipeline.
type consumers struct {
	*hotPath
	isReduced atomic.Bool // MaxAckPending is below the configured one, which was logged
}

// The keys of a consumer's metadata.
const (
	metadataPipeline = "embedd_pipeline"
	metadataSubject  = "embedd_subject"
)

// errConsumerSilent means that the server did not answer about a consumer just after it had answered about its stream.
var errConsumerSilent = errors.New("the server does not answer about the consumer")

// bind binds the durable consumer of a source, or creates it. It also returns the creation time of the stream, since a
// stream that was created again under the same name is another (Invariant 2). It updates only those settings of an
// existing consumer that a pipeline relies on, and never what it reads.
func (c *consumers) bind(ctx context.Context, s *source) (consumer jetstream.Consumer, created time.Time, err error) {
	verbs := []string{".STREAM.INFO.", ".CONSUMER.INFO.", ".CONSUMER.CREATE."}
	err = c.GuardInput(ctx, verbs, func(ctx context.Context) error {
		consumer, created, err = c.bindOnce(ctx, s)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = c.InputGone()
	}
	return consumer, created, err
}

func (c *consumers) bindOnce(ctx context.Context, s *source) (jetstream.Consumer, time.Time, error) {
	input, err := natsx.Stream(ctx, c.JS, c.Stream)
	if err != nil {
		return nil, time.Time{}, err
	}
	created := input.CachedInfo().Created
	s.ahead.Store(int64(time.Until(input.CachedInfo().TimeStamp)))
	s.isMirror.Store(input.CachedInfo().Config.Mirror != nil)
	if s.isOrdered() {
		for _, b := range []*bookmark{&s.previous, s.answered} {
			if b.Floor > input.CachedInfo().State.LastSeq { // an older copy of the stream was restored
				*b = bookmark{}
			}
		}
	}
	consumer, err := natsx.Consumer(ctx, c.JS, c.Stream, s.durable)
	switch {
	case err == nil:
		consumer, err = c.update(ctx, s, input, consumer)
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		consumer, err = c.create(ctx, s, input)
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %w", errConsumerSilent, err)
	}
	if natsx.HasErrorCode(err, natsx.ErrCodeNotUnique) {
		return nil, time.Time{}, needs.WorkQueueFault(c.Stream, s.filter)
	}
	if natsx.HasErrorCode(err, natsx.ErrCodeMaxConsumers) {
		return nil, time.Time{}, needs.ConsumerFault(c.Stream, input.CachedInfo().State.Consumers)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	now, err := natsx.Stream(ctx, c.JS, c.Stream)
	if err == nil && !now.CachedInfo().Created.Equal(created) {
		err = errors.New("the stream was recreated while its consumer was bound")
	}
	return consumer, created, err
}

func (c *consumers) create(ctx context.Context, s *source, input jetstream.Stream) (jetstream.Consumer, error) {
	config := jetstream.ConsumerConfig{Durable: s.durable, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: s.filter}
	if s.isOrdered() && s.previous.Created.Equal(input.CachedInfo().Created) && s.previous.Floor > 0 {
		// The owner before this one crashed between deleting the consumer and creating it again.
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, s.previous.Floor+1
	}
	return c.configure(config, input, func(config jetstream.ConsumerConfig) (jetstream.Consumer, error) {
		return input.CreateConsumer(ctx, config)
	})
}

func (c *consumers) update(ctx context.Context, s *source, input jetstream.Stream, consumer jetstream.Consumer) (
	jetstream.Consumer, error) {
	existing := consumer.CachedInfo().Config
	if err := needs.CheckConsumer(&c.Pipeline, existing, input.CachedInfo().Config.Subjects, s.filter); err != nil {
		return nil, err
	}
	return c.configure(existing, input, func(next jetstream.ConsumerConfig) (jetstream.Consumer, error) {
		if reflect.DeepEqual(existing, next) {
			return consumer, nil
		}
		return input.UpdateConsumer(ctx, next)
	})
}

// maxPullExpiry is the longest expiry of a pull request that the consumers allow. Earlier versions, whose answers have
// other identities, ask for more: the server refuses them, so that they do not answer what this version has answered.
const maxPullExpiry = natsx.PullExpiry + 250*time.Millisecond

// awaitOlderVersions waits until no pull request of an earlier version is open at a consumer. They cannot be repeated
// once the consumer has maxPullExpiry, so that takes seconds, if there are any.
func (c *consumers) awaitOlderVersions(ctx context.Context, s *source) {
	const longest = 2 * natsx.PullExpiry
	for begin := time.Now(); time.Since(begin) < longest; {
		consumer, err := c.JS.Consumer(ctx, c.Stream, s.durable)
		if errors.Is(err, jetstream.ErrConsumerNotFound) || err == nil && consumer.CachedInfo().NumWaiting == 0 ||
			!natsx.Sleep(ctx, 100*time.Millisecond) {
			return
		}
	}
}

// ackPendingLimit matches the error of a server that allows less than the consumer's MaxAckPending: no request returns
// the limit of a server.
var ackPendingLimit = regexp.MustCompile(`limit of (\d+)`)

// configure sets what a pipeline relies on, and passes the configuration to apply with the MaxAckPending that the
// stream, the account and the server allow.
func (c *consumers) configure(config jetstream.ConsumerConfig, input jetstream.Stream,
	apply func(jetstream.ConsumerConfig) (jetstream.Consumer, error)) (jetstream.Consumer, error) {
	config.Description = needs.ConsumerDescription + c.Name
	c.setDelivery(&config)
	config.AckWait, config.MaxAckPending = c.AckWait, c.AckPending
	config.MaxRequestExpires = maxPullExpiry
	if input.CachedInfo().Config.Retention != jetstream.LimitsPolicy {
		config.MaxAckPending = -1 // messages that are nak'd while there is no model must not block those that make one
	}
	metadata := map[string]string{}
	maps.Copy(metadata, config.Metadata)
	metadata[metadataPipeline], metadata[metadataSubject] = c.Name, c.Subject
	config.Metadata = metadata
	wanted := config.MaxAckPending
	if limit := input.CachedInfo().Config.ConsumerLimits.MaxAckPending; limit > 0 {
		config.MaxAckPending = min(wanted, limit)
	}
	consumer, err := apply(config)
	if natsx.HasErrorCode(err, natsx.ErrCodeMaxAckPending) {
		if m := ackPendingLimit.FindStringSubmatch(err.Error()); m != nil {
			config.MaxAckPending, _ = strconv.Atoi(m[1])
			consumer, err = apply(config)
		}
	}
	if err == nil && config.MaxAckPending < wanted && !c.isReduced.Swap(true) {
		c.Log.Warn("the server allows fewer messages without an acknowledgement than nats.max_ack_pending; the pipeline "+
			"runs with as many", "stream", c.Stream, "limit", config.MaxAckPending, "nats.max_ack_pending", wanted)
	}
	return consumer, err
}

// setDelivery sets that each message is delivered whole, and again until it is acknowledged.
func (c *consumers) setDelivery(config *jetstream.ConsumerConfig) {
	config.HeadersOnly, config.MaxDeliver, config.BackOff = false, -1, nil
}

// check returns an error if the consumer of a partition reads something else now. Other settings that were changed, so
// that messages would be lost, are set again.
func (c *consumers) check(ctx context.Context, q needs.Partition, now jetstream.ConsumerConfig,
	streamSubjects []string) error {
	if err := needs.CheckConsumer(&c.Pipeline, now, streamSubjects, q.Filter(c.Subject)); err != nil {
		return err
	}
	wanted := now
	if c.setDelivery(&wanted); reflect.DeepEqual(now, wanted) {
		return nil
	}
	c.Log.Warn("the consumer was edited so that messages would be lost; its settings are set again", "stream", c.Stream,
		"consumer", now.Durable, "headers_only", now.HeadersOnly, "max_deliver", now.MaxDeliver, "backoff", now.BackOff)
	return c.GuardInput(ctx, []string{".CONSUMER.CREATE."}, func(ctx context.Context) error {
		_, err := c.JS.UpdateConsumer(ctx, c.Stream, wanted)
		return err
	})
}
