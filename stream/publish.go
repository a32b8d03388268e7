package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// outgoing is one message on its way to the server.
type outgoing struct {
	msg    *nats.Msg
	id     string  // Nats-Msg-Id; "" on core NATS
	stored bool    // an earlier attempt stored it already
	letter *letter // of which it is a part; nil: it is an output
	future jetstream.PubAckFuture
}

// publish sends the parts of an answer without waiting for their confirmation. What fails here is sent again by settle.
func (p *pipeline) publish(a *answer) {
	for _, o := range a.parts {
		if !o.stored && (o.letter == nil || !p.parked.refused()) {
			o.future, _ = p.js.PublishMsgAsync(o.msg, jetstream.WithMsgID(o.id))
		}
	}
}

// settle waits until the server has confirmed every part, then acknowledges the input (Invariant 1), or parks it where
// it cannot leave. It reports false where ctx ended first: the input is then redelivered.
func (p *pipeline) settle(ctx context.Context, a *answer) bool {
	a, err := p.deliver(ctx, a)
	for attempt := 0; err != nil; attempt++ {
		if ctx.Err() != nil {
			return false
		}
		if p.park(a, err) {
			return true
		}
		// There is no place left to put it off: those behind it wait too.
		if !pause(ctx, attempt) {
			return false
		}
		a, err = p.deliver(ctx, a)
	}
	if a.in.msg != nil && !a.in.stale.Load() {
		if err := a.in.msg.Ack(); err != nil {
			p.log.Debug("acknowledging failed; the redelivery will be absorbed", "source", a.in.origin.Source(),
				"error", err)
		}
	}
	p.left(a)
	return true
}

// deliver waits until the server has confirmed every part. What it refuses for good leaves as a dead letter, and a dead
// letter that it refuses in smaller messages. The error says why the answer cannot leave now.
func (p *pipeline) deliver(ctx context.Context, a *answer) (*answer, error) {
	for i := 0; i < len(a.parts); i++ {
		o := a.parts[i]
		err := p.confirmPart(ctx, o)
		if err == nil {
			continue
		}
		if refusal(err) == nil {
			return a, err
		}
		p.log.Warn("the server refuses an answer for good", "source", a.in.origin.Source(), "subject", o.msg.Subject,
			"error", err)
		p.readDeadLimit(ctx)
		if o.letter == nil {
			a = p.deadMessage(a, err)
		} else {
			p.encloseAgain(a, o)
		}
		i = -1
	}
	for _, l := range a.letters {
		if !l.enclosed {
			err := fmt.Errorf("a dead letter of %d bytes does not fit into messages of %d: raise max_msg_size of the stream of %s",
				len(l.body), p.most(&p.limits.dead), p.Dead)
			p.readDeadLimit(ctx)
			return a, err
		}
	}
	return a, nil
}

func (p *pipeline) confirmPart(ctx context.Context, o *outgoing) error {
	if o.letter != nil {
		return p.confirmLetter(ctx, o)
	}
	return p.confirm(ctx, o)
}

// left notes an input that has left.
func (p *pipeline) left(a *answer) {
	p.metrics.answered(p.Name, a)
	if a.in.delivered > 1 {
		p.parked.left(a.in)
	}
	p.deaths.note(p, a)
}

// confirm waits for the confirmation of one part and sends it again, for ever, where the server could not take it
// now. It returns an error where the server never will, or ctx is done.
func (p *pipeline) confirm(ctx context.Context, o *outgoing) error {
	if o.stored {
		return nil
	}
	var err error
	if o.future != nil {
		select {
		case <-o.future.Ok():
			o.stored = true
			return nil
		case err = <-o.future.Err():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for attempt := 0; ; attempt++ {
		if err != nil {
			if final := refusal(err); final != nil {
				return final
			}
			if attempt == 3 || attempt > 0 && attempt%20 == 0 {
				p.log.Warn("publishing fails; trying again", "subject", o.msg.Subject, "attempt", attempt, "error",
					explain(err, o.msg.Subject))
			}
			if !pause(ctx, attempt) {
				return err // who gives up wants to know why
			}
		}
		wait, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err = p.js.PublishMsg(wait, o.msg, jetstream.WithMsgID(o.id), jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil {
			o.stored = true
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
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
func explain(err error, subject string) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream takes subject %s (%w); make it with 'embedd setup --apply'", subject, err)
	default:
		return err
	}
}
