package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
)

// DeadLetter is a dead letter as a stream holds it, its parts put together.
type DeadLetter struct {
	Stream  string // that holds it
	Number  uint64 // of its first message there
	Subject string // on which it was sent
	Time    time.Time
	Header  nats.Header // of its first part
	Body    []byte      // nil where it was not asked for
	Bytes   int         // of the body
	Parts   int         // that are there
	Of      int         // that were sent

	created time.Time // of the stream
	numbers []uint64  // of the parts
}

// DeadLetters says which dead letters to read.
type DeadLetters struct {
	Subject      string    // on which they were sent; wildcards as in NATS
	Codes        []string  // of these codes; none: of any
	Since, Until time.Time // stored in between; zero: at any time
	Bodies       bool      // read the bodies too
}

// maxOpen is how many letters of which parts are missing are kept while a stream is read.
const maxOpen = 64

// ErrNoLetter is returned where there is no dead letter of a number.
var ErrNoLetter = errors.New("there is no such dead letter")

// Read hands the dead letters that the streams hold now to take, in the order in which they became whole; those of
// which parts are missing come last. It ends with the first error of take.
func (d DeadLetters) Read(ctx context.Context, js jetstream.JetStream, take func(*DeadLetter) error) error {
	streams, err := d.streams(ctx, js)
	if err != nil {
		return err
	}
	for _, s := range streams {
		config := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
		if !d.Since.IsZero() {
			config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &d.Since
		}
		open := &openLetters{take: func(l *DeadLetter) error {
			if len(d.Codes) > 0 && !slices.Contains(d.Codes, l.Header.Get(wire.HeaderCode)) {
				return nil
			}
			return take(l)
		}}
		err := d.read(ctx, js, s, config, open.add)
		if errors.Is(err, errEnough) {
			err = nil
		}
		if err == nil {
			err = open.rest()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Find reads the dead letter whose first part has a number.
func (d DeadLetters) Find(ctx context.Context, js jetstream.JetStream, number uint64) (found *DeadLetter, err error) {
	streams, err := d.streams(ctx, js)
	if err != nil {
		return nil, err
	}
	if len(streams) > 1 {
		return nil, fmt.Errorf("the streams %s and %s have dead letters on %s, and numbers of their own: name the subject of one",
			streams[0].CachedInfo().Config.Name, streams[1].CachedInfo().Config.Name, d.Subject)
	}
	name := streams[0].CachedInfo().Config.Name
	first := true
	open := &openLetters{take: func(l *DeadLetter) error { found = l; return errEnough }}
	err = d.read(ctx, js, streams[0], jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: max(number, 1)}, func(l *DeadLetter, part int) error {
		switch {
		case first && l.Number != number:
			return errEnough
		case !first && open.letters[l.Header.Get(wire.HeaderLetter)] == nil:
			return nil // another one
		}
		first = false
		return open.add(l, part)
	})
	if err == nil {
		err = open.rest()
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("%w: stream %s has none on %s with number %d; `embedd dlq ls` lists them", ErrNoLetter, name,
			d.Subject, number)
	}
	return found, nil
}

// errEnough ends a reading that has what it needs.
var errEnough = errors.New("enough")

// streams are those that hold dead letters.
func (d DeadLetters) streams(ctx context.Context, js jetstream.JetStream) (out []jetstream.Stream, err error) {
	names := js.StreamNames(ctx, jetstream.WithStreamListSubject(d.Subject))
	for name := range names.Name() {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return nil, natsx.ExplainAPIError(err)
		}
		out = append(out, s)
	}
	if err := names.Err(); err != nil {
		return nil, natsx.ExplainAPIError(err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no stream holds dead letters on %s: name their subject, output.dead, by --subject (%w)",
			d.Subject, jetstream.ErrStreamNotFound)
	}
	slices.SortFunc(out, func(a, b jetstream.Stream) int {
		return cmp.Compare(a.CachedInfo().Config.Name, b.CachedInfo().Config.Name)
	})
	return out, nil
}

// read hands what a stream holds now, message by message, to take: each as a letter of one part.
func (d DeadLetters) read(ctx context.Context, js jetstream.JetStream, s jetstream.Stream, c jetstream.ConsumerConfig,
	take func(*DeadLetter, int) error) error {
	stream := s.CachedInfo()
	c.Description, c.FilterSubject, c.HeadersOnly = "embedd dlq", d.Subject, !d.Bodies
	c.AckPolicy, c.MemoryStorage, c.InactiveThreshold = jetstream.AckNonePolicy, true, 10*time.Minute
	consumer, err := s.CreateConsumer(ctx, c)
	if err != nil {
		return fmt.Errorf("reading stream %s: %w", stream.Config.Name, err)
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = s.DeleteConsumer(clean, consumer.CachedInfo().Name) // it ends by itself too
	}()
	most := uint64(natsx.MaxFetchMessages)
	if d.Bodies {
		most /= 16 // somebody works on each; the consumer must not end meanwhile
	}
	for left, number := consumer.CachedInfo().NumPending, uint64(0); left > 0; {
		var failed error
		n, err := natsx.Fetch(ctx, js, consumer, int(min(left, most)), natsx.MaxFetchBytes, func(msg *natsx.Message) {
			meta, err := msg.Metadata()
			switch {
			case failed != nil:
				return
			case err != nil:
				failed = err
				return
			case meta.Sequence.Consumer != number+1:
				failed = natsx.ErrGap
				return
			}
			number = meta.Sequence.Consumer
			if !d.Until.IsZero() && meta.Timestamp.After(d.Until) {
				failed = errEnough
				return
			}
			part, parts, ok := wire.ParsePart(msg.Headers().Get(wire.HeaderPart))
			if !ok || msg.Headers().Get(wire.HeaderCode) == "" {
				return // not one of ours
			}
			l := &DeadLetter{Stream: stream.Config.Name, Number: meta.Sequence.Stream, Subject: msg.Subject(),
				Time: meta.Timestamp, Header: msg.Headers(), Bytes: len(msg.Data()), Parts: 1, Of: parts,
				created: stream.Created, numbers: []uint64{meta.Sequence.Stream}}
			if d.Bodies {
				l.Body = msg.Data()
			} else {
				l.Bytes, _ = strconv.Atoi(msg.Headers().Get(nats.MsgSize))
			}
			failed = take(l, part)
		})
		if failed != nil {
			return failed
		}
		if err != nil {
			return fmt.Errorf("reading stream %s: %w", stream.Config.Name, err)
		}
		if n == 0 {
			break // the rest was deleted meanwhile
		}
		left -= min(left, uint64(n))
	}
	return nil
}

// openLetters puts parts together. They may come in any order, and more than once.
type openLetters struct {
	take    func(*DeadLetter) error
	letters map[string]map[int]*DeadLetter // the parts of each that is not whole yet
	order   []string                       // in which they began
}

func (o *openLetters) add(l *DeadLetter, part int) error {
	if l.Of == 1 {
		return o.take(l)
	}
	id := l.Header.Get(wire.HeaderLetter)
	parts := o.letters[id]
	if parts == nil {
		if len(o.order) == maxOpen {
			if err := o.give(o.order[0]); err != nil {
				return err
			}
		}
		if o.letters == nil {
			o.letters = map[string]map[int]*DeadLetter{}
		}
		parts = map[int]*DeadLetter{}
		o.letters[id] = parts
		o.order = append(o.order, id)
	}
	if parts[part] == nil {
		parts[part] = l
	}
	if len(parts) == l.Of {
		return o.give(id)
	}
	return nil
}

// give hands a letter on with the parts that are there.
func (o *openLetters) give(id string) error {
	parts := o.letters[id]
	delete(o.letters, id)
	o.order = slices.DeleteFunc(o.order, func(other string) bool { return other == id })
	var l *DeadLetter
	for _, i := range slices.Sorted(maps.Keys(parts)) {
		part := parts[i]
		if l == nil {
			l = part
			continue
		}
		l.Parts++
		l.Bytes += part.Bytes
		l.Body = append(l.Body, part.Body...)
		l.Number = min(l.Number, part.Number)
		l.numbers = append(l.numbers, part.Number)
	}
	return o.take(l)
}

func (o *openLetters) rest() error {
	for len(o.order) > 0 {
		if err := o.give(o.order[0]); err != nil {
			return err
		}
	}
	return nil
}

// Whole tells whether all parts are there.
func (l *DeadLetter) Whole() bool { return l.Parts == l.Of }

// Original is the message that did not get through, of a letter that was read with its body: the headers, without
// those that are the server's or embedd's, and the bytes; of kind rows, those rows as a message.
func (l *DeadLetter) Original() (nats.Header, []byte, error) {
	header, body := l.Header, l.Body
	if cut := l.Header.Get(wire.HeaderTruncated); cut != "" {
		n, err := strconv.Atoi(cut)
		if err != nil || n < 0 || n > len(body) {
			return nil, nil, fmt.Errorf("%s %q of a body of %d bytes", wire.HeaderTruncated, cut, len(body))
		}
		if header, err = nats.DecodeHeadersMsg(body[:n]); err != nil {
			return nil, nil, fmt.Errorf("the headers in the body: %w", err)
		}
		body = body[n:]
	}
	own := nats.Header{}
	for k, v := range header {
		if !wire.Reserved(k) {
			own[k] = v
		}
	}
	return own, body, nil
}

// Replayed is what a replay did.
type Replayed struct {
	As    string // STREAM:NUMBER of the message it became; "" on core NATS
	Again bool   // it had been sent before: the stream knows the identity, and took no second one
}

// Replay publishes the original message on its subject again, under an identity of its own: that of the first try would
// be taken for a duplicate. It is a function of the letter, so that within the stream's duplicate window a letter is
// replayed once; Remove, afterwards, is for good. Where to is not empty it is the subject instead.
func (l *DeadLetter) Replay(ctx context.Context, js jetstream.JetStream, to string) (r Replayed, err error) {
	if !l.Whole() {
		return r, fmt.Errorf("%d of %d parts are there; the others are gone", l.Parts, l.Of)
	}
	msg := nats.NewMsg(cmp.Or(to, l.Header.Get(wire.HeaderSubject)))
	if err := replayable(msg.Subject); err != nil {
		return r, err
	}
	if msg.Header, msg.Data, err = l.Original(); err != nil {
		return r, err
	}
	if l.Header.Get(wire.HeaderSource) == "" {
		if err := js.Conn().PublishMsg(msg); err != nil {
			return r, err
		}
		return r, js.Conn().FlushWithContext(ctx)
	}
	id := wire.Origin{Stream: l.Stream, Created: l.created, Seq: l.Number}.ID("", "replay", 0)
	ack, err := js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
	if err != nil {
		return r, natsx.ExplainPublishError(err, msg.Subject)
	}
	return Replayed{As: fmt.Sprintf("%s:%d", ack.Stream, ack.Sequence), Again: ack.Duplicate}, nil
}

// replayable refuses subjects that no input has. A letter may have been written by anybody who may publish there.
func replayable(subject string) error {
	switch {
	case subject == "":
		return errors.New("the letter does not say on which subject its message came: name it by --to")
	case strings.ContainsAny(subject, "*> \t\r\n"), strings.HasPrefix(subject, "$"), strings.HasPrefix(subject, "_"):
		return fmt.Errorf("subject %q is not one of messages", subject)
	}
	return nil
}

// Remove deletes the letter from its stream.
func (l *DeadLetter) Remove(ctx context.Context, js jetstream.JetStream) error {
	s, err := js.Stream(ctx, l.Stream)
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	for _, number := range l.numbers {
		if err := s.DeleteMsg(ctx, number); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("deleting message %d of stream %s: %w", number, l.Stream, err)
		}
	}
	return nil
}
