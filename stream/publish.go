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
	id     string // Nats-Msg-Id; "" on core NATS
	stored bool   // an earlier attempt stored it already
	future jetstream.PubAckFuture
}

// publish sends the parts of an answer without waiting for their confirmation. What fails here is sent again by settle.
func (p *pipeline) publish(a *answer) {
	for _, o := range a.parts {
		if !o.stored {
			o.future, _ = p.js.PublishMsgAsync(o.msg, jetstream.WithMsgID(o.id))
		}
	}
}

// settle waits until the server has confirmed every part, then acknowledges the input (Invariant 1). It reports false
// where ctx ended first: the input is then redelivered.
func (p *pipeline) settle(ctx context.Context, a *answer) bool {
	for i := 0; i < len(a.parts); i++ {
		err := p.confirm(ctx, a.parts[i])
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return false
		}
		// The server will never take this message: the input leaves as a dead letter.
		p.log.Error("the server refuses an answer for good", "source", a.in.origin.Source(), "subject",
			a.parts[i].msg.Subject, "error", err)
		limit := p.limits.dead
		if refused := a.parts[i].msg; refused.Subject == p.Dead {
			if len(refused.Data) == 0 {
				return false // not even an empty dead letter is taken: the input stays
			}
			limit = 1 // whatever the limit is, this body was over it
		}
		a = p.deadMessage(a, err, limit)
		i = -1
	}
	if a.in.msg != nil && !a.in.stale.Load() {
		if err := a.in.msg.Ack(); err != nil {
			p.log.Debug("acknowledging failed; the redelivery will be absorbed", "source", a.in.origin.Source(),
				"error", err)
		}
	}
	p.metrics.answered(p.Name, a)
	return true
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
				return ctx.Err()
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
