package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/bytequeue"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

// coreNATS answers the messages of a subject without a stream, at most once. Messages that wait for a first model are
// queued in memory, up to limits.in_flight; beyond it the oldest are dropped, counted and logged.
type coreNATS struct {
	*hotPath
	queue   atomic.Pointer[bytequeue.Queue[*input]] // nil until run
	dropped int                                     // messages; used by the callback of the subscription

	inputs, labels clientDrops

	droppedLog, lostLog, clientLog, labelsLog ratelog.Limiter
}

// clientDrops counts the messages of a subscription that the client dropped, because they arrived faster than the
// callback was called.
type clientDrops struct {
	sub     atomic.Pointer[nats.Subscription] // nil: none
	mu      sync.Mutex
	counted int
}

// count returns how many were dropped since the last call, and how many in total.
func (d *clientDrops) count() (recent, total int) {
	sub := d.sub.Load()
	if sub == nil {
		return 0, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	total, err := sub.Dropped()
	if err != nil { // the subscription has ended
		return 0, 0
	}
	recent, d.counted = total-d.counted, total
	return recent, total
}

// flushTimeout bounds each flush of the connection when the relay stops.
const flushTimeout = 5 * time.Second

// run subscribes to the inputs and to late labels, and answers until ctx is done.
func (c *coreNATS) run(ctx, connClosed context.Context) error {
	c.Log.Info("the input has no stream: messages are answered at most once", "subject", c.Subject)
	queue := bytequeue.New(c.InFlight, (*input).bytes)
	c.queue.Store(queue)
	if c.training.HasLateLabels() {
		labels, err := c.training.SubscribeLabels(ctx)
		if err != nil {
			return err
		}
		defer labels.Unsubscribe()
		c.labels.sub.Store(labels)
	}
	sub, err := c.Conn.Subscribe(c.Subject, c.receive)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	// The queue is the limit: the client must not drop messages before it does.
	if err := sub.SetPendingLimits(-1, int(c.InFlight)); err != nil {
		return err
	}
	c.inputs.sub.Store(sub)
	return c.serve(ctx, connClosed, sub, queue)
}

// serve answers messages until ctx is done, and then those that were received before, as far as the gate is open and
// the drain timeout and the connection allow.
func (c *coreNATS) serve(ctx, connClosed context.Context, sub *nats.Subscription,
	queue *bytequeue.Queue[*input]) error {
	work, stop := context.WithCancel(context.Background()) // ends when the drain takes too long
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.drainTimeout, stop) })()
	defer context.AfterFunc(connClosed, stop)()
	lost := 0
	for c.gate.wait(ctx, anyReason) {
		in, ok := queue.Pop(ctx)
		if !ok {
			break
		}
		if c.gate.check() != 0 {
			queue.Unpop(in)
		} else if !c.answerOne(work, in) {
			lost++
		}
	}
	c.countDropped()
	if err := sub.Drain(); err == nil {
		// What the server had sent is with the client after a flush, and in the queue once the callback has run for it.
		_ = c.Conn.FlushTimeout(flushTimeout)
		for n := 1; n > 0 && err == nil; n, _, err = sub.Pending() {
			time.Sleep(time.Millisecond)
		}
	}
	why := c.gate.check()
	for ; why == 0 && work.Err() == nil; why = c.gate.check() {
		in, ok := queue.TryPop()
		if !ok {
			break
		}
		if !c.answerOne(work, in) {
			lost++
		}
	}
	return errors.Join(c.reportLost(lost+queue.Len(), why), c.Conn.FlushTimeout(flushTimeout))
}

// receive queues a message, and drops the oldest ones beyond the limit.
func (c *coreNATS) receive(msg *nats.Msg) {
	in := &input{Message: scope.ReceivedCore(msg), receivedAt: time.Now()}
	in.size = in.Size()
	c.activity.received(time.Now(), 0)
	if c.training.Feed != nil && c.gate.isWaitingForModel() {
		c.training.Offer(&in.Message, &in.training)
	}
	dropped := c.queue.Load().Push(in)
	if len(dropped) == 0 {
		return
	}
	c.Series.Add(health.Dropped, float64(len(dropped)), health.PathAnswer)
	for _, in := range dropped {
		if c.training.Feed != nil && !in.training.IsOffered() {
			c.Series.Add(health.Dropped, 1, health.PathLearn)
		}
	}
	c.dropped += len(dropped)
	c.droppedLog.Warn(c.Log, "messages are dropped, the oldest first: they arrive faster than they are answered, or no "+
		"model is live yet", "limits.in_flight", c.InFlight, "dropped", c.dropped)
}

// countDropped counts the messages that the client dropped.
func (c *coreNATS) countDropped() {
	if recent, total := c.inputs.count(); recent > 0 {
		c.Series.Add(health.Dropped, float64(recent), health.PathAnswer)
		if c.training.Feed != nil {
			c.Series.Add(health.Dropped, float64(recent), health.PathLearn)
		}
		c.clientLog.Warn(c.Log, "messages are dropped by the client: they arrive faster than they are received",
			"limits.in_flight", c.InFlight, "dropped", total)
	}
	if recent, total := c.labels.count(); recent > 0 {
		c.Series.Add(health.Dropped, float64(recent), health.PathLearn)
		c.labelsLog.Warn(c.Log, "late labels are dropped by the client: they arrive faster than they are learned; send "+
			"them more slowly, or raise limits.in_flight", "limits.in_flight", c.InFlight, "dropped", total)
	}
}

// reportLost counts and reports the inputs that a stop leaves without an answer, because no stream keeps them.
func (c *coreNATS) reportLost(n int, why reasons) error {
	if n == 0 {
		return nil
	}
	c.Series.Add(health.Dropped, float64(n), health.PathAnswer)
	reason := fmt.Sprintf("answering them takes longer than %v", c.drainTimeout)
	if why != 0 {
		reason = why.String()
	}
	c.Log.Warn("inputs are lost at the stop because no stream stores them", "messages", n, "reason", reason)
	return spec.Describe(fmt.Sprintf("%d inputs are lost at the stop because no stream stores them: %s", n, reason),
		spec.ErrDrain)
}

// answerOne answers an input. It returns false when ctx is done first.
func (c *coreNATS) answerOne(ctx context.Context, in *input) bool {
	beginSpan(c.Scope, in)
	defer func() { endSpan(in.span, nil) }()
	c.Running.Open(&c.transformer.opened, in.Data)
	a := c.transformer.answer(ctx, in)
	if a == nil {
		return false
	}
	c.recordDeadShare(a)
	a.describe()
	if c.publish(a) {
		c.Series.Answered(a.result, a.rows, a.seconds)
	}
	return true
}

// publish publishes an answer. It reports whether all of it could be sent.
func (c *coreNATS) publish(a *answer) bool {
	for _, l := range a.deadLetters {
		if !l.isPublishable {
			c.Log.Error("a dead letter is dropped: it exceeds the maximum payload of the server", "subject", c.Dead)
			c.Series.Add(health.Dropped, 1, health.PathAnswer)
			return false
		}
	}
	for _, o := range a.parts {
		if err := c.Conn.PublishMsg(o.msg); err != nil {
			c.lostLog.Warn(c.Log, "an input is dropped: its output cannot be published, and no stream stores it", "subject",
				o.msg.Subject,
				"error", err)
			c.Series.Add(health.Dropped, 1, health.PathAnswer)
			return false
		}
	}
	c.logDeadLetters(a)
	return true
}
