package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/embedd/embedd/stream/internal/health"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/internal/natsx"
)

// outgoing is one message on its way to the server.
type outgoing struct {
	msg    *nats.Msg
	id     string    // Nats-Msg-Id; "" on core NATS
	ids    [1]string // as a header's value
	sink   *sink     // the stream that takes it; nil on core NATS
	stored bool      // an earlier attempt stored it already
	letter *letter   // of which it is a part; nil: it is an output
	number uint64    // of the attempt that is under way; 0: none is
	sent   time.Time // that attempt
	after  point     // where its stream had come to when it was first sent
	err    error     // why the last attempt failed
	answer *answer   // of which it is a part, where it has a place in the order of its key; else nil
	doubt  bool      // an attempt was sent, and nobody knows what became of it
}

// publish sends the parts of an answer without waiting for their confirmation. What fails here is sent again by settle.
// Where order is kept it is sent when the one before it of its key is stored.
func (p *relay) publish(u *publisher, a *answer) {
	if a.in.lane.inOrder() && !u.isNext(a) {
		return
	}
	p.send(u, a)
}

func (p *relay) send(u *publisher, a *answer) {
	for _, o := range a.parts {
		if !o.stored && !o.doubt && (o.letter == nil || !p.parked.refused()) {
			u.send(o)
		}
	}
}

// settle waits until the server has confirmed every part, then lets the input be acknowledged (Invariant 1), or parks
// it where it cannot leave. Where ctx ends first the input is redelivered.
func (c *confirmer) settle(ctx context.Context, a *answer) {
	defer func() {
		if ctx.Err() == nil {
			c.publisher.pass(a)
		}
	}()
	a, err := c.deliver(ctx, a)
	for attempt := 0; err != nil; attempt++ {
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errNotHeld) {
			c.publisher.forget(a.parts)
			c.held.remove(a.in)
			return
		}
		if c.park(a, err) {
			c.held.remove(a.in)
			return
		}
		// There is no place left to put it off: those behind it wait too.
		if !natsx.Backoff(ctx, attempt) {
			return
		}
		a, err = c.deliver(ctx, a)
	}
	killpoint.Here(killpoint.Confirmed)
	if c.done = append(c.done, a); len(c.done) >= ackPending/4 {
		c.acknowledge(ctx)
	}
}

// deliver waits until the server has confirmed every part. What it refuses for good leaves as a dead letter, and a dead
// letter that it refuses in smaller messages. The error says why the answer cannot leave now.
func (c *confirmer) deliver(ctx context.Context, a *answer) (*answer, error) {
	p := c.relay
	for i := 0; i < len(a.parts); i++ {
		o := a.parts[i]
		err := c.confirmPart(ctx, o)
		if err == nil {
			continue
		}
		if refusal(err) == nil {
			return a, err
		}
		p.Log.Warn("the server refuses an answer for good", "source", a.in.Origin.Source(), "subject", o.msg.Subject,
			"error", err)
		p.readDeadLimit(ctx)
		if o.letter == nil {
			c.publisher.forget(a.parts)
			a = p.deadMessage(a, err)
		} else {
			c.publisher.forget(slices.DeleteFunc(slices.Clone(a.parts), func(b *outgoing) bool { return b.letter != o.letter }))
			p.encloseAgain(a, o)
		}
		i = -1
	}
	for _, l := range a.letters {
		if !l.enclosed {
			err := fmt.Errorf("a dead letter of %d bytes does not fit into messages of %d: raise max_msg_size of the stream "+
				"of %s",
				len(l.body), p.most(&p.limits.dead), p.Dead)
			p.readDeadLimit(ctx)
			return a, err
		}
	}
	return a, nil
}

func (c *confirmer) confirmPart(ctx context.Context, o *outgoing) error {
	if o.letter != nil {
		return c.confirmLetter(ctx, o)
	}
	return c.confirm(ctx, o)
}

// left notes an input that has left.
func (p *relay) left(a *answer) {
	p.Series.Answered(a.result, a.rows, a.seconds)
	if a.in.Delivered > 1 {
		p.parked.left(a.in)
	}
	p.noteLetters(a)
}

// confirmed notes that the server has stored a part.
func (p *relay) confirmed(o *outgoing) {
	p.Conditions.Clear(o.component())
	p.Permissions.MarkAllowed(natsx.Permission{Action: natsx.Publish, Subject: o.msg.Subject})
}

// errHeaderTooLarge is the server's code for a header over its limit; the client has no name for it.
const errHeaderTooLarge jetstream.ErrorCode = 10097

// refusal is the error where trying again cannot help, nil where it can.
func refusal(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("the message is over the server's max_payload: %w", err)
	case errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum ||
		api.ErrorCode == errHeaderTooLarge):
		return fmt.Errorf("the message is over the stream's limit: %w", err)
	}
	return nil
}

// explain says what to do about a publish that fails.
func (p *relay) explain(err error, subject string) error {
	if one := (natsx.Permission{Action: natsx.Publish, Subject: subject}); p.Permissions.IsDenied(one) {
		return one.DeniedError()
	}
	return natsx.ExplainPublishError(err, subject)
}

// component is the part of the pipeline whose condition a part's confirmation is: dead letters that are not stored do
// not keep outputs back.
func (o *outgoing) component() health.Component {
	if o.letter != nil {
		return health.DeadLetter
	}
	return health.Publish
}
