package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/task"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/replica"
)

// partitionOwner owns this replica's share of the partitions and pulls their messages.
type partitionOwner struct {
	*partitions
	work     context.Context // ends when what was pulled cannot be answered any more
	inFlight *inFlight
	out      func(*input)
}

// gateInterval is how often an owner checks whether it may still answer.
const gateInterval = time.Second

// run owns a share of the partitions until ctx is done. While it may not answer it owns none, and the other replicas
// own more.
func (o *partitionOwner) run(ctx context.Context) {
	for o.gate.wait(ctx, anyReason) && ctx.Err() == nil {
		share, release := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { o.runShare(share) })
		for o.gate.check() == 0 && task.AwaitTick(ctx, gateInterval) {
		}
		release()
		wg.Wait()
	}
}

// runShare owns a share of the partitions until ctx is done, and releases each of them when what was pulled of it is
// answered.
func (o *partitionOwner) runShare(ctx context.Context) {
	group := lease.Group{Bucket: o.leases, Name: o.Name, TTL: o.gate.replica.LeaseTTL(), Logger: o.Log,
		Own: lease.NewClaim(o.memberName(), map[string]string{"input.partitions": strconv.Itoa(o.Partitions)})}
	byNumber := map[int][]string{}
	for _, q := range slices.Concat(o.earlier, needs.Partitions(&o.Pipeline)) {
		byNumber[q.Of] = append(byNumber[q.Of], q.String())
	}
	group.Parts = slices.Collect(maps.Values(byNumber))
	group.Work = func(ctx context.Context, part string, session *lease.Lease, term uint64) {
		q, ok := needs.ParsePart(part)
		if !ok {
			<-ctx.Done() // an unknown writer has assigned it
			return
		}
		o.own(ctx, q, session, term)
	}
	group.Report = func(err error) {
		if err != nil {
			err = fmt.Errorf("no partition can be owned, since the session of this replica is not renewed in bucket %s; check "+
				"whether the server can store messages, and its disk: %w", lease.BucketName, err)
		}
		o.Conditions.SetError(health.Leases, err)
	}
	defer o.Conditions.Clear(health.Leases)
	group.Run(ctx)
}

// own pulls the messages of a partition until ctx is done, and waits until they are answered.
func (o *partitionOwner) own(ctx context.Context, q needs.Partition, l *lease.Lease, term uint64) {
	o.setPullError(q, nil)
	defer o.setReleased(q)
	o.Log.Debug("this replica owns a partition", "partition", q, "term", term)
	p := &ownedPartition{partitionOwner: o, q: q, lease: l, term: term, isAnswered: true}
	for attempt := 0; ctx.Err() == nil; {
		switch err := p.pullOnce(ctx); {
		case ctx.Err() != nil:
		case err == nil || errors.Is(err, natsx.ErrGap):
			attempt = 0
		default:
			o.answered.Clear() // the stream may be another now
			if attempt > 0 {
				o.setPullError(q, fmt.Errorf("messages of partition %v of stream %s cannot be pulled: %w",
					q, o.Stream, err))
			}
			o.Log.Debug("a partition is bound again", "partition", q, "error", err)
			natsx.Backoff(ctx, attempt)
			attempt++
		}
	}
	if p.isAnswered && p.end.Holder != "" && l.Term() == term {
		o.endCleanly(q, p.end)
	}
}

// ownedPartition is a partition while this replica owns it. Its consumer may be bound more than once.
type ownedPartition struct {
	*partitionOwner
	q            needs.Partition
	lease        *lease.Lease
	term         uint64
	isAnswered   bool      // everything that was pulled is answered
	end          bookmark  // of the last consumer that was bound
	answeredUpTo bookmark  // its floor is up to where this owner has answered everything
	silent       time.Time // since when the server has not answered about the consumer
}

// pullOnce binds the consumer, pulls until ctx is done or a message is missing, and waits until all is answered.
func (p *ownedPartition) pullOnce(ctx context.Context) error {
	pulling, stop := context.WithCancel(ctx)
	s := &source{durable: p.q.ConsumerName(p.ConsumerName()), filter: p.q.Filter(p.Subject),
		ownership: &ownership{lease: p.lease, term: p.term, stop: stop, removed: make(chan struct{}, 1),
			answered: &p.answeredUpTo}}
	err := p.pull(pulling, p.q, s)
	stop()
	if s.current.Holder != "" {
		p.end = s.current
	}
	p.isAnswered = p.inFlight.awaitNone(p.work, s)
	if p.isAnswered && s.isActive() && !s.hasPostponed.Load() && s.taken != 0 {
		p.answeredUpTo = s.current
		p.answeredUpTo.Floor, p.answeredUpTo.Deaths = s.taken, 0
	}
	if s.isAborted.Load() { // until the partition is released, the consumer shows what is not answered
		p.gate.wait(ctx, anyReason)
	}
	switch {
	case !errors.Is(err, errConsumerSilent):
		p.silent = time.Time{}
	case p.silent.IsZero():
		p.silent = time.Now()
	case time.Since(p.silent) >= MaxConsumerSilence:
		p.removeSilentConsumer(ctx, p.q, s)
		p.silent = time.Time{}
	}
	return err
}

// MaxConsumerSilence is how long the server may not answer about the consumer of a partition, while it does about the
// stream, before the consumer is created again. An election takes seconds, but in a cluster that was partitioned a
// consumer can stay without a leader until it is deleted. Tests shorten it.
var MaxConsumerSilence = time.Minute

// removeSilentConsumer deletes the consumer of a partition. The next attempt creates it again where its bookmark is, so
// that the messages from there on are delivered again; those whose answer is still stored are not answered twice.
// Without a bookmark that would be the whole stream, so the consumer stays. The server may delete it without a
// response, which only a leader of the consumer would send.
func (o *partitionOwner) removeSilentConsumer(ctx context.Context, q needs.Partition, s *source) {
	if !s.isOwned() || s.previous.Created.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, natsx.HedgeWait)
	defer cancel()
	// The bookmark is from when the consumer was bound, which may be weeks ago. In a stream that deletes acknowledged
	// messages the rest is delivered again, since the consumer may have lost their acknowledgements.
	if s.answered.Created.Equal(s.previous.Created) && s.answered.Floor > s.previous.Floor && o.HasLimitsRetention() {
		if err := o.leases.Save(ctx, q.BookmarkKey(o.Name), *s.answered); err != nil {
			return // tried again after as long
		}
	}
	err := o.JS.DeleteConsumer(ctx, o.Stream, s.durable)
	o.Log.Warn("the server answers about the stream, but not about the consumer of a partition, which probably has no "+
		"leader; the consumer is created again", "stream", o.Stream, "partition", q, "consumer", s.durable,
		"silence", MaxConsumerSilence, "error", err)
}

// endCleanly stores that everything that was pulled of a partition is answered.
func (o *partitionOwner) endCleanly(q needs.Partition, end bookmark) {
	ctx, cancel := context.WithTimeout(context.Background(), replica.ReleaseTimeout)
	defer cancel()
	end.Holder, end.Ended = "", time.Now()
	if err := o.leases.Save(ctx, q.BookmarkKey(o.Name), end); err != nil {
		o.Log.Debug("the next owner of the partition counts this one as crashed", "partition", q, "error", err)
	}
}

// pull pulls the messages of a partition in order, until ctx is done or a message is missing.
func (o *partitionOwner) pull(ctx context.Context, q needs.Partition, s *source) error {
	if err := o.awaitEarlier(ctx, q); err != nil {
		return err
	}
	c, created, err := o.bindConsumer(ctx, q, s)
	if err != nil {
		return err
	}
	if s.current.Newest == 0 {
		if s.current.Newest, err = o.dedup.newestAnswered(ctx, o.Stream, created); err != nil {
			return err
		}
	}
	o.inFlight.markStale(created)
	s.identity.bind(c)
	delivery := c.CachedInfo().Delivered.Consumer
	for ctx.Err() == nil {
		if !o.gate.wait(ctx, anyReason) {
			return nil
		}
		room, messages := o.inFlight.awaitRoom(ctx)
		if room == 0 {
			return nil
		}
		bytes, _ := o.pullBytes()
		hasGap := false
		messages = max(min(messages, natsx.MaxFetchMessages)/o.Partitions, 1)
		_, err := o.fetch(ctx, s, c, created, messages, bytes, func(in *input) {
			switch {
			case in == nil || !s.isActive() || hasGap:
			case in.ConsumerSeq != delivery+1:
				if hasGap = true; in.ConsumerSeq <= delivery {
					o.inFlight.retire()
				}
				s.stop() // a message was lost or another process received it: it must be answered before this one
			default:
				delivery = in.ConsumerSeq
				o.take(in)
			}
		})
		switch {
		case hasGap:
			return natsx.ErrGap
		case err != nil:
			return err
		}
		o.setPullError(q, nil)
	}
	return nil
}

// take passes a message of a partition on to the transformer.
func (o *partitionOwner) take(in *input) {
	s := in.source
	in.training.MarkOffered() // training has a separate consumer
	in.isRedelivered = in.Delivered > 1 || in.Origin.Seq <= s.current.UpTo
	in.mayBeAnswered = in.isRedelivered || in.Origin.Seq <= s.current.Newest
	s.taken = in.Origin.Seq
	s.current.Newest = max(s.current.Newest, in.Origin.Seq)
	if in.Origin.Seq <= s.current.UpTo && s.current.Deaths >= 2 {
		// Two owners ended at this floor: from here on each message is processed alone.
		in.isSuspect, in.Delivered = true, max(in.Delivered, 2)
	}
	if o.inFlight.add(in) {
		o.out(in)
	}
}
