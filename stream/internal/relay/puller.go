package relay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/spec"
)

// minBatch is how many messages the first pull after an empty one is for. The next ones are for four times as many.
const minBatch = 64

// puller pulls the messages of a consumer that the replicas share.
type puller struct {
	*hotPath
	source   *source
	work     context.Context // ends when what was pulled cannot be answered any more
	inFlight *inFlight
	out      func(*input)
	bindLog  ratelog.Limiter

	// Of the consumer that is bound; nil: none is.
	consumer jetstream.Consumer
	created  time.Time       // of the stream
	delivery uint64          // consumer sequence of the newest delivery
	batch    int             // messages of a pull at most: idle pipelines do not keep room for many
	newest   uint64          // sequence up to which an input may be answered: it was pulled before, or has an output
	bound    context.Context // ends when the consumer has to be bound again
	unbind   context.CancelFunc
}

// run pulls messages until ctx is done. It retries after every failure, except when the consumer belongs to another
// pipeline.
func (p *puller) run(ctx context.Context) error {
	p.unbind, p.batch = func() {}, minBatch
	defer func() { p.unbind() }()
	for attempt := 0; ctx.Err() == nil; {
		hasPulled, err := p.step(ctx, attempt > 0)
		switch {
		case errors.Is(err, spec.ErrConsumerTaken):
			return err
		case err != nil:
			natsx.ShortBackoff(ctx, attempt)
			attempt++
		case hasPulled:
			attempt = 0
		}
	}
	return nil
}

// step binds the consumer if none is bound, waits until a pull makes sense, and pulls once.
func (p *puller) step(ctx context.Context, isRetry bool) (hasPulled bool, err error) {
	if p.consumer == nil {
		if err := p.bind(ctx); err != nil {
			if ctx.Err() == nil && !errors.Is(err, spec.ErrConsumerTaken) {
				p.bindLog.Warn(p.Log, "the consumer cannot be created; trying again", "stream", p.Stream, "consumer",
					p.source.durable, "error", err)
				p.Conditions.SetError(health.Pull, fmt.Errorf("the consumer %s of stream %s cannot be created: %w",
					p.source.durable, p.Stream, err))
			}
			return false, err
		}
	}
	bytes, messages := p.awaitReady()
	if bytes == 0 {
		return false, nil
	}
	isRecreated, err := p.pull(ctx, bytes, messages)
	switch {
	case ctx.Err() != nil:
		return false, nil
	case isRecreated:
		p.Log.Warn("the consumer was recreated; binding it again", "stream", p.Stream, "consumer", p.source.durable)
		p.consumer = nil
		return false, nil
	case err == nil:
		p.Conditions.Clear(health.Pull)
		return true, nil
	case errors.Is(err, jetstream.ErrConsumerDeleted), errors.Is(err, jetstream.ErrConsumerNotFound),
		errors.Is(err, nats.ErrNoResponders):
		p.Log.Warn("the consumer was deleted; creating it again", "stream", p.Stream, "consumer", p.source.durable, "error",
			err)
		p.consumer = nil
	}
	p.Log.Debug("pull ended", "error", err)
	if isRetry {
		p.Conditions.SetError(health.Pull, fmt.Errorf("messages of stream %s cannot be pulled: %w", p.Stream,
			p.explain(err, natsx.PullSubject(p.JS, p.Stream, p.ConsumerName()))))
	}
	return false, err
}

func (p *puller) bind(ctx context.Context) error {
	c, created, err := p.consumers.bind(ctx, p.source)
	if err != nil {
		return err
	}
	answered, err := p.dedup.newestAnswered(ctx, p.Stream, created)
	if err != nil {
		return err
	}
	if !created.Equal(p.created) || c.CachedInfo().Delivered.Consumer < p.delivery {
		if err := p.source.attempts.load(ctx, p.Scope, created, c.CachedInfo()); err != nil {
			return err
		}
	}
	if !created.Equal(p.created) {
		p.newest = 0
	}
	p.consumer, p.created, p.newest = c, created, max(p.newest, answered)
	p.Conditions.Clear(health.Pull)
	p.unbind()
	bound, unbind := context.WithCancel(ctx)
	p.bound, p.unbind = bound, unbind
	p.source.unbind.Store(&unbind)
	p.inspect()
	if c.CachedInfo().Delivered.Consumer < p.delivery {
		p.inFlight.retire()
	}
	p.delivery = c.CachedInfo().Delivered.Consumer
	p.inFlight.markStale(created)
	p.source.identity.bind(c)
	if p.training.Feed != nil {
		p.training.Feed.Bind(created, c.CachedInfo())
	}
	return nil
}

// awaitReady waits until a pull makes sense, and returns how much it may fetch; 0: the state must be checked again. A
// pipeline that waits for a model pulls nothing, so that no delivery is counted. If training depends on the pull, it
// pulls, and keeps the messages in progress. Its consumer exists meanwhile: it shows the lag, and a stream with
// interest retention keeps the messages for it.
func (p *puller) awaitReady() (bytes int64, messages int) {
	readsOnce := p.training.ReadsOnce()
	if !readsOnce && !p.gate.wait(p.bound, waitsForModel) || !p.gate.wait(p.bound, halted|outdated) ||
		p.bound.Err() != nil {
		p.consumer = nil
		return 0, 0
	}
	if !readsOnce || !p.gate.isWaitingForModel() {
		return p.inFlight.awaitRoom(p.bound)
	}
	// What was pulled just before waits for a model, which it may be needed to fit.
	for _, in := range p.inFlight.notOffered() {
		p.training.Offer(&in.Message, &in.training)
	}
	return natsx.MaxFetchBytes, natsx.MaxFetchMessages
}

// pull fetches messages once. isRecreated is true if deliveries are counted from one again: the consumer was created
// again, and perhaps the stream. In a cluster the last pull before a stop is read to its end, four seconds at most.
// Messages that the consumer's leader sends after the subscription has ended would wait for their ack wait.
func (p *puller) pull(ctx context.Context, bytes int64, messages int) (isRecreated bool, err error) {
	p.deliveries.Begin()
	fetching := ctx
	if p.Conn.ConnectedClusterName() != "" {
		fetching = p.work
	}
	n, err := p.fetch(fetching, p.source, p.consumer, p.created, min(messages, p.batch), bytes, func(in *input) {
		if in == nil {
			p.deliveries.Add(0)
			return
		}
		p.deliveries.Add(in.ConsumerSeq)
		if isRecreated = isRecreated || in.ConsumerSeq <= p.delivery; isRecreated {
			p.inFlight.retire()
			_ = in.msg.Nak()
			return
		}
		p.take(ctx, in)
	})
	p.deliveries.End(err)
	switch n {
	case 0:
		p.batch = minBatch
	case p.batch:
		p.batch = min(4*p.batch, natsx.MaxFetchMessages)
	}
	return isRecreated, err
}

// take passes a message on to the transformer, and to training if that reads from this consumer.
func (p *puller) take(ctx context.Context, in *input) {
	in.mayBeAnswered = in.Delivered > 1 || in.Origin.Seq <= p.newest
	p.newest = max(p.newest, in.Origin.Seq)
	in.isSuspect = p.source.attempts.isSuspect(&in.Message, p.delivery)
	p.delivery = in.ConsumerSeq
	if p.training.Feed != nil {
		p.training.Feed.RecordDelivery(&in.Message, &in.training)
		if p.training.ReadsOnce() && in.training.IsOffered() {
			in.isSuspect = false // this process has had it, and postponed it
		}
	}
	isWaiting := p.training.ReadsOnce() && p.gate.isWaitingForModel()
	if isWaiting && p.training.Feed.WaitRoom(ctx) {
		p.training.Offer(&in.Message, &in.training)
	}
	if !isWaiting || p.inFlight.hasRoom() {
		if p.inFlight.add(in) {
			p.out(in)
		}
		return
	}
	// It cannot be answered before there is a model, and the in-flight limit is reached. Training has it, and the messages
	// behind it may be needed for the model.
	if err := in.msg.NakWithDelay(redeliveryDelay(int(min(in.Delivered, math.MaxInt32)) - 1)); err != nil {
		p.Log.Debug("a postponed message is redelivered earlier", "source", in.Origin.Source(), "error", err)
	}
}
