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

// InspectAfter is how long the hot path may deliver nothing before the stream is inspected. It bounds the delay after a
// stream was deleted and recreated.
const InspectAfter = 3 * time.Second

// SharedFor is how long the reader reads everything itself after another replica was seen to receive messages.
const SharedFor = 5 * time.Second

// maxQuietFailures is how many consecutive failures are not reported. They take some seconds.
const maxQuietFailures = 6

// SettleTime is how long the state of a stream must contradict what was read before it is believed. A newly elected
// leader of a cluster may not have its newest messages yet.
const SettleTime = 2 * time.Second

var errInconsistent = errors.New("the sequence numbers of the input stream do not match what was read; " +
	"its state is requested again")

// noEnd is the end of a read that follows the stream.
const noEnd = math.MaxUint64

// reader brings every message of the input to take once, in stream order. It takes what the hot path has received from
// the feed. What the hot path did not receive it reads itself, without acknowledging: the window after a start,
// everything while inputs wait for a model, what was dropped from the feed, and what other replicas received. Without a
// feed it reads everything.
type reader struct {
	*Path
	take func(context.Context, *Message)

	at          position
	binding     int       // of the hot path's consumer, when the stream was last looked at
	isDoubtful  bool      // the stream may have been recreated or restored
	reconnects  uint64    // of the connection, when the stream was last inspected
	inspectedAt time.Time // when the state of the stream was last requested
	isGone      bool      // the stream does not exist, and the status reports it
	isStuck     bool      // reads have failed for a while, and the status reports it
	head        *Message  // taken from the feed, not learned yet
	cursor      *natsx.Reader
	cursorEnd   uint64 // sequence number at which the cursor's read ends, or noEnd
	// contradictedSince is since when the stream's state contradicts what was read; zero: it does not.
	contradictedSince time.Time

	guard *crashGuard // nil unless open
}

func newReader(p *Path, take func(context.Context, *Message)) *reader {
	return &reader{Path: p, take: take, isDoubtful: true, reconnects: p.Conn.Stats().Reconnects,
		at: position{stream: p.Created, created: p.Created, next: max(p.ReadFrom, 1)}}
}

// Run reads until ctx is done. It retries after every failure of the stream or its server.
func (r *reader) Run(ctx context.Context) {
	defer func() { r.closeCursor(ctx) }()
	r.openGuard(ctx, r.Learns() && !r.replica.HasEndedStandby())
	defer r.closeGuard(ctx)
	for attempt := 0; ctx.Err() == nil; {
		from := r.at.next
		err := r.step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil && r.isStuck {
			r.isStuck = false
			r.SetEvent(fmt.Sprintf("learning reads the input stream again, since %s; it continues from message %d",
				health.Timestamp(time.Now()), from))
		}
		if r.at.next > from || err == nil {
			attempt = 0
		}
		if err == nil {
			r.guard.markCaughtUp(ctx, r.isAtEnd())
			continue
		}
		r.closeCursor(ctx)
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
		r.Log.Debug("the reader of the training path restarts", "from", r.at.next, "error", err)
		if !natsx.ShortBackoff(ctx, attempt) {
			return
		}
		attempt++
	}
}

// openGuard counts a start, of the trainer or of a standby, unless endStandby has for this one.
func (r *reader) openGuard(ctx context.Context, isStandby bool) {
	if r.guard == nil {
		r.guard = newCrashGuard(ctx, r.Path, isStandby)
	}
}

// closeGuard notes that reading ends in order. A process whose training is stopped keeps the guard that stopped it.
func (r *reader) closeGuard(ctx context.Context) {
	if r.guard.close(ctx); !r.guard.isStopped.Load() {
		r.guard = nil
	}
}

// isAtEnd reports whether everything was read that was stored when reading began. The last messages may be of other
// subjects: then the cursor has nothing pending.
func (r *reader) isAtEnd() bool {
	return r.at.next > r.guard.goal || r.cursor != nil && r.cursorEnd == noEnd && r.cursor.Pending() == 0
}

// step takes one message from the feed, or reads one pull, or waits for messages a while.
func (r *reader) step(ctx context.Context) error {
	s := r.Feed.state()
	if s.previous.created.Equal(r.at.stream) {
		r.at.end = max(r.at.end, s.previous.pulled)
	}
	if r.hasReconnected(ctx) || r.isDoubtful || r.at.skipped.n > 0 && time.Since(r.inspectedAt) > InspectAfter {
		if _, err := r.inspect(ctx, false); err != nil {
			return err
		}
	}
	if s.binding > r.binding && r.head == nil && r.Feed.Len() == 0 {
		r.binding, r.isDoubtful = s.binding, true
		return nil
	}
	switch {
	case r.cursor != nil && r.cursorEnd != noEnd:
		return r.read(ctx, r.cursorEnd) // a read that has begun
	case r.Feed == nil || r.Role == spec.RoleTrain || r.Partitions > 0 || r.hooks.IsHolding() ||
		time.Since(s.gapAt) < SharedFor:
		return r.read(ctx, noEnd)
	}
	if r.head == nil {
		r.head, _ = r.Feed.TryPop()
	}
	switch m := r.head; {
	case r.hasReconnected(ctx): // the message arrived after that, and may be of another stream
	case m == nil:
		return r.awaitFeed(ctx, s)
	case m.binding > r.binding:
		r.binding, r.isDoubtful = m.binding, true
	case !m.Origin.Created.Equal(r.at.stream):
		r.head = nil // of the previous stream; what of it was not learned is counted
	case m.Origin.Seq < r.at.next:
		r.head = nil
	case m.after >= r.at.next:
		r.Series.Add(health.ReaderRestarts, 1, string(behind))
		return r.read(ctx, m.after)
	default:
		r.closeCursor(ctx)
		r.head = nil
		r.deliver(ctx, m)
	}
	return nil
}

// hasReconnected reports whether the client has reconnected. Then the stream may be an older copy that was restored,
// and its sequence numbers may mean other messages. It waits for a random time, so that replicas do not look together.
func (r *reader) hasReconnected(ctx context.Context) bool {
	n := r.Conn.Stats().Reconnects
	if n == r.reconnects {
		return false
	}
	r.reconnects, r.isDoubtful = n, true
	natsx.Sleep(ctx, rand.N(max(time.Second, r.PollInterval)))
	return true
}

// awaitFeed waits for the hot path, and reads what that will not bring.
func (r *reader) awaitFeed(ctx context.Context, s feedState) error {
	if s.created.Equal(r.at.stream) && s.offered >= r.at.next && s.binding == r.binding {
		return r.read(ctx, s.offered)
	}
	if r.Feed.Wait(ctx, max(InspectAfter, r.PollInterval)) || ctx.Err() != nil {
		return nil
	}
	last, err := r.inspect(ctx, true)
	if err != nil || last < r.at.next {
		return err
	}
	return r.read(ctx, last)
}

// deliver moves past a message, and brings it to take when it may be learned.
func (r *reader) deliver(ctx context.Context, m *Message) {
	m.Origin.Created = r.at.created
	mayLearn := r.hooks.MayLearn(ctx, &m.Message, r.at.stream) && r.guard.allows(ctx, &m.Message, r.at.created)
	if ctx.Err() != nil {
		return
	}
	r.at.advance(m.Origin.Seq, m.Time)
	if mayLearn {
		r.take(ctx, m)
	}
}

// closeCursor deletes the reader's consumer.
func (r *reader) closeCursor(ctx context.Context) {
	if r.cursor == nil {
		return
	}
	r.cursor.Close(ctx)
	r.cursor = nil
}

// read reads messages of the stream up to a sequence number, as many as one pull has. The next step continues it.
func (r *reader) read(ctx context.Context, upTo uint64) (err error) {
	if r.cursor == nil || r.cursorEnd != upTo {
		if err := r.openAt(ctx, upTo); err != nil || r.cursor == nil {
			return err
		}
		upTo = r.cursorEnd
	}
	if r.at.next > upTo {
		r.closeCursor(ctx) // the rest was purged
		return nil
	}
	// Without an end each pull is short, because the hot path may begin to bring the same messages.
	c, limit := r.cursor, uint64(natsx.MaxFetchMessages/8)
	if upTo != noEnd {
		if limit = min(natsx.MaxFetchMessages, c.Pending(), upTo-r.at.next+1); limit == 0 {
			r.at.skip(upTo + 1) // the rest has other subjects, or has left the stream
			r.closeCursor(ctx)
			return nil
		}
	}
	n, err := r.pull(ctx, c, int(limit), r.at.stream, func(m *scope.Message) { r.deliver(ctx, &Message{Message: *m}) })
	if err != nil {
		return err
	}
	if r.at.next > upTo {
		r.closeCursor(ctx)
	}
	if n > 0 {
		return nil
	}
	if upTo != noEnd {
		r.closeCursor(ctx) // its pending messages have left the stream
	}
	_, err = r.inspect(ctx, true)
	return err
}

// openAt opens the cursor for a read up to a sequence number, or to the end of the stream if that is before. The cursor
// is closed again if learning continues elsewhere.
func (r *reader) openAt(ctx context.Context, upTo uint64) (err error) {
	r.closeCursor(ctx)
	if r.cursor, err = r.openCursor(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.at.next}); err != nil {
		return err
	}
	r.cursorEnd = upTo
	// Requested after the consumer was created, so that it shows a stream that was recreated before.
	last, err := r.inspect(ctx, false)
	if err != nil || r.cursor == nil || upTo == noEnd || upTo <= last {
		return err
	}
	r.closeCursor(ctx)
	if last < r.at.next {
		return errInconsistent
	}
	return r.openAt(ctx, last) // what is not stored yet, or was not when the consumer was created, must not be skipped
}

// inspect requests the state of the input stream, and moves to where learning continues. It returns the sequence number
// of the stream's last message. isQuiet: nothing has arrived for seconds.
func (r *reader) inspect(ctx context.Context, isQuiet bool) (last uint64, err error) {
	s, err := r.requestState(ctx, isQuiet)
	if err != nil {
		return 0, err
	}
	if r.at.isSame(s) || r.at.isNewer(s) {
		r.contradictedSince = time.Time{}
	} else {
		if r.contradictedSince.IsZero() {
			r.contradictedSince = time.Now()
		}
		if time.Since(r.contradictedSince) < SettleTime {
			return 0, errInconsistent
		}
		if s.resume, err = r.firstAfter(ctx, r.at.time); err != nil {
			return 0, err
		}
	}
	r.inspectedAt, r.isDoubtful = time.Now(), false
	c, lost, text := r.at.follow(s)
	switch {
	case c != "":
		r.closeCursor(ctx)
		r.Series.Add(health.ReaderRestarts, 1, string(c))
		r.Series.Add(health.Dropped, float64(lost), health.PathLearn)
		r.SetEvent(text)
		r.isStuck = false // the text already says where learning continues
	case r.isGone:
		r.SetEvent(fmt.Sprintf("the input stream was gone and is back, seen at %s; "+
			"learning continues from message %d", health.Timestamp(s.now), r.at.next))
	}
	r.isGone = false
	return s.last, nil
}

// requestState requests the state of the input stream. If nothing arrived, other pipelines share the request. The time
// of the newest message that was learned is requested if the stream may have been restored.
func (r *reader) requestState(ctx context.Context, isQuiet bool) (s streamState, err error) {
	request := r.JS.Stream
	if !r.hasReconnected(ctx) && !r.isDoubtful && isQuiet {
		request = r.RecentStream
	}
	input, err := request(ctx, r.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) && !r.isGone {
		r.isGone = true
		r.SetEvent(fmt.Sprintf("the input stream %s is gone, seen at %s; "+
			"learning continues when it is created again ('embedd setup --apply')", r.Stream, health.Timestamp(time.Now())))
	}
	if err != nil {
		return s, err
	}
	info := input.CachedInfo()
	s = streamState{created: info.Created, now: info.TimeStamp, first: info.State.FirstSeq, last: info.State.LastSeq}
	if r.isDoubtful && r.at.last > 0 && s.created.Equal(r.at.stream) {
		// Without that message, or the permission to read it, the sequence numbers alone decide.
		if msg, err := input.GetMsg(ctx, r.at.last); err == nil {
			s.at = msg.Time
		}
	}
	return s, nil
}

// firstAfter is the sequence number of the first message that was stored after a time.
func (r *reader) firstAfter(ctx context.Context, t time.Time) (uint64, error) {
	t = t.Add(1)
	c, err := r.openCursor(ctx, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy,
		OptStartTime: &t, HeadersOnly: true})
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	return c.Start(), nil
}

// SkipTo moves to where the window of a model begins: no model needs what is before it.
func (r *reader) SkipTo(live *plugin.Live) {
	r.at.next = max(r.at.next, needs.WindowStart(live, r.at.stream))
}

// goTo moves back to a message.
func (r *reader) goTo(seq uint64) {
	r.at = position{stream: r.at.stream, created: r.at.created, next: seq}
	r.head, r.isDoubtful = nil, true
}
