package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/training"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/spec"
)

// ackPending is the most messages that a process holds between delivery and acknowledgement.
const ackPending = spec.MinAckPending

// drainWait is how long answers that are on their way may take once the engine was told to stop.
const drainWait = 15 * time.Second

// input is one message on its way.
type input struct {
	scope.Message
	msg      *natsx.Message // nil on core NATS
	lane     *lane          // that brought it; nil on core NATS
	size     int64
	at       time.Time // when it came
	doubt    bool      // it may be answered already
	again    bool      // of a partition: it was delivered before
	tried    bool      // a process before this one had it and did not acknowledge it
	attempts uint64    // that are known to have failed; 0: this is the first

	// While it is worked on: what it comes to once it is unpacked and answered.
	working  bool
	unpacked int64

	training training.Delivery

	// The input stream was made anew since: the number that an acknowledgement would name is another message's now.
	stale atomic.Bool
}

func (in *input) bytes() int64 { return in.size }

// held is the set of messages between pull and acknowledgement, bounded in bytes (Invariant 5): of those that are
// worked on by what they come to, of the others as they came.
type held struct {
	mu      sync.Mutex
	msgs    map[heldKey]*input
	bytes   int64
	ahead   int64         // bytes of those that nobody works on yet
	working int           // how many of them are worked on
	share   func() int    // how many may be held
	freed   chan struct{} // signalled for who pulls when bytes became free
	left    chan struct{} // signalled for who answers when one was taken out

	pressure *pressure
}

// heldKey tells messages apart, those of a stream and of one of the same name before it too.
type heldKey struct {
	created int64
	seq     uint64
}

func keyOf(in *input) heldKey { return heldKey{in.Origin.Created.UnixNano(), in.Origin.Seq} }

func newHeld(p *pressure, share func() int) *held {
	return &held{msgs: map[heldKey]*input{}, share: share, freed: make(chan struct{}, 1), left: make(chan struct{}, 1),
		pressure: p}
}

// bind marks what is held of another stream of that name: its answers still leave, and nothing is acknowledged.
func (h *held) bind(created time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, in := range h.msgs {
		if !in.Origin.Created.Equal(created) {
			in.stale.Store(true)
		}
	}
}

// add takes a message in, unless it is held already: then this is a redelivery of a message that is being answered.
func (h *held) add(in *input) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.msgs[keyOf(in)]; ok {
		return false
	}
	h.msgs[keyOf(in)] = in
	if in.lane.inOrder() {
		in.lane.inside++
	}
	h.bytes += in.size
	h.ahead += in.size
	return true
}

// unhanded is what the learning path does not have, in stream order.
func (h *held) unhanded() []*input {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*input
	for _, in := range h.msgs {
		if !in.training.IsHanded() {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b *input) int { return cmp.Compare(a.Origin.Seq, b.Origin.Seq) })
	return out
}

func (h *held) remove(in *input) {
	h.mu.Lock()
	if in.lane.inOrder() {
		in.lane.inside--
		wake(in.lane.left)
	}
	delete(h.msgs, keyOf(in))
	h.bytes -= in.size + in.unpacked
	if in.working {
		h.working--
		h.pressure.held.Add(-1)
	} else {
		h.ahead -= in.size
	}
	h.mu.Unlock()
	wake(h.freed)
	wake(h.left)
}

// wake lets who waits look again. The channel holds one; a second changes nothing.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// work waits until there is room for what a message comes to, and counts it from then on. One message always has room
// once nothing else is worked on; one that is to be alone has none before. False where ctx is done first.
func (h *held) work(ctx context.Context, in *input, unpacked, most int64, alone bool) bool {
	for {
		h.mu.Lock()
		if h.working == 0 || !alone && h.bytes+unpacked <= most {
			in.working, in.unpacked = true, unpacked
			h.bytes += unpacked
			h.ahead -= in.size
			h.working++
			h.mu.Unlock()
			h.pressure.held.Add(1)
			wake(h.freed)
			return true
		}
		h.mu.Unlock()
		if !h.awaitLeft(ctx) {
			return false
		}
	}
}

// grow counts what the answer to a message has come to, where that is more than was told before it was made.
func (h *held) grow(in *input, answer int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if more := answer - in.size - in.unpacked; more > 0 {
		in.unpacked += more
		h.bytes += more
	}
}

// idle waits until nothing is worked on; false where ctx is done first.
func (h *held) idle(ctx context.Context) bool {
	for {
		h.mu.Lock()
		n := h.working
		h.mu.Unlock()
		if n == 0 || !h.awaitLeft(ctx) {
			return n == 0
		}
	}
}

func (h *held) awaitLeft(ctx context.Context) bool {
	select {
	case <-h.left:
		return true
	case <-ctx.Done():
		return false
	}
}

// free is how many bytes and messages more may be held.
func (h *held) free(most int64) (bytes int64, messages int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return most - h.bytes, h.share() - len(h.msgs)
}

// awaitFree waits until there is room and returns how much; none where ctx is done first. Of messages it waits for
// half of what may be held, so that no pull is for a few alone. And it waits while more is here than one pull brings
// that nobody works on yet: what is pulled sooner than it is needed only fills memory, and is out of the processor's
// caches by then.
func (h *held) awaitFree(ctx context.Context, most int64) (bytes int64, messages int) {
	for {
		h.mu.Lock()
		ahead := h.ahead
		h.mu.Unlock()
		bytes, messages = h.free(most)
		if bytes > 0 && messages >= h.share()/2 && messages > 0 && ahead <= natsx.MaxFetchBytes {
			wake(h.freed) // others wait for the same
			return bytes, messages
		}
		select {
		case <-h.freed:
		case <-ctx.Done():
			return 0, 0
		}
	}
}

func (h *held) all() []*natsx.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*natsx.Message, 0, len(h.msgs))
	for _, in := range h.msgs {
		if !in.stale.Load() {
			out = append(out, in.msg)
		}
	}
	return out
}

// keepAlive tells the server that held messages are still being worked on.
func (h *held) keepAlive(ctx context.Context, ackWait time.Duration) {
	tick := time.NewTicker(ackWait / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, m := range h.all() {
				_ = m.InProgress() // where the connection is down the message is redelivered, and absorbed
			}
		case <-ctx.Done():
			return
		}
	}
}

// serve is the hot path: pull, answer, publish, see it confirmed, acknowledge, in input order. Three steps of a
// conveyor: one pulls, one answers and publishes, one waits for confirmations.
func (p *relay) serve(ctx context.Context) error {
	u, err := newPublisher(p.Conn, p.Models.Hub)
	if err != nil {
		return err
	}
	defer u.close()
	u.leave = func(a *answer) { p.send(u, a) }
	h := newHeld(p.pressure, p.spare.share)
	pulled := make(chan *input, ackPending)
	sent := make(chan *answer, ackPending)
	// After ctx is done nothing more is pulled; what was pulled has so long to get through.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var late atomic.Bool
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.drain, func() { late.Store(true); stop() }) })()
	defer context.AfterFunc(p.severed, stop)()

	var wg sync.WaitGroup
	wg.Go(func() { h.keepAlive(work, p.AckWait) })
	wg.Go(func() {
		defer close(sent)
		for in := range p.spare.each(pulled) {
			if !in.lane.goesOn() { // it comes again, here or to who holds its partition now
				h.remove(in)
				continue
			}
			if in.lane.inOrder() {
				if p.gate.check() != 0 { // its partition is given back, for which nothing of it may wait here
					in.lane.breakOff()
					h.remove(in)
					continue
				}
			} else if !p.gate.wait(ctx, anything&^outdated) {
				continue // unanswered and unacknowledged: it is redelivered
			} else if p.gate.closed()&outdated != 0 { // others answer it, or this one when it has caught up
				if p.training.ReadsOnce() {
					p.training.Hand(&in.Message, &in.training) // it is not taught when it comes back
				}
				_ = in.msg.NakWithDelay(time.Second) // else it comes back into the pull that is open
				h.remove(in)
				continue
			}
			if work.Err() != nil {
				continue
			}
			unpacked := int64(p.Running.Expanded(in.Data) - len(in.Data))
			if !h.work(work, in, unpacked, p.mostHeld(), in.tried) {
				continue
			}
			a := p.try(work, in)
			if a == nil {
				continue // work has ended: the input stays unanswered too
			}
			h.grow(in, a.bytes())
			p.spare.did(a.seconds)
			p.publish(u, a)
			killpoint.Here(killpoint.Published)
			if len(a.letters) > 0 {
				killpoint.Here(killpoint.Dead)
			}
			sent <- a
			if in.tried {
				h.idle(work)
			}
		}
	})
	wg.Go(func() {
		defer stop()
		c := newConfirmer(p, u)
		c.held, c.sent = h, sent
		for a, ok := c.next(work); ok; a, ok = c.next(work) {
			c.settle(work, a)
		}
	})
	if p.Partitions > 0 {
		p.attendPartitions(ctx, work, h, pulled)
	} else {
		err = p.pull(ctx, p.whole, h, pulled)
	}
	close(pulled)
	wg.Wait()
	p.pressure.held.Add(-int64(h.working))
	left := h.all()
	for _, msg := range left { // what could not be answered is there for the next one at once
		_ = msg.Nak()
	}
	if len(left) > 0 && late.Load() {
		why := ""
		if reason := p.Conditions.Reason(health.Publish); reason != "" {
			why = ": " + reason
		}
		err = errors.Join(err, spec.Describe(fmt.Sprintf("told to stop, and %d inputs that were taken are not answered "+
			"after %v%s; they stay in stream %s and are answered after the next start",
			len(left), p.drain, why, p.Stream), ErrDrain))
	}
	return err
}

// pull brings messages until ctx is done. It survives every failure of the server but the loss of the consumer's
// configuration.
func (p *relay) pull(ctx context.Context, l *lane, h *held, out chan<- *input) error {
	var consumer jetstream.Consumer
	var created time.Time
	var number uint64      // of the consumer's newest delivery
	var newest uint64      // of the inputs that are answered or were pulled: up to it all may be answered
	var is context.Context // it ends when the consumer is seen to be gone
	lose := context.CancelFunc(func() {})
	defer func() { lose() }()
	for attempt := 0; ctx.Err() == nil; {
		if consumer == nil {
			c, at, err := p.consumer(ctx, l)
			answered := uint64(0)
			if err == nil {
				answered, err = p.answered(ctx, at)
			}
			if errors.Is(err, ErrConsumerTaken) {
				return err
			}
			if err != nil {
				if ctx.Err() != nil {
					return nil
				}
				p.told.consumer.Warn(p.Log, "the consumer cannot be made; trying again", "stream", p.Stream, "consumer",
					l.durable, "error", err)
				p.Conditions.SetError(health.Pull, fmt.Errorf("the consumer %s of stream %s cannot be made: %w",
					l.durable, p.Stream,
					err))
				if !natsx.Backoff(ctx, min(attempt, 5)) {
					return nil
				}
				attempt++
				continue
			}
			if !at.Equal(created) {
				newest = 0
			}
			consumer, created, newest = c, at, max(newest, answered)
			p.Conditions.Clear(health.Pull)
			lose()
			is, lose = context.WithCancel(ctx)
			l.lose.Store(&lose)
			p.inspectNow()
			number = c.CachedInfo().Delivered.Consumer
			h.bind(created)
			l.binding.bind(c)
			if p.training.Feed != nil {
				p.training.Feed.Bind(created, c.CachedInfo())
			}
		}
		// Waiting for a model pulls nothing, so it costs no delivery. Where nobody else can read the input it must pull to
		// learn; then what it pulled is held and kept alive. The consumer is there meanwhile: it says what is not answered,
		// and a stream that keeps messages for its consumers keeps them for it.
		if !p.training.ReadsOnce() && !p.gate.wait(is, holding) {
			consumer = nil
			continue
		}
		if !p.gate.wait(ctx, halted|outdated) {
			return nil
		}
		if p.training.ReadsOnce() && p.gate.closed()&holding != 0 {
			// What was pulled just before would wait for a model that it may have to make.
			for _, in := range h.unhanded() {
				p.training.Hand(&in.Message, &in.training)
			}
		}
		free, most := int64(natsx.MaxFetchBytes), natsx.MaxFetchMessages
		if !p.training.ReadsOnce() || p.gate.closed()&holding == 0 {
			if free, most = h.awaitFree(ctx, p.InFlight); free == 0 {
				return nil
			}
		}
		another := false
		l.binding.begin()
		_, err := natsx.Fetch(ctx, p.JS, consumer, min(most, natsx.MaxFetchMessages), free, func(msg *natsx.Message) {
			p.Series.Read(health.PathAnswer, len(msg.Data()))
			in := p.received(msg, created)
			if in == nil {
				return
			}
			in.lane = l
			if another = another || in.ConsumerSeq <= number; another {
				_ = msg.Nak()
				return
			}
			p.pressure.came(in.Pending)
			killpoint.Here(killpoint.Pulled)
			in.doubt = in.Delivered > 1 || in.Origin.Seq <= newest
			newest = max(newest, in.Origin.Seq)
			in.tried = l.trials.concerns(in, number, p.AckWait)
			number = in.ConsumerSeq
			if p.training.Feed != nil {
				p.training.Feed.Saw(&in.Message, &in.training)
				if p.training.ReadsOnce() && in.training.IsHanded() {
					in.tried = false // this process has had it, and put it off
				}
			}
			holds := p.training.ReadsOnce() && p.gate.closed()&holding != 0
			if holds && p.training.Feed.WaitRoom(ctx) {
				p.training.Hand(&in.Message, &in.training)
			}
			if bytes, messages := h.free(p.InFlight); holds && (bytes <= 0 || messages <= 0) {
				p.putOff(in)
			} else if h.add(in) {
				out <- in
			}
		})
		l.binding.end()
		switch {
		case ctx.Err() != nil:
			return nil
		case another:
			// Deliveries are counted from one again: somebody made the consumer anew, and perhaps the stream.
			p.Log.Warn("the consumer was made anew by another; binding it again", "stream", p.Stream, "consumer",
				l.durable)
			consumer = nil
		case err == nil:
			attempt = 0
			p.Conditions.Clear(health.Pull)
		case errors.Is(err, jetstream.ErrConsumerDeleted), errors.Is(err, jetstream.ErrConsumerNotFound),
			errors.Is(err, nats.ErrNoResponders):
			p.Log.Warn("the consumer is gone; making it again", "stream", p.Stream, "consumer", l.durable, "error", err)
			consumer = nil
			fallthrough
		default:
			p.Log.Debug("pull ended", "error", err)
			if attempt > 0 {
				p.Conditions.SetError(health.Pull, fmt.Errorf("messages of stream %s cannot be pulled: %w", p.Stream,
					p.explain(err, natsx.PullSubject(p.JS, p.Stream, p.ConsumerName()))))
			}
			if !natsx.Backoff(ctx, min(attempt, 5)) {
				return nil
			}
			attempt++
		}
	}
	return nil
}

// putOff gives a message back that cannot be answered before there is a model, where as many as may be held are: what
// it teaches is known, and those behind it may be needed for the model. It comes back, later each time.
func (p *relay) putOff(in *input) {
	if err := in.msg.NakWithDelay(backOff(int(min(in.Delivered, math.MaxInt32)) - 1)); err != nil {
		p.Log.Debug("a message that is put off comes back sooner", "source", in.Origin.Source(), "error", err)
	}
}

// received is a message of a pull, nil if it has no metadata.
func (p *relay) received(msg *natsx.Message, created time.Time) *input {
	m, ok := p.Received(msg, created)
	if !ok {
		return nil
	}
	return &input{Message: m, msg: msg, size: m.Size(), at: time.Now()}
}
