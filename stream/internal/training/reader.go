package training

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

// LookAfter is how long nothing may come from the hot path before the stream is looked at. It bounds how late learning
// follows a stream that was deleted and made again.
const LookAfter = 3 * time.Second

// SharedFor is how long the reader reads everything itself once another replica was seen to get messages.
const SharedFor = 5 * time.Second

// maxQuietFailures is how many failures in a row are an interruption that need not be told: some seconds.
const maxQuietFailures = 6

// SettleTime is how long the numbers of a stream have to contradict what was read before that is believed: a server of a
// cluster that has just been elected may not have come to its newest messages yet.
const SettleTime = 2 * time.Second

var errInconsistent = errors.New("the numbers of the input stream are not those that were read; it is looked at again")

// noEnd is the end of a read that has none.
const noEnd = math.MaxUint64

// reader brings the learning side every message of the input once, in stream order. Where it can, it takes what the
// hot path has read; it reads for itself, without acknowledging, what the hot path did not see: the past of the window
// after a start, everything while the hot path holds, what fell out of the feed, and what other replicas got.
type reader struct {
	*Path
	take func(context.Context, *Message)

	at         position
	binding    int       // of the hot path's consumer, as of the last close look
	isDoubtful bool      // the stream may be another
	reconnects uint64    // connections to the server after the first, as of the last look
	lookedAt   time.Time // when it was looked at
	isGone     bool      // the stream was not there
	isStuck    bool      // it could not be read for a while, and the status says so
	oddSince   time.Time // since when its numbers are not those that were read; zero: they are
	head       *Message  // taken out of the feed, not yet learned
	cursor     *cursor

	guard *crashGuard
}

func newReader(p *Path, take func(context.Context, *Message)) *reader {
	return &reader{Path: p, take: take, isDoubtful: true, reconnects: p.Conn.Stats().Reconnects,
		at: position{stream: p.Created, created: p.Created, next: max(p.ReadFrom, 1)}}
}

// Run reads until ctx is done. It retries after every failure of the stream or its server.
func (r *reader) Run(ctx context.Context) {
	defer func() { r.close(ctx) }()
	r.guard = newCrashGuard(ctx, r.Path)
	defer r.guard.close(ctx)
	for attempt := 0; ctx.Err() == nil; {
		from := r.at.next
		err := r.step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil && r.isStuck {
			r.isStuck = false
			r.SetEvent(fmt.Sprintf("learning reads the input stream again, since %s; it goes on from message %d",
				health.Timestamp(time.Now()), from))
		}
		if r.at.next > from || err == nil {
			attempt = 0
		}
		if err == nil {
			r.guard.markCaughtUp(ctx, r.isAtEnd())
			continue
		}
		r.close(ctx)
		r.isDoubtful = true
		switch {
		case r.isGone:
		case attempt == 0:
			r.Series.Add(health.ReaderRestarts, 1, string(failed))
		case attempt == maxQuietFailures:
			r.isStuck = true
			r.SetEvent(fmt.Sprintf("learning cannot read the input stream, seen at %s, and tries again: %v",
				health.Timestamp(time.Now()), err))
		}
		r.Log.Debug("the learning side begins anew", "from", r.at.next, "error", err)
		if !natsx.Backoff(ctx, min(attempt, 5)) {
			return
		}
		attempt++
	}
}

// isAtEnd reports whether all was read that was there when reading began. The last of it may be of other subjects: then
// nothing of ours is behind what was read.
func (r *reader) isAtEnd() bool {
	c := r.cursor
	return r.at.next > r.guard.goal || c != nil && c.upTo == noEnd && c.pending == 0
}

// step takes one message or reads those of one pull, or waits for them a while.
func (r *reader) step(ctx context.Context) error {
	s := r.Feed.state()
	if s.previous.created.Equal(r.at.stream) {
		r.at.end = max(r.at.end, s.previous.pulled)
	}
	if r.hasReconnected(ctx) || r.isDoubtful || r.at.skipped.n > 0 && time.Since(r.lookedAt) > LookAfter {
		if _, err := r.look(ctx); err != nil {
			return err
		}
	}
	if s.binding > r.binding && r.head == nil && r.Feed.Len() == 0 {
		r.binding, r.isDoubtful = s.binding, true
		return nil
	}
	switch c := r.cursor; {
	case c != nil && c.upTo != noEnd:
		return r.read(ctx, c.upTo) // a read that was begun
	case r.Role == spec.RoleTrain || r.Partitions > 0 || r.hooks.IsHolding() || time.Since(s.gapAt) < SharedFor:
		return r.read(ctx, noEnd)
	}
	if r.head == nil {
		r.head, _ = r.Feed.TryPop()
	}
	switch l := r.head; {
	case r.hasReconnected(ctx): // it came after that, and its number may be another's
	case l == nil:
		return r.await(ctx, s)
	case l.binding > r.binding:
		r.binding, r.isDoubtful = l.binding, true
	case !l.Origin.Created.Equal(r.at.stream):
		r.head = nil // of the stream before; what of it was not learned is counted
	case l.Origin.Seq < r.at.next:
		r.head = nil
	case l.after >= r.at.next:
		r.Series.Add(health.ReaderRestarts, 1, string(behind))
		return r.read(ctx, l.after)
	default:
		r.close(ctx)
		r.head = nil
		r.pass(ctx, l)
	}
	return nil
}

// hasReconnected reports whether the connection was lost and made again. The stream may be an older copy then, whose numbers are of
// other messages; with more of them than were lost nothing but a look tells. Of replicas those that read to learn look,
// each at a time of its own.
func (r *reader) hasReconnected(ctx context.Context) bool {
	n := r.Conn.Stats().Reconnects
	if n == r.reconnects {
		return false
	}
	r.reconnects, r.isDoubtful = n, true
	select {
	case <-time.After(rand.N(max(time.Second, r.PollInterval))):
	case <-ctx.Done():
	}
	return true
}

// await waits for the hot path, and reads for itself what that will not bring.
func (r *reader) await(ctx context.Context, s feedState) error {
	if s.created.Equal(r.at.stream) && s.handed >= r.at.next && s.binding == r.binding {
		return r.read(ctx, s.handed)
	}
	if r.Feed.Wait(ctx, max(LookAfter, r.PollInterval)) || ctx.Err() != nil {
		return nil
	}
	last, err := r.look(ctx)
	if err != nil || last < r.at.next {
		return err
	}
	return r.read(ctx, last)
}

func (r *reader) pass(ctx context.Context, l *Message) {
	l.Origin.Created = r.at.created
	may := r.hooks.MayLearn(ctx, l.Origin.Seq, r.at.stream)
	may = may && r.guard.allows(ctx, l.Origin.Seq, r.at.created)
	if ctx.Err() != nil {
		return
	}
	r.at.learned(l.Origin.Seq, l.Time)
	if may {
		r.take(ctx, l)
	}
}

// close gives the reader's consumer up.
func (r *reader) close(ctx context.Context) {
	if r.cursor == nil {
		return
	}
	r.closeCursor(ctx, r.cursor)
	r.cursor = nil
}

// read brings messages up to a number from the stream, as many as one pull has; the next step goes on with it.
func (r *reader) read(ctx context.Context, upTo uint64) (err error) {
	if r.cursor == nil || r.cursor.upTo != upTo {
		r.close(ctx)
		if r.cursor, err = r.openCursor(ctx, jetstream.ConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.at.next}); err != nil {
			return err
		}
		r.cursor.upTo = upTo
		// Asked after the consumer was made: were it another stream's, this would say so.
		last, err := r.look(ctx)
		if err != nil || r.cursor == nil {
			return err
		}
		if upTo != noEnd && upTo > last { // what is not stored yet must not be passed over
			r.close(ctx)
			if last < r.at.next {
				return errInconsistent
			}
			return r.read(ctx, last)
		}
	}
	if r.at.next > upTo {
		r.close(ctx) // the rest was purged
		return nil
	}
	// Without an end each pull is short: the hot path may begin to bring the same messages meanwhile.
	c, most := r.cursor, uint64(natsx.MaxFetchMessages/8)
	if upTo != noEnd {
		if most = min(natsx.MaxFetchMessages, c.pending, upTo-r.at.next+1); most == 0 {
			r.at.skip(upTo + 1) // the rest is of other subjects, or gone
			r.close(ctx)
			return nil
		}
	}
	n, err := r.pull(ctx, c, int(most))
	if err != nil {
		return err
	}
	if r.at.next > upTo {
		r.close(ctx)
	}
	if n > 0 {
		return nil
	}
	if upTo != noEnd {
		r.close(ctx) // what it had pending is gone
	}
	_, err = r.look(ctx)
	return err
}

func (r *reader) pull(ctx context.Context, c *cursor, most int) (int, error) {
	gap := false
	n, err := natsx.Fetch(ctx, r.JS, c, most, maxPull, func(msg *natsx.Message) {
		r.Series.Read(health.PathLearn, len(msg.Data()))
		m, ok := r.Received(msg, r.at.stream)
		if !ok || gap {
			return
		}
		if c.delivered++; m.ConsumerSeq != c.delivered {
			gap = true
			return
		}
		c.pending = m.Pending
		r.pass(ctx, &Message{Message: scope.Message{Origin: m.Origin, Subject: m.Subject, Time: m.Time, Data: m.Data}})
	})
	if err == nil && gap {
		err = natsx.ErrGap
	}
	return n, err
}

// look asks the server how the input stream stands, and moves to where learning continues. It returns the number of the
// stream's last message.
func (r *reader) look(ctx context.Context) (last uint64, err error) {
	r.hasReconnected(ctx)
	input, err := r.JS.Stream(ctx, r.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) && !r.isGone {
		r.isGone = true
		r.SetEvent(fmt.Sprintf("the input stream %s is gone, seen at %s; learning continues once it is made again ('embedd setup --apply')",
			r.Stream, health.Timestamp(time.Now())))
	}
	if err != nil {
		return 0, err
	}
	info := input.CachedInfo()
	s := streamState{created: info.Created, now: info.TimeStamp, first: info.State.FirstSeq, last: info.State.LastSeq}
	if r.isDoubtful && r.at.last > 0 && s.created.Equal(r.at.stream) {
		// Where it is gone, or must not be asked for, the numbers alone have to tell.
		if msg, err := input.GetMsg(ctx, r.at.last); err == nil {
			s.at = msg.Time
		}
	}
	if r.at.same(s) || r.at.newer(s) {
		r.oddSince = time.Time{}
	} else {
		if r.oddSince.IsZero() {
			r.oddSince = time.Now()
		}
		if time.Since(r.oddSince) < SettleTime {
			return 0, errInconsistent
		}
		if s.resume, err = r.after(ctx, r.at.time); err != nil {
			return 0, err
		}
	}
	r.lookedAt, r.isDoubtful = time.Now(), false
	c, lost, text := r.at.follow(s)
	switch {
	case c != "":
		r.close(ctx)
		r.Series.Add(health.ReaderRestarts, 1, string(c))
		r.Series.Add(health.Dropped, float64(lost), health.PathLearn)
		r.SetEvent(text)
		r.isStuck = false // the text says where learning continues; that it reads again says less
	case r.isGone:
		r.SetEvent(fmt.Sprintf("the input stream was gone and is back, seen at %s; learning continues from message %d",
			health.Timestamp(s.now), r.at.next))
	}
	r.isGone = false
	return s.last, nil
}

// after is the number of the first message that was stored after a time.
func (r *reader) after(ctx context.Context, t time.Time) (uint64, error) {
	t = t.Add(1)
	c, err := r.openCursor(ctx, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &t,
		HeadersOnly: true})
	if err != nil {
		return 0, err
	}
	defer r.closeCursor(ctx, c)
	return c.CachedInfo().Delivered.Stream + 1, nil
}

// SkipTo moves to where the window of a model begins: no model needs what is before it.
func (r *reader) SkipTo(live *plugin.Live) {
	r.at.next = max(r.at.next, needs.WindowStart(live, r.at.stream))
}
