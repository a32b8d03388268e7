package training

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
)

// maxPull is the most bytes of one pull for learning. Both paths share a connection, and what the hot path has
// requested waits behind it.
const maxPull = 1 << 20

// openCursor creates a consumer of the input that begins at a sequence number or at a time.
func (p *Path) openCursor(ctx context.Context, c jetstream.ConsumerConfig) (*natsx.Reader, error) {
	if c.FilterSubjects = needs.Filters(&p.Pipeline); len(c.FilterSubjects) == 1 {
		c.FilterSubject, c.FilterSubjects = p.Subject, nil
	}
	return p.openCursorOf(ctx, p.Stream, "learning", c)
}

// openCursorOf creates a consumer of a stream, which acknowledges nothing.
func (p *Path) openCursorOf(ctx context.Context, stream, use string, c jetstream.ConsumerConfig) (*natsx.Reader,
	error) {
	c.Description = needs.ConsumerDescription + p.Name + ", " + use
	c.AckPolicy, c.MemoryStorage, c.InactiveThreshold = jetstream.AckNonePolicy, true, 5*time.Minute
	r, err := natsx.OpenReader(ctx, p.JS, stream, c)
	if err != nil {
		return nil, err
	}
	if !r.HasConsumer() && !p.hasLoggedNoConsumer.Swap(true) {
		p.Log.Warn("the stream allows no further consumer; its messages are requested one by one for learning, which is "+
			"slower", "stream", stream)
	}
	return r, nil
}

// pull brings at most a number of messages of the input, which was created at a time, to take. It returns how many the
// server sent.
func (p *Path) pull(ctx context.Context, r *natsx.Reader, limit int, created time.Time, take func(*scope.Message)) (
	int, error) {
	return r.Fetch(ctx, p.Pulls, limit, maxPull, func(msg *natsx.Message) {
		p.Series.Read(health.PathLearn, len(msg.Data()))
		if m, ok := p.Received(msg, created); ok {
			take(&m)
		}
	})
}

// ReadBlock brings the messages of a block of the input to take, once and in order.
func (p *Path) ReadBlock(ctx context.Context, b stage.Block, take func(*scope.Message)) error {
	r, err := p.openCursor(ctx, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: b.First})
	if err != nil {
		return err
	}
	defer r.Close(ctx)
	for next := b.First; next <= b.Last && r.Pending() > 0; {
		n, err := p.pull(ctx, r, int(min(natsx.MaxFetchMessages, r.Pending(), b.Last-next+1)), b.Created,
			func(m *scope.Message) {
				if next = m.Origin.Seq + 1; next <= b.Last+1 {
					take(m)
				}
			})
		if err != nil {
			return err
		}
		if n == 0 {
			return natsx.ErrGap // pending messages have left the stream
		}
	}
	return nil
}
