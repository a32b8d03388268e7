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

// cursor is an ephemeral consumer of the input, for learning alone.
type cursor struct {
	jetstream.Consumer
	upTo      uint64 // sequence number at which the read ends, or noEnd
	delivered uint64
	pending   uint64 // messages that it has not delivered yet, as of the newest
}

// openCursor creates a consumer that begins at a sequence number or at a time.
func (p *Path) openCursor(ctx context.Context, c jetstream.ConsumerConfig) (*cursor, error) {
	c.Description = needs.ConsumerDescription + p.Name + ", learning"
	c.AckPolicy = jetstream.AckNonePolicy
	if c.FilterSubjects = needs.Filters(&p.Pipeline); len(c.FilterSubjects) == 1 {
		c.FilterSubject, c.FilterSubjects = p.Subject, nil
	}
	c.MemoryStorage, c.InactiveThreshold = true, 5*time.Minute
	created, err := p.JS.CreateConsumer(ctx, p.Stream, c)
	if err != nil {
		return nil, err
	}
	return &cursor{Consumer: created, pending: created.CachedInfo().NumPending}, nil
}

// closeCursor deletes the consumer, also when ctx is done.
func (p *Path) closeCursor(ctx context.Context, c *cursor) {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = p.JS.DeleteConsumer(clean, p.Stream, c.CachedInfo().Name) // it expires too
}

// ReadBlock brings the messages of a block of the input to take, once and in order, until that wants no more.
func (p *Path) ReadBlock(ctx context.Context, b stage.Block, take func(*scope.Message) (more bool)) error {
	c, err := p.openCursor(ctx, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: b.First})
	if err != nil {
		return err
	}
	defer p.closeCursor(ctx, c)
	next, gap, more := b.First, false, true
	for next <= b.Last && c.pending > 0 && !gap && more {
		n, err := natsx.Fetch(ctx, p.JS, c, int(min(natsx.MaxFetchMessages, c.pending, b.Last-next+1)), maxPull,
			func(msg *natsx.Message) {
				m, ok := p.Received(msg, b.Created)
				if !ok || gap {
					return
				}
				c.delivered++
				gap = m.ConsumerSeq != c.delivered
				c.pending, next = m.Pending, m.Origin.Seq+1
				if !gap && more && next <= b.Last+1 {
					p.Series.Read(health.PathLearn, len(msg.Data()))
					more = take(&m)
				}
			})
		if err != nil {
			return err
		}
		gap = gap || n == 0 // what was pending is gone
	}
	if gap {
		return natsx.ErrGap
	}
	return nil
}
