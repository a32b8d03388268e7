package relay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/needs"
)

// partitions keeps the order of each key. The key is what the wildcards of the pipeline's subject match. The input
// stream's subject transform adds two tokens to each stored subject: the number of partitions, and the partition.
//
// The owner of a partition pulls its messages in stream order from the first unacknowledged one. A consumer may
// redeliver that one after later messages of its key, so a new owner recreates the consumer to begin there.
//
// Order does not depend on the lease. An answer is sent only when the one before it of its key is stored, an owner
// starts where everything before is stored, and an answer that is sent twice is stored once. So two processes that both
// believe that they own a partition store the same answers in the same order.
type partitions struct {
	*hotPath
	leases  *lease.Bucket
	earlier []needs.Partition // of earlier partition counts, whose consumers still exist

	mu    sync.Mutex
	owned map[needs.Partition]error // the partitions that this process owns, and why each cannot be pulled

	// Of the partitions that wait for earlier messages, the one that has the slot asks the server. Partitions of earlier
	// numbers have another slot, since those of the present number wait for them.
	slot, earlierSlot chan struct{}

	answered sync.Map // earlier partitions whose messages are all answered
	waitLog  ratelog.Limiter
}

func newPartitions(p *hotPath) *partitions {
	return &partitions{hotPath: p, owned: map[needs.Partition]error{}, slot: make(chan struct{}, 1),
		earlierSlot: make(chan struct{}, 1)}
}

// memberName is the name of this process among the replicas: a token of a key.
func (p *partitions) memberName() string {
	return p.Instance[strings.LastIndexByte(p.Instance, '.')+1:]
}

// ownedNow returns the partitions that this process owns.
func (p *partitions) ownedNow() []needs.Partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.owned))
}

// setPullError records that this process owns a partition, and why it cannot be pulled, if so. The condition has the
// first of these errors.
func (p *partitions) setPullError(q needs.Partition, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned[q] = err
	p.reportPullErrors()
}

// setReleased records that this process does not own a partition any more.
func (p *partitions) setReleased(q needs.Partition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.owned, q)
	p.reportPullErrors()
}

func (p *partitions) reportPullErrors() {
	var reasons []string
	for _, err := range p.owned {
		if err != nil {
			reasons = append(reasons, err.Error())
		}
	}
	if len(reasons) == 0 {
		p.Conditions.Clear(health.Pull)
	} else {
		p.Conditions.Set(health.Pull, slices.Min(reasons))
	}
}

// pullBytes returns how many bytes a pull of one partition may fetch, and the pulls of all together: half of
// limits.in_flight or the size of one pull without partitions, whichever is less, and at least one message each. It
// does not depend on what other partitions do. Partitions of earlier numbers are pulled before the others, so they need
// no separate share.
func (p *partitions) pullBytes() (each, all int64) {
	n := int64(max(p.Partitions, len(p.earlier)))
	each = max(min(natsx.MaxFetchBytes, p.InFlight/2)/n, p.Conn.MaxPayload()+natsx.MaxHeaderBytes)
	return each, n * each
}

// maxInFlight is the limit of bytes in flight up to which messages are pulled and expanded: with partitions it leaves
// room for the pulls of all of them.
func (p *partitions) maxInFlight() int64 {
	if p.Partitions == 0 {
		return p.InFlight
	}
	_, all := p.pullBytes()
	return max(p.InFlight-all, p.InFlight/2)
}

// minEarlierPoll is the first interval at which a partition asks whether earlier messages are answered.
const minEarlierPoll = 250 * time.Millisecond

// awaitEarlier waits until the messages that were stored before the stream had this number of partitions are answered.
// Of the partitions of this process one asks, for one consumer at a time, at growing intervals.
func (p *partitions) awaitEarlier(ctx context.Context, q needs.Partition) error {
	if q.Of == 0 {
		return nil
	}
	slot := p.slot
	if q.Of != p.Partitions {
		slot = p.earlierSlot
	}
	select {
	case slot <- struct{}{}:
		defer func() { <-slot }()
	case <-ctx.Done():
		return ctx.Err()
	}
	before := []needs.Partition{{}}
	if q.Of == p.Partitions {
		before = append(before, p.earlier...)
	}
	for wait := minEarlierPoll; len(before) > 0; {
		if _, ok := p.answered.Load(before[0]); ok {
			before = before[1:]
			continue
		}
		durable := before[0].ConsumerName(p.ConsumerName())
		consumer, err := p.JS.Consumer(ctx, p.Stream, durable)
		if err != nil {
			return err
		}
		messages := natsx.Unacknowledged(consumer.CachedInfo())
		if messages == 0 {
			p.answered.Store(before[0], nil)
			continue
		}
		p.waitLog.Warn(p.Log, "the partitions wait until the messages that were stored before the stream had "+
			"partitions are answered", "consumer", durable, "messages", messages)
		if !natsx.Sleep(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, 8*minEarlierPoll)
	}
	return nil
}

var errStillShared = errors.New("replicas without partitions still read it")

// bindConsumer binds the consumer of a partition. It creates the consumer again if messages are delivered and not
// acknowledged, or may still be delivered to another process.
func (p *partitions) bindConsumer(ctx context.Context, q needs.Partition, s *source) (c jetstream.Consumer,
	created time.Time, err error) {
	if err = lease.Load(ctx, p.leases, q.BookmarkKey(p.Name), &s.previous); err != nil {
		return nil, created, err
	} // without a valid one the partition starts from what the consumer knows
	if c, created, err = p.consumers.bind(ctx, s); err != nil {
		return nil, created, err
	}
	info := c.CachedInfo()
	now := bookmark{Created: created, Floor: info.AckFloor.Stream, UpTo: info.Delivered.Stream, Holder: p.memberName()}
	isBehind := false
	if s.previous.Created.Equal(created) {
		// A process that starts creates a consumer that is missing, which may be while another creates it again.
		isBehind = now.Floor < s.previous.Floor
		now.Floor = max(now.Floor, s.previous.Floor)
		now.Newest = s.previous.newestAnswered(time.Now(), p.dedup.window())
		now.UpTo = max(now.UpTo, s.previous.UpTo)
		if s.previous.Floor == now.Floor {
			now.Deaths = s.previous.Deaths
		}
		if s.previous.Holder != "" && s.previous.Holder != now.Holder {
			now.Deaths++
		}
	}
	if q.Of == 0 && info.NumWaiting > 0 {
		return nil, created, errStillShared
	}
	s.current, s.first = now, now.Floor+1
	if err := p.leases.Save(ctx, q.BookmarkKey(p.Name), now); err != nil {
		return nil, created, err
	}
	if info.NumAckPending > 0 || info.NumWaiting > 0 || isBehind {
		if c, err = p.recreateConsumer(ctx, s, info.Config, now.Floor+1); err != nil {
			return nil, created, err
		}
	}
	return c, created, s.attempts.load(ctx, p.Scope, created, c.CachedInfo())
}

// recreateConsumer creates a consumer again so that it starts at a message.
func (p *partitions) recreateConsumer(ctx context.Context, s *source, config jetstream.ConsumerConfig,
	first uint64) (jetstream.Consumer, error) {
	if !s.isOwned() {
		return nil, errNotOwned
	}
	if err := p.JS.DeleteConsumer(ctx, p.Stream, s.durable); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, err
	}
	config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, first
	return p.JS.CreateConsumer(ctx, p.Stream, config)
}
