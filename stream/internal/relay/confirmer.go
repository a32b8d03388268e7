package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/health"
)

// confirmer waits until the server has confirmed answers, in the order in which they were sent, and then acknowledges
// their inputs. When a connection is lost, all answers that are pending fail: when one fails, resend takes the ones
// behind it out of sent too, so that they are looked up and sent again together.
type confirmer struct {
	*hotPath
	publisher *publisher
	timeout   *time.Timer
	inFlight  *inFlight
	sent      <-chan *answer
	ahead     []*answer // received from sent and not finished yet
	confirmed []*answer // confirmed and not acknowledged yet
}

func newConfirmer(p *hotPath, u *publisher) *confirmer {
	return &confirmer{hotPath: p, publisher: u, timeout: time.NewTimer(ackTimeout)}
}

// run finishes all answers that are sent, until the channel is closed.
func (c *confirmer) run(ctx context.Context) {
	for a, ok := c.next(ctx); ok; a, ok = c.next(ctx) {
		c.finish(ctx, a)
	}
}

// next returns the oldest answer that is not finished; false if there will be no more.
func (c *confirmer) next(ctx context.Context) (a *answer, ok bool) {
	if len(c.ahead) == 0 {
		select {
		case a, ok = <-c.sent:
		default:
			c.acknowledge(ctx)
			a, ok = <-c.sent
		}
		if !ok {
			c.acknowledge(ctx)
		}
		return a, ok
	}
	a = c.ahead[0]
	c.ahead[0] = nil
	c.ahead = c.ahead[1:]
	return a, true
}

// finish waits until the server has confirmed every part, and then has the input acknowledged (Invariant 1), or
// postpones an input that cannot be answered now. If ctx is done first the input is redelivered.
func (c *confirmer) finish(ctx context.Context, a *answer) {
	defer func() {
		if ctx.Err() == nil {
			c.publisher.releaseNext(a)
		}
	}()
	err := c.deliver(ctx, a)
	defer func() { endSpan(a.publishing, err) }()
	for attempt := 0; err != nil; attempt++ {
		if ctx.Err() != nil {
			return
		}
		isPartitionLost := errors.Is(err, errNotOwned)
		if isPartitionLost {
			c.publisher.forget(a.parts)
		}
		if isPartitionLost || c.postpone(a, err) {
			a.in.source.attempts.retract(ctx, a.in)
			c.inFlight.remove(a.in)
			return
		}
		// Too many inputs are postponed: this one waits, and those behind it.
		if !natsx.Backoff(ctx, attempt) {
			return
		}
		err = c.deliver(ctx, a)
	}
	if n := len(a.parts); n > 0 && !a.parts[n-1].firstSentAt.IsZero() { // else an earlier attempt had stored it
		c.Series.Stored(a.in.Time, a.parts[n-1].firstSentAt)
	}
	for _, o := range a.parts {
		if o.isDuplicate {
			c.Series.Add(health.Duplicates, 1)
		}
	}
	killpoint.Here(killpoint.Confirmed)
	if a.in.Delivered <= 1 || !c.undeliverable.has(a.in) { // else it was counted when it was postponed
		c.recordDeadShare(a)
	}
	if c.confirmed = append(c.confirmed, a); len(c.confirmed) >= maxPending/4 {
		c.acknowledge(ctx)
	}
}

// deliver waits until the server has confirmed every part. An output that can never be stored is replaced with a dead
// letter, and such a dead letter is split into smaller messages. The error explains why the answer cannot be stored
// now.
func (c *confirmer) deliver(ctx context.Context, a *answer) error {
	for i := 0; i < len(a.parts); i++ {
		o := a.parts[i]
		confirm := c.confirm
		if o.deadLetter != nil {
			confirm = c.confirmDeadLetter
		}
		err := confirm(ctx, o)
		if err == nil {
			continue
		}
		if finalError(err) == nil {
			return err
		}
		c.Log.Warn("the server permanently rejects an output", "source", a.in.Origin.Source(), "subject", o.msg.Subject,
			"error", err)
		_, _ = c.deadLetters.refresh(ctx) // the limit of a stream has changed if it rejects a message
		if o.deadLetter == nil {
			_, _ = c.outputs.refresh(ctx)
			c.publisher.forget(a.parts)
			c.composer.deadMessage(a, err)
		} else {
			c.publisher.forget(slices.DeleteFunc(slices.Clone(a.parts), func(b *part) bool {
				return b.deadLetter != o.deadLetter
			}))
			c.composer.splitDeadLetter(a, o)
		}
		i = -1
	}
	for _, l := range a.deadLetters {
		if !l.isPublishable {
			err := fmt.Errorf("a dead letter of %d bytes does not fit into messages of %d: raise max_msg_size of the stream "+
				"of %s", len(l.body), c.composer.maxBytes(c.deadLetters), c.Dead)
			_, _ = c.deadLetters.refresh(ctx)
			return err
		}
	}
	return nil
}

// confirm waits until the server has confirmed a part, and sends it again indefinitely if it cannot be stored now. It
// returns an error if it can never be stored, or the last error when ctx is done.
func (c *confirmer) confirm(ctx context.Context, o *part) error {
	for attempt := 0; !o.isStored; attempt++ {
		err := o.err
		if err == nil && o.attempt == 0 {
			err = c.resend(ctx, o)
		}
		if err == nil {
			err = c.await(ctx, o)
		}
		if errors.Is(err, errDuplicate) {
			if err = c.resolveDuplicate(ctx, o); err == nil {
				continue
			}
		}
		if err == nil {
			break
		}
		if ctx.Err() != nil || errors.Is(err, errNotOwned) {
			return err
		}
		if final := finalError(err); final != nil {
			return final
		}
		reason := c.explainPart(o, err)
		c.Conditions.SetError(o.component(), fmt.Errorf("publishing on %s fails: %w", o.msg.Subject, reason))
		if attempt == 3 || attempt > 0 && attempt%20 == 0 {
			c.Log.Warn("publishing fails; trying again", "subject", o.msg.Subject, "attempt", attempt, "error", reason)
		}
		if !natsx.ShortBackoff(ctx, attempt) || !c.awaitConnection(ctx) {
			return err
		}
		if !errors.Is(o.err, errDuplicate) {
			o.err = nil
		}
	}
	c.Conditions.Clear(o.component())
	c.Permissions.MarkAllowed(natsx.Permission{Action: natsx.Publish, Subject: o.msg.Subject})
	return nil
}

// explainPart adds what to do to the error of a part: if the server refused it, why its stream takes no message.
func (c *confirmer) explainPart(o *part, err error) error {
	err = c.explain(err, o.msg.Subject)
	if _, isRefused := errors.AsType[*jetstream.APIError](err); isRefused {
		if f := o.sink.fault.Load(); f != nil {
			err = fmt.Errorf("%w; %w", err, f)
		}
	}
	return err
}

// errClaimed is the error of a part both of whose identities other messages have: it waits until the stream's duplicate
// window is over.
var errClaimed = errors.New("other messages of the stream have both identities of an answer: a client has the key of " +
	"the pipeline's identities")

// resolveDuplicate finds out whether the message that has the identity of a part, as the server says, is the part.
// Otherwise it sends the part again under its second identity.
func (c *confirmer) resolveDuplicate(ctx context.Context, o *part) error {
	isStored, err := natsx.Guarded(ctx, c.Permissions, func(ctx context.Context) (bool, error) {
		return o.sink.has(ctx, o.claimant, o)
	})
	switch {
	case errors.Is(err, errNotStored):
		o.err = nil // sent again, after it was looked up
		return err
	case err != nil:
		return err
	case isStored:
		o.isStored, o.isDuplicate, o.err = true, true, nil
		return nil
	}
	c.claimed.Add(1)
	c.Series.Add(health.Claimed, 1)
	c.claimLog.Warn(c.Log, "another message has the identity of an answer, as after the restore of an older copy of the "+
		"input stream; the answer is sent under its second identity",
		"source", o.in.Origin.Source(), "subject", o.msg.Subject, "stream", o.sink.stream(), "sequence", o.claimant)
	o.err = nil
	if o.isSecond {
		return errClaimed
	}
	o.isSecond, o.isDoubtful, o.id = true, false, c.identities.second(o)
	c.publisher.send(o)
	return nil
}

// confirmDeadLetter is confirm with a time limit: outputs are on another subject and must not wait for dead letters.
func (c *confirmer) confirmDeadLetter(ctx context.Context, o *part) error {
	for !o.isStored {
		patience := c.undeliverable.patience(time.Now())
		if patience == 0 {
			return errRefused
		}
		limited, cancel := context.WithTimeout(ctx, patience)
		err := c.confirm(limited, o)
		isTimeout := limited.Err() != nil
		cancel()
		switch {
		case err == nil:
			c.undeliverable.setRefused(false, time.Now())
			return nil
		case !isTimeout || ctx.Err() != nil:
			return err // it can never be stored, or the relay stops
		case !c.Conn.IsConnected():
			continue // no message can be stored now
		}
		err = c.explainPart(o, err)
		if c.undeliverable.setRefused(true, time.Now()) {
			c.Log.Error("dead letters cannot be stored; their inputs are retried, and other inputs are answered", "subject",
				c.Dead, "error", err)
		}
		return fmt.Errorf("dead letters on %s cannot be stored: %w", c.Dead, err)
	}
	return nil
}

// postpone naks an input with a delay. It returns false if too many are postponed.
func (c *confirmer) postpone(a *answer, reason error) bool {
	in := a.in
	c.publisher.receiveAll()
	if !c.undeliverable.has(in) {
		c.recordDeadShare(a)
	}
	delay := c.undeliverable.add(a, reason, time.Now())
	if delay == 0 {
		return false
	}
	c.publisher.forget(a.parts)
	if !in.isStale.Load() {
		if err := in.msg.NakWithDelay(delay); err != nil {
			c.Log.Debug("a postponed input is redelivered earlier", "source", in.Origin.Source(), "error", err)
		}
	}
	if in.source.isOrdered() {
		in.source.hasPostponed.Store(true)
	}
	c.Log.Debug("an input is postponed", "source", in.Origin.Source(), "for", delay, "error", reason)
	return true
}

// await waits for the result of the last attempt.
func (c *confirmer) await(ctx context.Context, o *part) error {
	u := c.publisher
	if u.receiveAll(); !o.hasResult() {
		c.acknowledge(ctx)
	}
	for !o.hasResult() {
		c.timeout.Reset(time.Until(o.sentAt.Add(ackTimeout)))
		select {
		case ack := <-u.ackChan():
			u.receive(ack)
		case <-u.broken:
			u.failAll()
		case <-c.timeout.C:
			u.fail(o, errAckTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return o.err
}

// resend sends a part, and all parts behind it that failed meanwhile. Parts that an earlier attempt may have stored are
// looked up first. When ctx is done it sends nothing: the answer before it of its key may not be stored, and its own
// may be, because the lookup ended too.
func (c *confirmer) resend(ctx context.Context, o *part) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for more := true; more; {
		select {
		case a, ok := <-c.sent:
			if more = ok; ok {
				c.ahead = append(c.ahead, a)
			}
		default:
			more = false
		}
	}
	c.publisher.receiveAll()
	failed, doubtful := []*part{o}, []*part(nil)
	for _, a := range c.ahead {
		for _, o := range a.parts {
			if o.err != nil && finalError(o.err) == nil && !errors.Is(o.err, errDuplicate) {
				failed = append(failed, o)
			}
		}
	}
	for _, o := range failed {
		if o.isDoubtful {
			doubtful = append(doubtful, o)
		}
	}
	if len(doubtful) > 0 {
		if err := c.dedup.lookUp(ctx, doubtful); err != nil {
			return err
		}
	}
	for _, o := range failed {
		if o.err = nil; !o.isStored {
			c.publisher.send(o)
		}
	}
	return nil
}

// awaitConnection waits for a connection. It returns false when ctx is done first.
func (c *confirmer) awaitConnection(ctx context.Context) bool {
	for !c.Conn.IsConnected() {
		if !natsx.Sleep(ctx, 10*time.Millisecond) {
			return false
		}
	}
	return true
}

// acknowledge acknowledges the confirmed inputs, after it has verified their consumers.
func (c *confirmer) acknowledge(ctx context.Context) {
	if len(c.confirmed) == 0 || c.Input == nil {
		return
	}
	verified := make([]*source, 0, 8)
	for _, a := range c.confirmed {
		s := a.in.source
		if slices.Contains(verified, s) {
			continue
		}
		if !s.identity.isVerified(c.Conn) && !c.verify(ctx, s) {
			return // inputs that are not acknowledged are redelivered, and deduplicated
		}
		verified = append(verified, s)
	}
	for i, a := range c.confirmed {
		if err := c.acknowledgeOne(ctx, a.in); err != nil {
			c.Log.Debug("an acknowledgement failed; the redelivered message will be recognised", "source", a.in.Origin.Source(),
				"error", err)
		}
		killpoint.Here(killpoint.Acked)
		c.Series.Answered(a.result, a.rows, a.seconds)
		if a.in.Delivered > 1 {
			c.undeliverable.remove(a.in)
		}
		c.logDeadLetters(a)
		a.describe()
		c.inFlight.remove(a.in)
		c.release(a)
		c.confirmed[i] = nil
	}
	c.confirmed = c.confirmed[:0]
}

// doubleAckTimeout is how long the server may take to confirm an acknowledgement before it is sent again.
const doubleAckTimeout = 2 * time.Second

func (c *confirmer) acknowledgeOne(ctx context.Context, in *input) error {
	if in.isStale.Load() {
		return nil
	}
	if !c.DoubleAck {
		return in.msg.Ack()
	}
	for attempt := 0; ; attempt++ {
		wait, cancel := context.WithTimeout(ctx, doubleAckTimeout)
		err := in.msg.DoubleAck(wait)
		cancel()
		if err == nil || errors.Is(err, nats.ErrNoResponders) || !natsx.Backoff(ctx, attempt) {
			return err // without a consumer there is nothing to acknowledge
		}
		if !c.verify(ctx, in.source) || in.isStale.Load() {
			return nil
		}
	}
}

// verify finds out which messages in flight are still those that their sequences name, and marks the others as stale.
// It retries; it returns false when ctx is done first.
func (c *confirmer) verify(ctx context.Context, s *source) bool {
	for attempt := 0; ; attempt++ {
		isSame, err := s.identity.verify(ctx, c.Scope, s.durable)
		if isSame {
			return true
		}
		if err == nil {
			s.requestRebind() // it was created again
		}
		if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			var stream jetstream.Stream
			stream, err = c.JS.Stream(ctx, c.Stream)
			switch {
			case err == nil:
				c.inFlight.markStale(stream.CachedInfo().Created)
				return true
			case errors.Is(err, jetstream.ErrStreamNotFound):
				c.inFlight.markStale(time.Time{})
				return true
			}
		}
		c.Log.Debug("the consumer cannot be verified before an acknowledgement; trying again", "error", err)
		if !natsx.Backoff(ctx, attempt) {
			return false
		}
	}
}
