package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/stream/internal/health"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/spec"
)

// tail knows which answers the newest end of the output and dead letter streams holds. Beyond the duplicate window the
// server absorbs nothing, so whatever may be stored already is looked up here before it is sent again: what was sent
// without a word back, and what a process before this one may have answered.
type tail struct {
	js     jetstream.JetStream
	log    *slog.Logger
	window time.Duration // shortest duplicate window of the streams
	most   int           // how many inputs may be without an acknowledgement at a time
	sinks  map[string]*sink
	known  map[*sink]*answers // what a process before this one may have stored; one goroutine uses it

	access     *natsx.PermissionMonitor // of the connection's user; nil: not watched
	conditions *health.Conditions
	told       ratelog.Limiter
}

func newTail(js jetstream.JetStream, log *slog.Logger, most int) *tail {
	return &tail{js: js, log: log, window: time.Hour, most: most, sinks: map[string]*sink{}, known: map[*sink]*answers{},
		conditions: &health.Conditions{}}
}

// sink is the stream that takes a subject.
type sink struct {
	js      jetstream.JetStream
	subject string

	mu    sync.Mutex
	name  string // of the stream
	first uint64 // number of its first message, when it was asked last
	end   point
}

// point is a place in a stream: all that is stored from now on has a higher number.
type point struct {
	created time.Time // of the stream
	seq     uint64
}

// answers are the identities of the stored answers to the inputs of a range of numbers.
type answers struct {
	input time.Time // creation of the stream of the inputs
	from  uint64
	to    uint64            // the first number that is not known of
	ids   map[string]uint64 // with the number of the input
	upTo  point             // in the sink
	read  time.Time
}

// maxAnswers bounds them (Invariant 5).
const maxAnswers = spec.MaxAckPending

// put adds an answer. Where there are too many it gives up the later half of the range.
func (k *answers) put(id string, seq uint64) {
	if seq < k.from || seq >= k.to {
		return
	}
	k.ids[id] = seq
	if len(k.ids) < maxAnswers {
		return
	}
	newest := k.from
	for _, seq := range k.ids {
		newest = max(newest, seq)
	}
	k.to = k.from + (newest-k.from)/2 + 1
	for id, seq := range k.ids {
		if seq >= k.to {
			delete(k.ids, id)
		}
	}
}

// add makes the stream that takes a subject known.
func (t *tail) add(ctx context.Context, subject string) (*jetstream.StreamInfo, error) {
	s := &sink{js: t.js, subject: subject}
	stream, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	t.sinks[subject] = s
	t.window = min(t.window, info.Config.Duplicates)
	return info, nil
}

// of is the stream that takes a subject, nil where there are none.
func (t *tail) of(subject string) *sink {
	if t == nil {
		return nil
	}
	return t.sinks[subject]
}

// look asks for the stream; where it was made anew, all of it is behind every place in the one before.
func (s *sink) look(ctx context.Context) (jetstream.Stream, error) {
	s.mu.Lock()
	name := s.name
	s.mu.Unlock()
	var stream jetstream.Stream
	err := error(jetstream.ErrStreamNotFound)
	if name != "" {
		stream, err = s.js.Stream(ctx, name)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) { // not known yet, or another takes the subject now
		if name, err = s.js.StreamNameBySubject(ctx, s.subject); err == nil {
			stream, err = s.js.Stream(ctx, name)
		}
	}
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.name == "":
		s.end = point{info.Created, info.State.LastSeq}
	case !s.end.created.Equal(info.Created):
		s.end = point{created: info.Created}
	}
	s.name, s.first = name, max(info.State.FirstSeq, 1)
	return stream, nil
}

// stream is the name of the one that took the subject when it was last looked at.
func (s *sink) stream() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

// place is behind everything that is known to be stored.
func (s *sink) place() point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// before is so many messages before that, but not before the first.
func (s *sink) before(back uint64) (from point, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from = s.end
	from.seq -= min(from.seq, back)
	return from, from.seq < s.first
}

// stored notes where the server put a message.
func (s *sink) stored(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end.seq = max(s.end.seq, seq)
}

// head is the identity of a stored answer, and the input that it names.
type head struct {
	id, source string
	at         time.Time
}

// after reads the identities of what is stored behind a place, and returns the place that it came to.
func (s *sink) after(ctx context.Context, m point, take func(head)) (point, error) {
	stream, err := natsx.Hedge(ctx, s.look)
	if err != nil {
		return m, fmt.Errorf("asking for the stream of %s: %w", s.subject, natsx.ExplainPublishError(err, s.subject))
	}
	info := stream.CachedInfo()
	if !info.Created.Equal(m.created) {
		m = point{created: info.Created}
	}
	end := point{info.Created, max(info.State.LastSeq, m.seq)}
	if info.State.Msgs == 0 || end.seq == m.seq {
		return end, nil
	}
	filter := s.subject
	if info.Config.SubjectTransform != nil {
		filter = "" // messages are stored under other subjects than they were sent to
	}
	want := jetstream.ConsumerConfig{
		// with a name it is one, however often it is asked for
		Name:          strings.TrimPrefix(nats.NewInbox(), nats.InboxPrefix),
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: m.seq + 1, FilterSubject: filter,
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true, MemoryStorage: true, InactiveThreshold: time.Minute,
	}
	c, err := natsx.Hedge(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return stream.CreateConsumer(ctx,
			want)
	})
	if err != nil {
		return m, fmt.Errorf("reading the end of stream %s: %w", info.Config.Name, err)
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = stream.DeleteConsumer(clean, c.CachedInfo().Name) // it ends by itself too
	}()
	delivered := uint64(0)
	for pending := c.CachedInfo().NumPending; pending > 0; {
		gap := false
		n, err := natsx.Pull(ctx, s.js, c, int(min(pending, natsx.MaxFetchMessages)), 0, func(msg *natsx.Message) {
			meta, err := msg.Metadata()
			if delivered++; err != nil || meta.Sequence.Consumer != delivered {
				gap = true
				return
			}
			take(head{msg.Headers().Get(nats.MsgIdHdr), msg.Headers().Get(wire.HeaderSource), meta.Timestamp})
		})
		if err == nil && gap {
			err = natsx.ErrGap
		}
		if err != nil {
			return m, fmt.Errorf("reading the end of stream %s: %w", info.Config.Name, err)
		}
		if n == 0 {
			break
		}
		pending -= min(pending, uint64(n))
	}
	return end, nil
}

// lookUp marks those of the parts that are stored. Each is looked for behind the place that its stream had come to
// when it was first sent, which is where it stands if anywhere.
func (t *tail) lookUp(ctx context.Context, parts []*outgoing) error {
	byID := map[*sink]map[string]*outgoing{}
	from := map[*sink]point{}
	for _, o := range parts {
		if byID[o.sink] == nil {
			byID[o.sink], from[o.sink] = map[string]*outgoing{}, o.after
		}
		byID[o.sink][o.id] = o
		if m := from[o.sink]; !o.after.created.Equal(m.created) {
			from[o.sink] = point{} // of different streams: all of the one that is there is read
		} else if o.after.seq < m.seq {
			from[o.sink] = o.after
		}
	}
	for s, wanted := range byID {
		m, err := s.after(ctx, from[s], func(h head) {
			if o := wanted[h.id]; o != nil {
				o.stored = true
			}
		})
		if err != nil {
			return err
		}
		for _, o := range wanted {
			o.after = m
		}
	}
	return nil
}

// markStored marks the parts of an answer that another attempt stored, of this process or of another: where the input
// was delivered before, or was held for so long that it may have been delivered again. It is called by one goroutine.
func (t *tail) markStored(ctx context.Context, a *answer, doubt bool) {
	if t == nil || !doubt {
		return
	}
	found := 0
	for _, o := range a.parts {
		for attempt := 0; ; attempt++ {
			err := t.access.Guard(ctx, t.access.IsServerRequest, func(ctx context.Context) error {
				return t.know(ctx, o.sink, a.in)
			})
			if err == nil {
				break
			}
			if ctx.Err() == nil {
				t.conditions.SetError(health.Lookup, fmt.Errorf("what was answered before cannot be looked up: %w", err))
				t.told.Warn(t.log, "the end of the output cannot be read; trying again", "error", err)
			}
			if !natsx.Backoff(ctx, min(attempt, 5)) {
				return
			}
		}
		t.conditions.Clear(health.Lookup)
		if _, stored := t.known[o.sink].ids[o.id]; stored {
			o.stored = true
			found++
		}
	}
	if found > 0 {
		t.log.Debug("a redelivery was answered before", "source", a.in.Origin.Source(), "parts", found)
	}
}

// step is how far back the end of a stream is read first.
const step = 4096

// skew is how far apart the clocks of two servers of a cluster may be.
const skew = time.Minute

// know reads, where it is not known yet, which answers are stored to an input and those after it; what came since is
// read again once it is so old that the server may have forgotten it.
//
// How far back is far enough? The answer to an input was stored after the input was, and after its first delivery.
// When that was, at most so many inputs before it as the server allows were without an acknowledgement; so of the
// answers behind it in the output at most so many belong to inputs before it, and as many to a stream of that name
// that was there before.
func (t *tail) know(ctx context.Context, s *sink, in *input) error {
	k, seq := t.known[s], in.Origin.Seq
	if k != nil && k.input.Equal(in.Origin.Created) && k.from <= seq && seq < k.to &&
		s.place().seq < k.upTo.seq+maxAnswers {
		if time.Since(k.read) < t.window/2 {
			return nil
		}
		now := time.Now()
		m, err := s.after(ctx, k.upTo, func(h head) {
			if seq, ours := seqOf(h.source, in.Origin.Stream); ours {
				k.put(h.id, seq)
			}
		})
		if err == nil {
			k.upTo, k.read = m, now
		}
		return err
	}
	for back := uint64(step); ; back *= 4 {
		now := time.Now()
		from, all := s.before(back)
		k := &answers{input: in.Origin.Created, from: seq, to: math.MaxUint64, ids: map[string]uint64{}, read: now}
		before, old := map[uint64]bool{}, false
		m, err := s.after(ctx, from, func(h head) {
			old = old || h.at.Before(in.Time.Add(-skew))
			switch n, ours := seqOf(h.source, in.Origin.Stream); {
			case !ours:
			case n < seq:
				before[n] = true
			default:
				k.put(h.id, n)
			}
		})
		if err != nil {
			return err
		}
		if old || len(before) > 2*t.most || all || !m.created.Equal(from.created) {
			k.upTo = m
			t.known[s] = k
			return nil
		}
	}
}

// seqOf reads the number of an input out of the header that names it.
func seqOf(source, stream string) (uint64, bool) {
	name, number, ok := strings.Cut(source, ":")
	if !ok || name != stream {
		return 0, false
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, err == nil
}
