package natsx

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// maxFollowAttempts is how often in a row Follow may fail to read.
const maxFollowAttempts = 6

// Follow reads a subject of a stream: the stored messages, then new ones, in order and each once. It returns when
// handle returns false, ctx is done, or the stream cannot be read in several attempts.
func Follow(ctx context.Context, js jetstream.JetStream, subject string, handle func(*nats.Msg, time.Time) bool) error {
	name, err := StreamName(ctx, js, subject)
	if errors.Is(err, context.DeadlineExceeded) { // for example, the server denied the request
		return fmt.Errorf("finding the stream of subject %s: %w", subject, err)
	}
	if err != nil {
		return fmt.Errorf("no stream takes %s, so there is nothing stored to read: check the subject, or create its stream "+
			"with `embedd setup --apply`: %w", subject, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := false
	for attempt, next := 0, uint64(1); !done && attempt < maxFollowAttempts; {
		var r *Reader
		r, err = OpenNamedReader(ctx, js, name, jetstream.ConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: next, FilterSubject: subject})
		if errors.Is(err, ErrReadersBusy) {
			return err
		}
		for err == nil && !done {
			_, err = r.Fetch(ctx, nil, MaxFetchMessages, MaxFetchBytes, func(m *Message) {
				if done {
					return
				}
				attempt, next = 0, m.meta.Sequence.Stream+1
				if done = !handle(m.msg, m.meta.Timestamp); done {
					cancel()
				}
			})
		}
		if r != nil {
			r.Close(ctx)
		}
		if !done && !Backoff(ctx, attempt) {
			return ctx.Err()
		}
		attempt++
	}
	if done {
		return nil
	}
	return err
}
