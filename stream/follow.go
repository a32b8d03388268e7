package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Follow hands the messages of a subject to take, first those that its stream holds and then those that come, in order
// and each once, until take wants no more, ctx is done or the stream cannot be read for good.
func Follow(ctx context.Context, js jetstream.JetStream, subject string, take func(*nats.Msg, time.Time) bool) error {
	name, err := js.StreamNameBySubject(ctx, subject)
	if err != nil {
		return fmt.Errorf("no stream takes %s, so there is nothing stored to read: %w", subject, err)
	}
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	done := false
	for attempt, next := 0, uint64(1); !done && attempt < patience; {
		var c jetstream.Consumer
		c, err = js.CreateConsumer(ctx, name, jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy,
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: next, FilterSubject: subject,
			MemoryStorage: true, InactiveThreshold: 5 * time.Minute})
		for number := uint64(0); err == nil && !done; {
			gap := false
			_, err = fetch(ctx, js, c, maxFetch, maxPull, func(d *delivery) {
				meta, err := d.Metadata()
				if number++; done || gap || err != nil || meta.Sequence.Consumer != number {
					gap = true // a message was lost on its way, or the consumer is another
					return
				}
				attempt, next = 0, meta.Sequence.Stream+1
				if done = !take(d.msg, meta.Timestamp); done {
					enough()
				}
			})
			if err == nil && gap {
				err = errGap
			}
		}
		if !done && !pause(ctx, attempt) {
			return ctx.Err()
		}
		attempt++
	}
	if done {
		return nil
	}
	return err
}
