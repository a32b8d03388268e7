package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// confirmer sees answers confirmed, in the order in which they were sent. When one fails, as all do that are on their
// way when a connection ends, it looks at those behind it too, so that what failed together is looked up and sent again
// together.
type confirmer struct {
	*relay
	publisher *publisher
	patience  *time.Timer // for the server's words
	held      *held
	sent      <-chan *answer
	ahead     []*answer // taken out of sent, and not settled yet
	done      []*answer // confirmed, and not acknowledged yet
	sure      []*lane   // of those: their consumers are those that brought them
}

func newConfirmer(p *relay, u *publisher) *confirmer {
	return &confirmer{relay: p, publisher: u, patience: time.NewTimer(wordWait)}
}

// next is the answer that was sent before all others; false where there will be no more.
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

// confirm waits for the confirmation of one part and sends it again, for ever, where the server could not take it
// now. It returns an error where the server never will, or ctx is done: then why it was not taken.
func (c *confirmer) confirm(ctx context.Context, o *outgoing) error {
	for attempt := 0; !o.stored; attempt++ {
		err := o.err
		if err == nil && o.number == 0 {
			err = c.again(ctx, o)
		}
		if err == nil {
			err = c.await(ctx, o)
		}
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return err
		}
		if errors.Is(err, errNotHeld) {
			return err
		}
		if final := refusal(err); final != nil {
			return final
		}
		c.Conditions.SetError(o.component(), fmt.Errorf("publishing on %s fails: %w",
			o.msg.Subject, c.explain(err, o.msg.Subject)))
		if attempt == 3 || attempt > 0 && attempt%20 == 0 {
			c.Log.Warn("publishing fails; trying again", "subject", o.msg.Subject, "attempt", attempt, "error",
				c.explain(err, o.msg.Subject))
		}
		if !natsx.Backoff(ctx, min(attempt, 5)) || !c.connected(ctx) {
			return err // who gives up wants to know why
		}
		o.err = nil
	}
	c.confirmed(o)
	return nil
}

// await waits for what becomes of the last attempt.
func (c *confirmer) await(ctx context.Context, o *outgoing) error {
	u := c.publisher
	if u.catchUp(); !o.over() {
		c.acknowledge(ctx)
	}
	for !o.over() {
		c.patience.Reset(time.Until(o.sent.Add(wordWait)))
		select {
		case word := <-u.words:
			u.take(word)
		case <-u.broken:
			u.lost()
		case <-c.patience.C:
			u.fail(o, errNoWord)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return o.err
}

// over tells whether it is known what became of the last attempt.
func (o *outgoing) over() bool { return o.stored || o.err != nil }

// failed notes that an attempt failed. Where the stream refused it, or no stream was there, it is known not to be
// stored.
func (o *outgoing) failed(err error) {
	o.number, o.err = 0, err
	var refused *jetstream.APIError
	o.doubt = o.doubt || !errors.As(err, &refused) && !errors.Is(err, nats.ErrNoResponders) &&
		!errors.Is(err, jetstream.ErrNoStreamResponse)
}

// again sends a part, and with it all behind it that failed meanwhile. What an earlier attempt may have stored is
// looked up first.
func (c *confirmer) again(ctx context.Context, o *outgoing) error {
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
	c.publisher.catchUp()
	failed, doubtful := []*outgoing{o}, []*outgoing(nil)
	for _, a := range c.ahead {
		for _, o := range a.parts {
			if o.err != nil && refusal(o.err) == nil {
				failed = append(failed, o)
			}
		}
	}
	for _, o := range failed {
		if o.doubt {
			doubtful = append(doubtful, o)
		}
	}
	if len(doubtful) > 0 {
		if err := c.tail.lookUp(ctx, doubtful); err != nil {
			return err
		}
	}
	for _, o := range failed {
		if o.err = nil; !o.stored {
			c.publisher.send(o)
		}
	}
	return nil
}

// connected waits for a connection; false where ctx is done first.
func (c *confirmer) connected(ctx context.Context) bool {
	for !c.Conn.IsConnected() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}
