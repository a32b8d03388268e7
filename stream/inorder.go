package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/embedd/embedd/stream/internal/replica"

	"github.com/embedd/embedd/stream/internal/health"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/lease"
)

// Who holds a partition brings its messages in the order of the stream, from the first that is not acknowledged on: a
// consumer gives what was not acknowledged again when it likes, so it is made anew there. What keeps order is not the
// lease. An answer is sent only when the one before it of its key is stored; whoever holds a partition begins where
// everything before is stored; and what is sent twice is stored once. So of two that both believe that they hold it
// each stores what the other would, in the same order.

// attendPartitions holds this replica's share of the partitions until ctx is done. While it may not answer, or has
// nothing to answer with, it has none, and the others have more.
func (p *relay) attendPartitions(ctx, work context.Context, h *held, out chan<- *input) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for p.gate.wait(ctx, anything) && ctx.Err() == nil {
		turn, over := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.attendShare(turn, work, h, out)
		}()
		for p.gate.check() == 0 && ctx.Err() == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		over()
		<-ended
	}
}

// attendShare holds a share of the partitions until ctx is done, and gives each back when what was pulled of it is
// answered.
func (p *relay) attendShare(ctx, work context.Context, h *held, out chan<- *input) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wanted := map[needs.Partition]chan bool{}
	for _, q := range slices.Concat(p.earlier, needs.Partitions(&p.Pipeline)) {
		wants := make(chan bool, 1)
		wanted[q] = wants
		wg.Go(func() { p.attend(ctx, work, q, wants, h, out) })
	}
	mine := lease.NewClaim(p.seatName(), nil)
	group := p.Name + ".member"
	here := p.seats.Lease(lease.Options{Key: group + "." + mine.Holder, Claim: mine, TTL: p.Lease, Logger: p.Log})
	wg.Go(func() {
		if err := here.Acquire(ctx); err != nil && ctx.Err() == nil {
			p.Log.Debug("the replica is not known to the others yet; trying again", "error", err)
		}
		here.Run(ctx, func(context.Context, uint64) {})
		p.replica.Release(here)
	})
	p.seats.WatchMembers(ctx, group, p.replica.LeaseLife(), mine, func(members []string) {
		for q, who := range shares(slices.Collect(maps.Keys(wanted)), members) {
			select {
			case <-wanted[q]: // what nobody has heard of yet
			default:
			}
			wanted[q] <- who == mine.Holder
		}
	})
}

// seatName is what this process is called among the replicas: a token of a key.
func (p *relay) seatName() string { return p.Instance[strings.LastIndexByte(p.Instance, '.')+1:] }

// former are the partitions of other numbers that the stream had before, and that have consumers.
func (p *relay) former(ctx context.Context) (out []needs.Partition, err error) {
	names := p.Input.ConsumerNames(ctx)
	for name := range names.Name() {
		if q, ok := needs.ParsePartition(p.ConsumerName(), name); ok && q.Of != p.Partitions {
			out = append(out, q)
		}
	}
	return out, names.Err()
}

// attend holds a partition while it is wanted.
func (p *relay) attend(ctx, work context.Context, q needs.Partition, wanted <-chan bool, h *held, out chan<- *input) {
	for ctx.Err() == nil {
		wants := false
		select {
		case wants = <-wanted:
		case <-ctx.Done():
		}
		if !wants {
			continue
		}
		turn, over := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.keepPartition(turn, work, q, h, out)
		}()
		for wants && ctx.Err() == nil {
			select {
			case wants = <-wanted:
			case <-ctx.Done():
			}
		}
		over()
		<-ended
	}
}

// keepPartition takes the lease of a partition when it is to be had, and gives it back at the end.
func (p *relay) keepPartition(ctx, work context.Context, q needs.Partition, h *held, out chan<- *input) {
	l := p.seats.Lease(lease.Options{Key: q.LeaseKey(p.Name), Claim: lease.NewClaim(p.seatName(), nil), TTL: p.Lease,
		Logger: p.Log})
	if err := l.Acquire(ctx); err != nil && ctx.Err() == nil {
		p.Log.Debug("the lease of a partition cannot be asked for; trying again", "partition", q, "error", err)
	}
	l.Run(ctx, func(ctx context.Context, term uint64) {
		// A lease that was renewed late is held again, under the same term, and nobody is told.
		tick := time.NewTicker(p.replica.LeaseLife() / 20)
		defer tick.Stop()
		for now := l.Tenure(); term != 0 && (now.Term == term || now.Term == 0); now = l.Tenure() {
			if now.Term == term {
				p.holdPartition(ctx, work, q, l, now, h, out)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	p.replica.Release(l)
}

// holdPartition brings the messages of a partition until ctx is done or its lease is over, and waits until those that
// it brought are answered.
func (p *relay) holdPartition(ctx, work context.Context, q needs.Partition, l *lease.Lease, is lease.Tenure, h *held,
	out chan<- *input) {
	p.held.Add(1)
	defer p.held.Add(-1)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, over := context.WithCancel(ctx)
	defer over()
	wg.Go(func() { // a lease ends in silence where it cannot be renewed
		tick := time.NewTicker(p.replica.LeaseLife() / 20)
		defer tick.Stop()
		for l.Tenure() == is {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		over()
	})
	p.Log.Debug("this replica holds a partition", "partition", q, "term", is.Term)
	var at bookmark
	clean := true
	for attempt := 0; ctx.Err() == nil; {
		turn, stop := context.WithCancel(ctx)
		ln := &lane{durable: q.ConsumerName(p.ConsumerName()), filter: q.Filter(p.Subject),
			hold: &hold{lease: l, held: is, stop: stop, left: make(chan struct{}, 1)}}
		err := p.pullInOrder(turn, q, ln, h, out)
		stop()
		if ln.at.Holder != "" {
			at = ln.at
		}
		clean = h.awaitNone(work, ln)
		switch {
		case ctx.Err() != nil:
		case err == nil || errors.Is(err, natsx.ErrGap):
			attempt = 0
		default:
			p.over.Clear() // the stream may be another now
			if attempt > 0 {
				p.Conditions.SetError(health.Pull, fmt.Errorf("messages of partition %v of stream %s cannot be pulled: %w",
					q, p.Stream, err))
			}
			p.Log.Debug("a partition begins anew", "partition", q, "error", err)
			natsx.Backoff(ctx, attempt)
			attempt++
		}
	}
	if clean && at.Holder != "" && l.Tenure() == is {
		p.endWell(q, at)
	}
}

// endWell notes that what was pulled of a partition is answered.
func (p *relay) endWell(q needs.Partition, at bookmark) {
	ctx, cancel := context.WithTimeout(context.Background(), replica.ReleaseTimeout)
	defer cancel()
	at.Holder = ""
	if err := p.leave(ctx, q, at); err != nil {
		p.Log.Debug("the next replica takes the end of this one for a death", "partition", q, "error", err)
	}
}

// awaitNone waits until nothing of a lane is held; false where ctx is done first.
func (h *held) awaitNone(ctx context.Context, l *lane) bool {
	for ctx.Err() == nil {
		h.mu.Lock()
		n := l.inside
		h.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-l.left:
		case <-ctx.Done():
		}
	}
	return false
}

// pullInOrder brings the messages of a partition, until ctx is done or they cannot be brought in order.
func (p *relay) pullInOrder(ctx context.Context, q needs.Partition, l *lane, h *held, out chan<- *input) error {
	if err := p.awaitTurn(ctx, q); err != nil {
		return err
	}
	c, created, err := p.bindInOrder(ctx, q, l)
	if err != nil {
		return err
	}
	answered, err := p.answered(ctx, created)
	if err != nil {
		return err
	}
	h.bind(created)
	l.binding.bind(c)
	number := c.CachedInfo().Delivered.Consumer
	for ctx.Err() == nil {
		if !p.gate.wait(ctx, anything) {
			return nil
		}
		free, most := h.awaitFree(ctx, p.mostHeld())
		if free == 0 {
			return nil
		}
		bytes, _ := p.pulls()
		gap := false
		l.binding.begin()
		_, err := natsx.Fetch(ctx, p.JS, c, max(min(most, natsx.MaxFetchMessages)/p.Partitions, 1), bytes,
			func(msg *natsx.Message) {
				p.Series.Read(health.PathAnswer, len(msg.Data()))
				in := p.received(msg, created)
				if in == nil || !l.goesOn() || gap {
					return
				}
				if gap = in.ConsumerSeq != number+1; gap {
					l.stop() // one was lost on its way, or somebody else got it: it has to come before this one
					return
				}
				number = in.ConsumerSeq
				p.pressure.came(in.Pending)
				killpoint.Here(killpoint.Pulled)
				in.lane = l
				in.training.MarkHanded() // learning reads for itself
				p.comesAgain(in, answered)
				if h.add(in) {
					out <- in
				}
			})
		l.binding.end()
		switch {
		case gap:
			return natsx.ErrGap
		case err != nil:
			return err
		}
		p.Conditions.Clear(health.Pull)
	}
	return nil
}

// pulls is how many bytes a pull of one partition brings at most: of what one pull brings without partitions, or of
// half of limits.in_flight where that is less, a share that is the same whatever the others do, and at least one
// message. What came before the partitions has its turn before them, so it has no share beside theirs.
func (p *relay) pulls() (each, all int64) {
	n := int64(max(p.Partitions, len(p.earlier)))
	each = max(min(natsx.MaxFetchBytes, p.InFlight/2)/n, p.Conn.MaxPayload()+natsx.MaxHeaderBytes)
	return each, n * each
}

// mostHeld is up to how many bytes more is pulled and unpacked: with partitions what the pulls of all may bring has its
// place beside it.
func (p *relay) mostHeld() int64 {
	if p.Partitions == 0 {
		return p.InFlight
	}
	_, all := p.pulls()
	return max(p.InFlight-all, p.InFlight/2)
}

// comesAgain notes what is known of a message that was delivered before.
func (p *relay) comesAgain(in *input, answered uint64) {
	l := in.lane
	in.again = in.Delivered > 1 || in.Origin.Seq <= l.at.UpTo
	in.doubt = in.again || in.Origin.Seq <= answered
	if in.Origin.Seq > l.at.UpTo || l.at.Deaths < 2 {
		return
	}
	// Whoever held it before has ended at the same place twice: from here on each is tried alone.
	in.tried, in.Delivered = true, max(in.Delivered, 2)
}

// suspect counts the deaths of those who held a partition for the first of its messages that has no answer: each is
// tried alone, so it was the one that was under way.
func (p *relay) suspect(ctx context.Context, in *input) {
	l := in.lane
	if !in.tried || !l.inOrder() || l.first == 0 {
		return
	}
	for kind, subject := range map[wire.Answer]string{wire.AnswerOut: p.Output, wire.AnswerDead: p.Dead,
		wire.AnswerRows: p.Dead} {
		o := &outgoing{id: in.Origin.ID(p.Name, kind, 0), sink: p.tail.of(subject)}
		p.tail.markStored(ctx, &answer{in: in, parts: []*outgoing{o}}, true)
		if o.stored {
			return
		}
	}
	in.Delivered = max(in.Delivered, l.at.Deaths+1)
	l.first = 0
}

// awaitTurn waits until what came before the partitions had their number is answered. Of those of this process that
// wait for the same one asks, for one consumer at a time, the first that has something left, and ever less often.
// What has nothing left the others do not ask for again.
func (p *relay) awaitTurn(ctx context.Context, q needs.Partition) error {
	if q.Of == 0 {
		return nil
	}
	asking := p.asking[0]
	if q.Of != p.Partitions { // the others wait for it
		asking = p.asking[1]
	}
	select {
	case asking <- struct{}{}:
		defer func() { <-asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	before := []needs.Partition{{}}
	if q.Of == p.Partitions {
		before = append(before, p.earlier...)
	}
	for wait := turnWait; len(before) > 0; {
		if _, ok := p.over.Load(before[0]); ok {
			before = before[1:]
			continue
		}
		waits, err := p.unanswered(ctx, before[0])
		if err != nil {
			return err
		}
		if waits == 0 {
			p.over.Store(before[0], nil)
			continue
		}
		p.told.before.Warn(p.Log, "the partitions wait until what the stream stored before it had them is answered",
			"consumer", before[0].ConsumerName(p.ConsumerName()), "messages", waits)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		wait = min(2*wait, 8*turnWait)
	}
	return nil
}

// turnWait is how long a partition waits at first before it asks again whether it may begin.
const turnWait = 250 * time.Millisecond

// unanswered counts what a consumer has not brought, or is not acknowledged.
func (p *relay) unanswered(ctx context.Context, q needs.Partition) (uint64, error) {
	c, err := p.JS.Consumer(ctx, p.Stream, q.ConsumerName(p.ConsumerName()))
	if err != nil {
		return 0, err
	}
	return c.CachedInfo().NumPending + uint64(c.CachedInfo().NumAckPending), nil
}

// bookmark is what whoever holds a partition leaves for the next one: where its consumer is made anew, and whether it
// ended as it should.
type bookmark struct {
	Created time.Time `json:"created"` // of the stream
	Floor   uint64    `json:"floor"`   // up to here all is acknowledged
	UpTo    uint64    `json:"up_to"`   // up to here some may be answered
	Deaths  uint64    `json:"deaths"`  // how often whoever held it ended at this place without a word
	Holder  string    `json:"holder"`  // that has it, "" once what it pulled is answered
}

var errShared = errors.New("replicas without partitions read it still")

// bindInOrder binds the consumer of a partition, and makes it anew where something is delivered and not acknowledged,
// or may yet be delivered to somebody else.
func (p *relay) bindInOrder(ctx context.Context, q needs.Partition, l *lane) (c jetstream.Consumer, created time.Time,
	err error) {
	text, err := p.seats.Bookmark(ctx, q.BookmarkKey(p.Name))
	if err != nil {
		return nil, created, err
	}
	_ = json.Unmarshal([]byte(text), &l.was) // what is none says nothing
	if c, created, err = p.consumer(ctx, l); err != nil {
		return nil, created, err
	}
	info := c.CachedInfo()
	at := bookmark{Created: created, Floor: info.AckFloor.Stream, UpTo: info.Delivered.Stream, Holder: p.seatName()}
	behind := false
	if l.was.Created.Equal(created) {
		// A process that starts makes one that it does not find, and may do so while this one is made anew.
		behind = at.Floor < l.was.Floor
		at.Floor = max(at.Floor, l.was.Floor)
		at.UpTo = max(at.UpTo, l.was.UpTo)
		if l.was.Floor == at.Floor {
			at.Deaths = l.was.Deaths
		}
		if l.was.Holder != "" && l.was.Holder != at.Holder {
			at.Deaths++
		}
	}
	if q.Of == 0 && info.NumWaiting > 0 {
		return nil, created, errShared
	}
	l.at, l.first = at, at.Floor+1
	if err := p.leave(ctx, q, at); err != nil {
		return nil, created, err
	}
	if info.NumAckPending > 0 || info.NumWaiting > 0 || behind {
		if c, err = p.makeAnew(ctx, l, info.Config, at.Floor+1); err != nil {
			return nil, created, err
		}
	}
	return c, created, p.beginTrials(ctx, l, created, c.CachedInfo())
}

func (p *relay) leave(ctx context.Context, q needs.Partition, at bookmark) error {
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	return p.seats.SetBookmark(ctx, q.BookmarkKey(p.Name), string(text))
}

// makeAnew makes a consumer begin at a message.
func (p *relay) makeAnew(ctx context.Context, l *lane, c jetstream.ConsumerConfig, first uint64) (jetstream.Consumer,
	error) {
	if !l.mine() {
		return nil, errNotHeld
	}
	if err := p.JS.DeleteConsumer(ctx, p.Stream, l.durable); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, err
	}
	c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, first
	return p.JS.CreateConsumer(ctx, p.Stream, c)
}

// errNotHeld says that an answer is not sent since another may hold the partition of its input by now.
var errNotHeld = errors.New("another replica may hold the partition now")
