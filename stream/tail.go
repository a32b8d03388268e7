package stream

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// tailLength is how many of the newest messages of a stream are searched for an answer. An answer to a message that
// was not acknowledged stands at most ackPending inputs before the end; the rest is for other pipelines that write to
// the same stream.
const tailLength = 16 * ackPending

// tail knows which answers the newest end of the output and dead letter streams holds. A redelivery that is younger
// than the duplicate window is absorbed by the server; an older one, after a long outage, is looked up here.
type tail struct {
	js      jetstream.JetStream
	streams []jetstream.Stream
	window  time.Duration // shortest duplicate window among them
	log     *slog.Logger

	ids  map[string]bool
	read time.Time // when ids was read
}

// markStored marks the parts of an answer that an earlier attempt stored. It is called by one goroutine.
func (t *tail) markStored(ctx context.Context, a *answer) {
	if t == nil || a.in.delivered < 2 || time.Since(a.in.time) < t.window/2 {
		return // a younger answer is absorbed by the duplicate window
	}
	for attempt := 0; t.ids == nil || time.Since(t.read) > t.window/2; attempt++ {
		if err := t.scan(ctx); err != nil {
			t.log.Warn("the end of the output cannot be read; trying again", "error", err)
			if !pause(ctx, attempt) {
				return
			}
		}
	}
	found := 0
	for _, o := range a.parts {
		if t.ids[o.id] {
			o.stored = true
			found++
		}
	}
	if found > 0 {
		t.log.Info("a redelivery was answered before", "source", a.in.origin.Source(), "parts", found)
	}
}

// scan reads the identities at the end of each stream, headers only.
func (t *tail) scan(ctx context.Context) error {
	ids := map[string]bool{}
	for _, s := range t.streams {
		info, err := s.Info(ctx)
		if err != nil {
			return fmt.Errorf("asking for stream %s: %w", s.CachedInfo().Config.Name, err)
		}
		if info.State.Msgs == 0 {
			continue
		}
		from := info.State.FirstSeq
		if info.State.LastSeq > tailLength {
			from = max(from, info.State.LastSeq-tailLength)
		}
		c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
			AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true, MemoryStorage: true, InactiveThreshold: time.Minute,
		})
		if err != nil {
			return fmt.Errorf("reading the end of stream %s: %w", info.Config.Name, err)
		}
		for pending := c.CachedInfo().NumPending; pending > 0; {
			n, err := pull(ctx, t.js, c, func(msg *delivery) {
				if id := msg.Headers().Get(nats.MsgIdHdr); id != "" {
					ids[id] = true
				}
			}, int(min(pending, maxFetch)), 0)
			if err != nil {
				return fmt.Errorf("reading the end of stream %s: %w", info.Config.Name, err)
			}
			if n == 0 {
				break
			}
			pending -= uint64(n)
		}
		_ = s.DeleteConsumer(ctx, c.CachedInfo().Name) // it ends by itself too
	}
	t.ids, t.read = ids, time.Now()
	return nil
}
