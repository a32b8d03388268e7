package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
)

// quiet is how long nothing may come from the hot path before the stream is looked at. It bounds how late learning
// follows a stream that was deleted and made again.
const quiet = 3 * time.Second

// apart is how long the reader reads everything itself once another replica was seen to get messages.
const apart = 5 * time.Second

// maxBacklog is how many rows may wait to be learned from, where they are of more than one message.
const maxBacklog = 256

// patience is how many failures in a row are an interruption that need not be told: some seconds.
const patience = 6

// settling is how long the numbers of a stream have to contradict what was read before that is believed: a server of a
// cluster that has just been elected may not have come to its newest messages yet.
const settling = 2 * time.Second

var errOdd = errors.New("the numbers of the input stream are not those that were read; it is looked at again")

// everything is the end of a read that has none.
const everything = math.MaxUint64

// reader brings the learning side every message of the input once, in stream order. Where it can, it takes what the
// hot path has read; it reads for itself, without acknowledging, what the hot path did not see: the past of the window
// after a start, everything while the hot path holds, what fell out of the feed, and what other replicas got.
type reader struct {
	*pipeline
	take func(context.Context, *lesson)

	at      place
	binding int       // of the hot path's consumer, as of the last close look
	doubt   bool      // the stream may be another
	links   uint64    // connections to the server after the first, as of the last look
	looked  time.Time // when it was looked at
	away    bool      // the stream was not there
	stuck   bool      // it could not be read for a while, and the status says so
	odd     time.Time // since when its numbers are not those that were read; zero: they are
	head    *lesson   // taken out of the feed, not yet learned
	cursor  *cursor

	cautious *care
}

func newReader(p *pipeline, take func(context.Context, *lesson)) *reader {
	return &reader{pipeline: p, take: take, doubt: true, links: p.Conn.Stats().Reconnects,
		at: place{stream: p.Created, created: p.Created, next: max(p.learnFirst, 1)}}
}

// goOn finds where to read after a restart: where the window of the newest checkpoint begins, or that of the live
// model. The numbers of another stream of that name would mean other messages, as those of an older copy would that
// was put back: then it is the first message.
func (p *pipeline) goOn(live *plugin.Live) {
	same := live.Model.Note().Source["created"] == p.Stage.Source["created"]
	if same && fittedTo(live) > p.Input.CachedInfo().State.LastSeq {
		live.State = nil
		return
	}
	if same {
		live.Seen, p.learnFirst = fittedTo(live), fittedFrom(live)
	}
	if created, first := stage.ReadFrom(live.State); created == p.Created.UnixNano() {
		p.learnFirst = first
	} else if created != 0 {
		p.learnFirst = 0
	}
}

// run reads until ctx is done. It survives everything that can happen to a stream and its server.
func (r *reader) run(ctx context.Context) {
	defer func() { r.close(ctx) }()
	r.cautious = newCare(ctx, r.pipeline)
	defer r.cautious.end(ctx)
	for attempt := 0; ctx.Err() == nil; {
		from := r.at.next
		err := r.step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil && r.stuck {
			r.stuck = false
			r.turned(fmt.Sprintf("learning reads the input stream again, since %s; it goes on from message %d",
				stamp(time.Now()), from))
		}
		if r.at.next > from || err == nil {
			attempt = 0
		}
		if err == nil {
			r.cautious.settle(ctx, r.atEnd())
			continue
		}
		r.close(ctx)
		r.doubt = true
		switch {
		case r.away:
		case attempt == 0:
			r.Series.Add(health.ReaderRestarts, 1, string(failed))
		case attempt == patience:
			r.stuck = true
			r.turned(fmt.Sprintf("learning cannot read the input stream, seen at %s, and tries again: %v",
				stamp(time.Now()), err))
		}
		r.Log.Debug("the learning side begins anew", "from", r.at.next, "error", err)
		if !natsx.Backoff(ctx, min(attempt, 5)) {
			return
		}
		attempt++
	}
}

// atEnd tells whether all was read that was there when reading began. The last of it may be of other subjects: then
// nothing of ours is behind what was read.
func (r *reader) atEnd() bool {
	c := r.cursor
	return r.at.next > r.cautious.goal || c != nil && c.upTo == everything && c.pending == 0
}

// step takes one message or reads those of one pull, or waits for them a while.
func (r *reader) step(ctx context.Context) error {
	s := r.feed.standing()
	if s.before.created.Equal(r.at.stream) {
		r.at.end = max(r.at.end, s.before.pulled)
	}
	if r.linked(ctx) || r.doubt || r.at.skipped.n > 0 && time.Since(r.looked) > quiet {
		if _, err := r.look(ctx); err != nil {
			return err
		}
	}
	if s.binding > r.binding && r.head == nil && r.feed.Len() == 0 {
		r.binding, r.doubt = s.binding, true
		return nil
	}
	switch c := r.cursor; {
	case c != nil && c.upTo != everything:
		return r.read(ctx, c.upTo) // a read that was begun
	case r.Role == RoleTrain || r.Partitions > 0 || r.gate.closed()&holding != 0 || time.Since(s.broken) < apart:
		return r.read(ctx, everything)
	}
	if r.head == nil {
		r.head, _ = r.feed.TryPop()
	}
	switch l := r.head; {
	case r.linked(ctx): // it came after that, and its number may be another's
	case l == nil:
		return r.await(ctx, s)
	case l.binding > r.binding:
		r.binding, r.doubt = l.binding, true
	case !l.origin.Created.Equal(r.at.stream):
		r.head = nil // of the stream before; what of it was not learned is counted
	case l.origin.Seq < r.at.next:
		r.head = nil
	case l.after >= r.at.next:
		r.Series.Add(health.ReaderRestarts, 1, string(behind))
		return r.read(ctx, l.after)
	default:
		r.close(ctx)
		r.head = nil
		r.learned(ctx, l)
	}
	return nil
}

// linked tells whether the connection was lost and made again. The stream may be an older copy then, whose numbers are of
// other messages; with more of them than were lost nothing but a look tells. Of replicas those that read to learn look,
// each at a time of its own.
func (r *reader) linked(ctx context.Context) bool {
	n := r.Conn.Stats().Reconnects
	if n == r.links {
		return false
	}
	r.links, r.doubt = n, true
	select {
	case <-time.After(rand.N(max(time.Second, r.PollInterval))):
	case <-ctx.Done():
	}
	return true
}

// await waits for the hot path, and reads for itself what that will not bring.
func (r *reader) await(ctx context.Context, s standing) error {
	if s.created.Equal(r.at.stream) && s.handed >= r.at.next && s.binding == r.binding {
		return r.read(ctx, s.handed)
	}
	if r.feed.Wait(ctx, max(quiet, r.PollInterval)) || ctx.Err() != nil {
		return nil
	}
	last, err := r.look(ctx)
	if err != nil || last < r.at.next {
		return err
	}
	return r.read(ctx, last)
}

func (r *reader) learned(ctx context.Context, l *lesson) {
	l.origin.Created = r.at.created
	may := r.mayLearn(ctx, l.origin.Seq, r.at.stream)
	may = may && r.cautious.may(ctx, l.origin.Seq, r.at.created)
	if ctx.Err() != nil {
		return
	}
	r.at.learned(l.origin.Seq, l.time)
	if may {
		r.take(ctx, l)
	}
}

// cursor is a consumer of the reader's own.
type cursor struct {
	jetstream.Consumer
	upTo      uint64 // where the read ends, or everything
	delivered uint64
	pending   uint64 // messages of ours that it has still to bring, as of the newest
}

// openCursor makes a consumer that begins at a number, or at a time.
func (p *pipeline) openCursor(ctx context.Context, c jetstream.ConsumerConfig) (*cursor, error) {
	c.Description = needs.ConsumerDescription + p.Name + ", learning"
	c.AckPolicy = jetstream.AckNonePolicy
	if c.FilterSubjects = needs.Filters(&p.Pipeline); len(c.FilterSubjects) == 1 {
		c.FilterSubject, c.FilterSubjects = p.Subject, nil
	}
	c.MemoryStorage, c.InactiveThreshold = true, 5*time.Minute
	made, err := p.JS.CreateConsumer(ctx, p.Stream, c)
	if err != nil {
		return nil, err
	}
	return &cursor{Consumer: made, pending: made.CachedInfo().NumPending}, nil
}

// close gives the reader's consumer up.
func (r *reader) close(ctx context.Context) {
	if r.cursor == nil {
		return
	}
	r.drop(ctx, r.cursor)
	r.cursor = nil
}

func (p *pipeline) drop(ctx context.Context, c *cursor) {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = p.JS.DeleteConsumer(clean, p.Stream, c.CachedInfo().Name) // it ends by itself too
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
		if upTo != everything && upTo > last { // what is not stored yet must not be passed over
			r.close(ctx)
			if last < r.at.next {
				return errOdd
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
	if upTo != everything {
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
	if upTo != everything {
		r.close(ctx) // what it had pending is gone
	}
	_, err = r.look(ctx)
	return err
}

// learnPull is the most bytes of one pull of the learning side. Both readers share a connection, and what the hot path
// has asked for waits behind it.
const learnPull = 1 << 20

func (r *reader) pull(ctx context.Context, c *cursor, most int) (int, error) {
	gap := false
	n, err := natsx.Fetch(ctx, r.JS, c, most, learnPull, func(msg *natsx.Message) {
		r.Series.Read(health.PathLearn, len(msg.Data()))
		in := r.received(msg, r.at.stream)
		if in == nil || gap {
			return
		}
		if c.delivered++; in.ConsumerSeq != c.delivered {
			gap = true
			return
		}
		c.pending = in.Pending
		r.learned(ctx, &lesson{origin: in.Origin, subject: in.Subject, time: in.Time, data: in.Data})
	})
	if err == nil && gap {
		err = natsx.ErrGap
	}
	return n, err
}

// look asks the server how the input stream stands, and moves to where learning goes on. It returns the number of the
// stream's last message.
func (r *reader) look(ctx context.Context) (last uint64, err error) {
	r.linked(ctx)
	input, err := r.JS.Stream(ctx, r.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) && !r.away {
		r.away = true
		r.turned(fmt.Sprintf("the input stream %s is gone, seen at %s; learning goes on once it is made again ('embedd setup --apply')",
			r.Stream, stamp(time.Now())))
	}
	if err != nil {
		return 0, err
	}
	info := input.CachedInfo()
	s := state{created: info.Created, now: info.TimeStamp, first: info.State.FirstSeq, last: info.State.LastSeq}
	if r.doubt && r.at.last > 0 && s.created.Equal(r.at.stream) {
		// Where it is gone, or must not be asked for, the numbers alone have to tell.
		if msg, err := input.GetMsg(ctx, r.at.last); err == nil {
			s.at = msg.Time
		}
	}
	if r.at.same(s) || r.at.newer(s) {
		r.odd = time.Time{}
	} else {
		if r.odd.IsZero() {
			r.odd = time.Now()
		}
		if time.Since(r.odd) < settling {
			return 0, errOdd
		}
		if s.resume, err = r.after(ctx, r.at.time); err != nil {
			return 0, err
		}
	}
	r.looked, r.doubt = time.Now(), false
	c, lost, text := r.at.follow(s)
	switch {
	case c != "":
		r.close(ctx)
		r.Series.Add(health.ReaderRestarts, 1, string(c))
		r.Series.Add(health.Dropped, float64(lost), health.PathLearn)
		r.turned(text)
		r.stuck = false // the text says where learning goes on; that it reads again says less
	case r.away:
		r.turned(fmt.Sprintf("the input stream was gone and is back, seen at %s; learning goes on from message %d",
			stamp(s.now), r.at.next))
	}
	r.away = false
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
	defer r.drop(ctx, c)
	return c.CachedInfo().Delivered.Stream + 1, nil
}

// turned says what happened to the input: in the log, in the status, and in what readiness says.
func (p *pipeline) turned(text string) {
	p.Log.Warn(text, "stream", p.Stream)
	p.turn.Store(&text)
}

// teach hands a message that the hot path has decoded to the learning side.
func (p *pipeline) teach(in *input, m *arrowio.Message, err error) {
	if p.feed == nil || p.resting.Load() || in.taught.Load() {
		return
	}
	l := &lesson{decoded: true, message: m, err: err}
	if m != nil && !p.teaches(m) {
		l.message = nil
	}
	if l.message != nil {
		l.data = in.Data
	}
	p.hand(in, l)
}

// teaches tells whether there is anything in a message to learn from. Once a model is live, rows without a label are
// only answered, unless it may come apart from them.
func (p *pipeline) teaches(m *arrowio.Message) bool {
	if p.Stage.Spec.Label == "" || p.Running.Live() == nil || p.joins() {
		return true
	}
	for _, b := range m.Batches() {
		for i := range b.Rows() {
			if _, ok := b.Label(i); ok {
				return true
			}
		}
	}
	return false
}

// hand puts a lesson into the feed, once for each message. It never waits.
func (p *pipeline) hand(in *input, l *lesson) {
	if !in.taught.CompareAndSwap(false, true) {
		return
	}
	l.origin, l.subject, l.time = in.Origin, in.Subject, in.Time
	l.after, l.binding, l.size = in.after, in.binding, lessonSize
	if !l.decoded || l.message != nil {
		l.size += in.size
	}
	if l.message != nil {
		l.size += max(0, int64(l.message.Bytes()-len(in.Data)))
	}
	dropped := p.feed.hand(l)
	if p.feed.only {
		p.Series.Add(health.Dropped, float64(len(dropped)), health.PathLearn)
	}
}

// learnFrom is the learning side of an input that can be read only once.
func (p *pipeline) learnFrom(ctx context.Context, take func(context.Context, *lesson)) {
	stream := p.Created
	for {
		l, ok := p.feed.Pop(ctx)
		if !ok {
			return
		}
		if l.origin.Created.After(stream) {
			stream = l.origin.Created
			p.Series.Add(health.ReaderRestarts, 1, string(recreated))
			p.turned(fmt.Sprintf("the input stream was made anew at %s; learning goes on from its first message",
				stamp(stream)))
		}
		take(ctx, l)
	}
}

// learn brings a lesson to the stage, once that has room for it: no reader races ahead of what is learned.
func (p *pipeline) learn(ctx context.Context, l *lesson) {
	if p.joins() {
		p.awaitLabels(ctx, l)
		defer p.rowLearned(l)
	}
	m, err := l.message, l.err
	if !l.decoded {
		m, err = p.Running.Decode(l.data)
	}
	if err != nil {
		p.noteUnreadable(l, err)
		return
	}
	if m == nil {
		return
	}
	if !p.awaitBacklog(ctx, m.Rows()) {
		return
	}
	at := plugin.Position{Created: l.origin.Created, Seq: l.origin.Seq, Time: l.time, Source: l.subject}
	killpoint.At(killpoint.Learning, l.origin.Seq)
	err = p.Running.Learn(m, at)
	if errors.Is(err, plugin.ErrContract) {
		if m, err = p.Running.Decode(l.data); err != nil {
			p.noteUnreadable(l, err)
			return
		}
		err = p.Running.Learn(m, at)
	}
	if err != nil {
		p.told.unlearned.Warn(p.Log, "a message could not be learned from", "source", l.origin.Source(), "error", err)
	}
	killpoint.Here(killpoint.Learned)
}

// noteUnreadable counts a message that cannot be learned from. The hot path makes a dead letter of it, with the reason;
// while it holds, readiness says it.
func (p *pipeline) noteUnreadable(l *lesson, err error) {
	u := &unreadable{messages: 1, last: err}
	if before := p.unreadable.Load(); before != nil {
		u.messages += before.messages
	} else if p.Running.Live() == nil {
		p.Log.Warn("a message cannot be read, so nothing is learned from it", "source", l.origin.Source(),
			"error", err)
	}
	p.unreadable.Store(u)
}

// awaitBacklog waits until the stage has room for so many rows more; false where ctx is done.
func (p *pipeline) awaitBacklog(ctx context.Context, rows int) bool {
	for n := p.Running.Backlog(); n > 0 && n+rows > maxBacklog; n = p.Running.Backlog() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}
