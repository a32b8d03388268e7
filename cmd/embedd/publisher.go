package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/internal/wildcard"
)

// encoded is a record as a message in a format.
func encoded(rec arrow.Record, as wire.Format) ([]byte, error) {
	if !as.IsText() {
		return arrowio.FromRecords(rec.Schema(), rec)
	}
	d, err := arrowio.NewDecoder(arrowio.Spec{Limits: file.Limits()})
	if err != nil {
		return nil, err
	}
	m, err := d.FromRecord(rec, nil)
	if err != nil {
		return nil, err
	}
	return arrowio.Text(m, as)
}

// publisher publishes to a subject, through JetStream if a stream has it.
type publisher struct {
	nc      *connection.Conn
	js      jetstream.JetStream
	subject string
	format  wire.Format
	stream  string
	others  []string // subjects that the user may have meant
	pending []jetstream.PubAckFuture
	wait    time.Duration // for the confirmation of a message

	messages, rows int
	bytes          int64
}

// maxUnconfirmed is the maximum number of unconfirmed messages.
const maxUnconfirmed = 64

func newPublisher(ctx context.Context, nc *connection.Conn, subject string, as wire.Format) (*publisher, error) {
	p := &publisher{nc: nc, subject: subject, format: as, wait: confirmTimeout}
	js, err := nc.JetStream()
	if err != nil {
		return nil, err
	}
	switch name, err := js.StreamNameBySubject(ctx, subject); {
	case err == nil:
		p.js, p.stream = js, name
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, nats.ErrNoResponders):
	default:
		return nil, fmt.Errorf("finding the stream of subject %s: %w", subject, err)
	}
	return p, nil
}

func (p *publisher) send(ctx context.Context, body []byte, rows int) error {
	if most := p.nc.MaxPayload(); int64(len(body)) > most {
		return fmt.Errorf("a message of %d rows has %d bytes, more than the %d that the server accepts; use a smaller "+
			"--batch", rows, len(body), most)
	}
	msg := nats.NewMsg(p.subject)
	msg.Header.Set(wire.HeaderContentType, p.format.ContentType())
	msg.Data = body
	switch {
	case p.js == nil && p.messages == 0:
		if err := p.sendFirst(ctx, msg); err != nil {
			return err
		}
	case p.js == nil:
		if err := p.nc.PublishMsg(msg); err != nil {
			return err
		}
	default:
		future, err := p.js.PublishMsgAsync(msg)
		if err != nil {
			return err
		}
		p.pending = append(p.pending, future)
		if len(p.pending) >= maxUnconfirmed {
			if err := p.confirm(ctx); err != nil {
				return err
			}
		}
	}
	p.messages++
	p.rows += rows
	p.bytes += int64(len(body))
	return nil
}

// sendFirst publishes a message on core NATS. It is an error if nothing receives it: the server reports that on the
// reply subject, before the flush ends.
func (p *publisher) sendFirst(ctx context.Context, msg *nats.Msg) error {
	msg.Reply = p.nc.NewInbox()
	sub, err := p.nc.SubscribeSync(msg.Reply)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := p.nc.PublishMsg(msg); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.nc.FlushWithContext(ctx); err != nil {
		return err
	}
	if n, _, err := sub.Pending(); err != nil || n == 0 {
		return err
	}
	if answer, err := sub.NextMsgWithContext(ctx); !errors.Is(err, nats.ErrNoResponders) &&
		(err != nil || answer.Header.Get("Status") != "503") {
		return err
	}
	fix := cli.DidYouMean(p.subject, p.others)
	if wildcard.CoveredBy(p.subject, p.others) {
		fix = " (embedd setup --apply creates the stream of the pipeline that reads it)"
	}
	return fmt.Errorf("nothing receives %s: no stream stores it and it has no subscriber%s; nothing was published",
		p.subject, fix)
}

// confirm waits for the oldest unconfirmed message. The client waits indefinitely for a confirmation that is lost.
func (p *publisher) confirm(ctx context.Context) error {
	f := p.pending[0]
	p.pending = p.pending[1:]
	lost := time.NewTimer(p.wait)
	defer lost.Stop()
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return fmt.Errorf("stream %s refused a message: %w", p.stream, err)
	case <-lost.C:
		return p.unconfirmed(p.wait)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unconfirmed is the error of a message that the stream did not confirm in time.
func (p *publisher) unconfirmed(wait time.Duration) error {
	return fmt.Errorf("stream %s did not confirm a message within %v, and may lack it: look whether the stream has a "+
		"leader, and confirms (`nats stream info %s`: no_ack), and publish the rows again", p.stream, wait, p.stream)
}

// flush waits until all messages are confirmed.
func (p *publisher) flush(ctx context.Context) error {
	wait := min(p.wait, flushTimeout)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for len(p.pending) > 0 {
		err := p.confirm(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = p.unconfirmed(wait)
		}
		if err != nil {
			return fmt.Errorf("the last %d of %d messages are not confirmed: %w", len(p.pending)+1, p.messages, err)
		}
	}
	if err := p.nc.FlushWithContext(ctx); err != nil {
		return err
	}
	// Without a stream no confirmation comes: only this error shows that the user may not publish.
	if err := p.nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return err
	}
	return nil
}
