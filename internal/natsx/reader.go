package natsx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Error codes of consumers that a stream does not take; nats.go has no names for them.
const (
	errCodeInactiveThreshold jetstream.ErrorCode = 10153
	ErrCodeMaxAckPending     jetstream.ErrorCode = 10121
	ErrCodeMaxConsumers      jetstream.ErrorCode = 10026
	ErrCodeNotUnique         jetstream.ErrorCode = 10100 // another consumer of a work queue reads the same messages
)

// HasErrorCode reports whether an error is one of the JetStream API with a code.
func HasErrorCode(err error, code jetstream.ErrorCode) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == code
}

// CreateConsumer creates a consumer, with a shorter InactiveThreshold where the stream limits it.
func CreateConsumer(ctx context.Context, js jetstream.JetStream, stream string, c jetstream.ConsumerConfig) (
	jetstream.Consumer, error) {
	created, err := js.CreateConsumer(ctx, stream, c)
	if !HasErrorCode(err, errCodeInactiveThreshold) {
		return created, err
	}
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	c.InactiveThreshold = s.CachedInfo().Config.ConsumerLimits.InactiveThreshold
	return js.CreateConsumer(ctx, stream, c)
}

// Reader reads messages of a stream in order and acknowledges none: with a consumer or, where the server allows no
// further one, with a request for each message. One goroutine uses it.
type Reader struct {
	js        jetstream.JetStream
	stream    string
	consumer  jetstream.Consumer // nil: none is allowed
	delivered uint64             // consumer sequence of the newest message
	pending   uint64             // messages that were not delivered yet, as of the newest

	// Without a consumer:
	source  jetstream.Stream
	filters []string
	ahead   []*jetstream.RawStreamMsg // the next message of each filter; nil: none is stored
	next    uint64                    // sequence number from which messages are requested
	last    uint64                    // of the stream, as far as is known
}

// NewReader returns the reader of a consumer that has delivered nothing yet and needs no acknowledgements.
func NewReader(js jetstream.JetStream, c jetstream.Consumer) *Reader {
	info := c.CachedInfo()
	return &Reader{js: js, stream: info.Stream, consumer: c, pending: info.NumPending}
}

// OpenReader creates a consumer that begins at a sequence number or at a time, or does without it.
func OpenReader(ctx context.Context, js jetstream.JetStream, stream string, c jetstream.ConsumerConfig) (*Reader,
	error) {
	consumer, err := CreateConsumer(ctx, js, stream, c)
	if err == nil {
		return NewReader(js, consumer), nil
	}
	if !HasErrorCode(err, ErrCodeMaxConsumers) {
		return nil, err
	}
	r := &Reader{js: js, stream: stream}
	if r.source, err = js.Stream(ctx, stream); err != nil {
		return nil, err
	}
	state := r.source.CachedInfo().State
	r.filters, r.next, r.last = c.FilterSubjects, max(state.FirstSeq, 1), state.LastSeq
	if len(r.filters) == 0 {
		r.filters = []string{c.FilterSubject}
	}
	if c.DeliverPolicy == jetstream.DeliverByStartTimePolicy {
		if r.next, err = r.after(ctx, *c.OptStartTime, state); err != nil {
			return nil, err
		}
	}
	r.next = max(r.next, c.OptStartSeq)
	r.ahead = make([]*jetstream.RawStreamMsg, len(r.filters))
	err = r.lookAhead(ctx)
	r.pending = r.countAhead()
	return r, err
}

// HasConsumer reports whether it reads with a consumer.
func (r *Reader) HasConsumer() bool { return r.consumer != nil }

// Pending is the number of messages to read, as of the newest that was read; without a consumer, an upper bound.
func (r *Reader) Pending() uint64 { return r.pending }

// Start is the sequence number of the message with which it begins, or one before it.
func (r *Reader) Start() uint64 {
	if r.consumer != nil {
		return r.consumer.CachedInfo().Delivered.Stream + 1
	}
	return r.next
}

// Fetch is PullLimit.Fetch. The messages have their metadata. A message that was lost in transit ends the reader: the
// error is ErrGap, and handle is not called with those behind it.
func (r *Reader) Fetch(ctx context.Context, limit *PullLimit, maxMessages int, maxBytes int64,
	handle func(*Message)) (n int, err error) {
	if r.consumer == nil {
		return r.fetchEach(ctx, maxMessages, maxBytes, handle)
	}
	hasGap := false
	n, err = limit.Fetch(ctx, r.js, r.consumer, maxMessages, maxBytes, func(m *Message) {
		meta, err := m.Metadata()
		if hasGap = hasGap || err != nil || meta.Sequence.Consumer != r.delivered+1; hasGap {
			return
		}
		m.meta, r.delivered, r.pending = meta, meta.Sequence.Consumer, meta.NumPending
		handle(m)
	})
	if err == nil && hasGap {
		err = ErrGap
	}
	return n, err
}

// fetchEach is Fetch without a consumer.
func (r *Reader) fetchEach(ctx context.Context, maxMessages int, maxBytes int64, handle func(*Message)) (n int,
	err error) {
	for end, delay := time.Now().Add(fetchWait), ensureDelay; ; delay = min(2*delay, time.Second) {
		if err := r.lookAhead(ctx); err != nil {
			return 0, err
		}
		if r.first() >= 0 {
			break
		}
		if time.Now().After(end) || !Sleep(ctx, delay) {
			return 0, ctx.Err()
		}
	}
	for bytes := int64(0); n < maxMessages && bytes < maxBytes; n++ {
		at := r.first()
		if at < 0 {
			break
		}
		raw := r.ahead[at]
		r.next, r.ahead[at] = raw.Sequence+1, nil
		if err := r.lookAhead(ctx); err != nil {
			r.next, r.ahead[at] = raw.Sequence, raw
			return n, err
		}
		bytes += int64(len(raw.Data))
		r.delivered++
		r.pending = r.countAhead()
		handle(&Message{msg: &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}, nc: r.js.Conn(),
			meta: &nats.MsgMetadata{Stream: r.stream, Timestamp: raw.Time, NumDelivered: 1, NumPending: r.pending,
				Sequence: nats.SequencePair{Consumer: r.delivered, Stream: raw.Sequence}}})
	}
	return n, nil
}

// Close deletes the consumer, also when ctx is done. If that fails it expires.
func (r *Reader) Close(ctx context.Context) {
	if r.consumer == nil {
		return
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	_ = r.js.DeleteConsumer(clean, r.stream, r.consumer.CachedInfo().Name)
}

// closeWait is how long the deletion of a consumer may take.
const closeWait = 2 * time.Second

// lookAhead requests the next message of each filter that has none ahead.
func (r *Reader) lookAhead(ctx context.Context) error {
	for i, filter := range r.filters {
		if r.ahead[i] != nil {
			continue
		}
		raw, err := r.get(ctx, r.next, filter)
		if err != nil {
			return err
		}
		if r.ahead[i] = raw; raw != nil {
			r.last = max(r.last, raw.Sequence)
		}
	}
	return nil
}

// get returns the first message of a subject from a sequence number on, nil if there is none.
func (r *Reader) get(ctx context.Context, seq uint64, subject string) (*jetstream.RawStreamMsg, error) {
	raw, err := r.source.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(cmp.Or(subject, ">")))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("requesting a message of stream %s, which allows no further consumer: %w", r.stream, err)
	}
	return raw, nil
}

// first is the filter whose message ahead is the next of the stream, -1 if there is none.
func (r *Reader) first() int {
	at := -1
	for i, raw := range r.ahead {
		if raw != nil && (at < 0 || raw.Sequence < r.ahead[at].Sequence) {
			at = i
		}
	}
	return at
}

// countAhead is an upper bound of the messages from the next one on.
func (r *Reader) countAhead() uint64 {
	at := r.first()
	if at < 0 {
		return 0
	}
	return max(r.last, r.ahead[at].Sequence) - r.ahead[at].Sequence + 1
}

// after is the sequence number from which messages were stored at a time or later.
func (r *Reader) after(ctx context.Context, t time.Time, state jetstream.StreamState) (uint64, error) {
	var failed error
	first := max(state.FirstSeq, 1)
	n := sort.Search(int(state.LastSeq+1-min(first, state.LastSeq+1)), func(i int) bool {
		raw, err := r.get(ctx, first+uint64(i), "")
		if err != nil {
			failed = err
		}
		return raw == nil || !raw.Time.Before(t)
	})
	return first + uint64(n), failed
}
