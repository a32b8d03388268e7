package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/needs"
)

// sink is the stream that stores the messages of a subject. Safe for concurrent use.
type sink struct {
	js      jetstream.JetStream
	subject string

	mu    sync.Mutex
	name  string // of the stream
	first uint64 // sequence of its first message when it was last read
	end   position

	window     atomic.Int64                // its duplicate window, in nanoseconds
	maxMsgSize atomic.Int64                // its max_msg_size; 0 or less: no limit
	ahead      atomic.Int64                // by how much the clock of its server is ahead of ours, in nanoseconds
	fault      atomic.Pointer[needs.Fault] // why it refuses new messages, as last inspected; nil: it does not
}

// position is a position in a stream: messages that are stored later have higher sequences.
type position struct {
	created time.Time // of the stream
	seq     uint64
}

// refresh reads the stream's state. If the stream was created again, its end is before the first message.
func (s *sink) refresh(ctx context.Context) (jetstream.Stream, error) {
	var stream jetstream.Stream
	err := error(jetstream.ErrStreamNotFound)
	if name := s.stream(); name != "" {
		stream, err = s.js.Stream(ctx, name)
		if err == nil && !wildcard.CoveredBy(s.subject, stream.CachedInfo().Config.Subjects) {
			err = jetstream.ErrStreamNotFound
		}
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) { // not known yet, or another stream takes the subject now
		stream, err = natsx.StreamOf(ctx, s.js, s.subject)
	}
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.name == "":
		s.end = position{info.Created, info.State.LastSeq}
	case !s.end.created.Equal(info.Created):
		s.end = position{created: info.Created}
	}
	s.name, s.first = info.Config.Name, max(info.State.FirstSeq, 1)
	s.setLimits(&info.Config)
	s.ahead.Store(int64(time.Until(info.TimeStamp)))
	return stream, nil
}

func (s *sink) setLimits(c *jetstream.StreamConfig) {
	s.window.Store(int64(c.Duplicates))
	s.maxMsgSize.Store(int64(c.MaxMsgSize))
}

// stream is the name of the stream when it was last read.
func (s *sink) stream() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

// position is the end of the stream, as far as it is known.
func (s *sink) position() position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// before returns the position from which the stream has the given number of messages up to its end. isAll is true if
// that includes every message of the stream.
func (s *sink) before(messages uint64) (from position, isAll bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from = s.end
	from.seq -= min(from.seq, messages)
	return from, from.seq < s.first
}

// addStored records the sequence of a message that was stored.
func (s *sink) addStored(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end.seq = max(s.end.seq, seq)
}

// storedAnswer is what the headers of a stored answer say.
type storedAnswer struct {
	id, source, part string // Nats-Msg-Id, Embedd-Source and Embedd-Part
	kind             wire.Kind
	at               time.Time
}

func answerOf(h nats.Header, at time.Time) storedAnswer {
	return storedAnswer{id: h.Get(nats.MsgIdHdr), source: h.Get(wire.HeaderSource), part: h.Get(wire.HeaderPart),
		kind: wire.Kind(h.Get(wire.HeaderKind)), at: at}
}

// errNotStored is the error of a lookup of a message that its stream does not have yet.
var errNotStored = errors.New("the server names a duplicate that the stream does not have yet")

// current refreshes the state of the stream and returns it.
func (s *sink) current(ctx context.Context) (*jetstream.StreamInfo, error) {
	stream, err := natsx.Hedge(ctx, s.refresh)
	if err != nil {
		return nil, fmt.Errorf("finding the stream of %s: %w", s.subject, natsx.ExplainPublishError(err, s.subject))
	}
	return stream.CachedInfo(), nil
}

// has reports whether the message with a sequence is a part: its subject, identity, source and time are. A message that
// is gone counts, since an answer that its stream has deleted must not be stored again.
func (s *sink) has(ctx context.Context, seq uint64, o *part) (bool, error) {
	info, err := s.current(ctx)
	if err != nil {
		return false, err
	}
	msg, err := natsx.StoredMessage(ctx, s.js, info.Config.Name, seq)
	if err != nil {
		return false, fmt.Errorf("reading message %d of stream %s: %w", seq, info.Config.Name, err)
	}
	if msg == nil {
		if seq == 0 || seq > info.State.LastSeq {
			return false, errNotStored
		}
		return true, nil
	}
	stored := answerOf(msg.Header, msg.Time)
	return stored.id == o.id && stored.source == o.in.Origin.Source() && o.in.canHaveAnswer(s, stored.at) &&
		(msg.Subject == o.msg.Subject || natsx.StoredFilter(&info.Config, o.msg.Subject) == ""), nil
}

// firstLookBack is how many messages before the end of a stream are read first.
const firstLookBack = 4096

// readNewest reads the newest messages. While they are not enough, it reads again, four times as many each time. It
// calls collect before each read.
func (s *sink) readNewest(ctx context.Context, collect func() (take func(storedAnswer), isEnough func() bool)) (
	reached position, err error) {
	for lookBack := uint64(firstLookBack); ; lookBack *= 4 {
		from, isAll := s.before(lookBack)
		take, isEnough := collect()
		reached, err = s.read(ctx, from, take)
		if err != nil || isAll || isEnough() || !reached.created.Equal(from.created) {
			return reached, err
		}
	}
}

// read passes the headers of the messages behind a position to take, and returns the position that it reached. It
// reads all messages if the stream was created again.
func (s *sink) read(ctx context.Context, from position, take func(storedAnswer)) (position, error) {
	info, err := s.current(ctx)
	if err != nil {
		return from, err
	}
	if !info.Created.Equal(from.created) {
		from = position{created: info.Created}
	}
	end := position{info.Created, max(info.State.LastSeq, from.seq)}
	if info.State.Msgs == 0 || end.seq == from.seq {
		return end, nil
	}
	if err := s.readBehind(ctx, &info.Config, from.seq, take); err != nil {
		return from, fmt.Errorf("reading the end of stream %s: %w", info.Config.Name, err)
	}
	return end, nil
}

// maxUnknown is how often a consumer that was just created is asked for while its leader is not known: for six seconds.
const maxUnknown = 7

// readBehind passes the headers of the messages behind a sequence to take.
func (s *sink) readBehind(ctx context.Context, c *jetstream.StreamConfig, seq uint64, take func(storedAnswer)) error {
	filter := natsx.StoredFilter(c, s.subject)
	r, err := s.openReader(ctx, c.Name, seq+1, filter)
	if err != nil {
		return err
	}
	defer r.Close(ctx)
	hasRead := false
	for pending, attempt := r.Pending(), 0; pending > 0; {
		most := int(min(pending, natsx.MaxFetchMessages))
		n, err := r.Fetch(ctx, nil, most, natsx.MaxFetchBytes, func(msg *natsx.Message) {
			hasRead = true
			if meta, err := msg.Metadata(); err == nil {
				seq = meta.Sequence.Stream
				take(answerOf(msg.Headers(), meta.Timestamp))
			}
		})
		switch {
		case errors.Is(err, nats.ErrNoResponders) && !hasRead && attempt < maxUnknown && natsx.Backoff(ctx, attempt):
			attempt++ // the server does not know yet that another one has created the consumer
		case err != nil:
			return err
		case n == 0: // the rest was deleted, or the server is too slow
			newest, err := natsx.NewestMessage(ctx, s.js, c.Name, cmp.Or(filter, ">"))
			if err == nil && newest != nil && newest.Sequence > seq {
				err = fmt.Errorf("the server has delivered no message behind %d within %v", seq, natsx.PullExpiry)
			}
			return err
		default:
			pending -= min(pending, uint64(n))
		}
	}
	return nil
}

// openReader creates a consumer that reads the headers of a stream's messages from a sequence on. With a name, a
// repeated request creates the same consumer.
func (s *sink) openReader(ctx context.Context, stream string, first uint64, filter string) (*natsx.Reader, error) {
	c := jetstream.ConsumerConfig{Name: strings.TrimPrefix(nats.NewInbox(), nats.InboxPrefix), FilterSubject: filter,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first, AckPolicy: jetstream.AckNonePolicy,
		HeadersOnly: true, MemoryStorage: true, InactiveThreshold: time.Minute}
	consumer, err := natsx.Hedge(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return natsx.CreateConsumer(ctx, s.js, stream, c)
	})
	if err != nil {
		return nil, err
	}
	return natsx.NewReader(s.js, consumer), nil
}

// sourceSeq returns the sequence of the input that an Embedd-Source header names, if it is of this stream.
func sourceSeq(header, stream string) (seq uint64, ok bool) {
	name, number, ok := strings.Cut(header, ":")
	if !ok || name != stream {
		return 0, false
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, err == nil
}
