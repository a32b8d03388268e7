package stream

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/plugin"
)

// learn reads the input once more, in order and without acknowledging, for the learning side: from where the live
// model's window begins, or from the first message. A gap or a lost consumer makes it begin anew after the last
// message that it saw.
func (p *pipeline) learn(ctx context.Context) {
	next := max(p.learnFirst, 1)
	for attempt := 0; ctx.Err() == nil; attempt++ {
		read, err := p.learnOn(ctx, &next)
		if ctx.Err() != nil {
			return
		}
		if read > 0 {
			attempt = 0
		}
		p.log.Debug("the learning side begins anew", "from", next, "error", err)
		if !pause(ctx, attempt) {
			return
		}
	}
}

// learnOn reads until something fails; next is the sequence number to go on from.
func (p *pipeline) learnOn(ctx context.Context, next *uint64) (read int, err error) {
	c, err := p.input.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Description:   "embedd pipeline " + p.Name + ", learning",
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: *next,
		AckPolicy: jetstream.AckNonePolicy, FilterSubject: p.Subject, MemoryStorage: true,
		InactiveThreshold: 5 * time.Minute,
	})
	if err != nil {
		return 0, err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = p.input.DeleteConsumer(clean, c.CachedInfo().Name) // it ends by itself too
	}()
	delivered, gap := uint64(0), false
	for !gap {
		_, err := fetch(ctx, p.nc, c, maxPull, func(msg jetstream.Msg) {
			in := p.received(msg, p.created)
			if in == nil || gap {
				return
			}
			meta, _ := msg.Metadata()
			// Nothing is acknowledged here, so a message that was lost on the way shows as a gap in the deliveries.
			if delivered++; meta.Sequence.Consumer != delivered {
				gap = true
				return
			}
			p.learnFromInput(in)
			*next = in.origin.Seq + 1
			read++
		})
		if err != nil {
			return read, err
		}
	}
	return read, nil
}

// learnFrom is the learning side of an input that can be read only once.
func (p *pipeline) learnFrom(ctx context.Context, feed *queue) {
	for {
		in, ok := feed.pop(ctx)
		if !ok {
			return
		}
		p.learnFromInput(in)
	}
}

func (p *pipeline) learnFromInput(in *input) {
	m, err := p.stage.Decode(in.data)
	if err != nil {
		// The hot path makes a dead letter of it, with the reason; while it holds, readiness says it.
		u := &unreadable{messages: 1, last: err}
		if before := p.unreadable.Load(); before != nil {
			u.messages += before.messages
		} else if p.stage.Live() == nil {
			p.log.Warn("a message cannot be read, so nothing is learned from it", "source", in.origin.Source(),
				"error", err)
		}
		p.unreadable.Store(u)
		return
	}
	if err := p.stage.Learn(m, plugin.Position{Created: in.origin.Created, Seq: in.origin.Seq, Time: in.time}); err != nil {
		p.log.Warn("a message could not be learned from", "source", in.origin.Source(), "error", err)
	}
}
