// Package dlq reads the dead letters of a stream ([DeadLetters.Read]) and replays them ([Replays.Do]). Its functions
// are safe for concurrent use.
package dlq

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

// DeadLetter is a dead letter of a stream, assembled from its parts.
type DeadLetter struct {
	Stream  string // that holds it
	Number  uint64 // sequence number of its first message there
	Subject string // to which it was published
	Time    time.Time
	Header  nats.Header // of its first part
	Body    []byte      // nil unless DeadLetters.Bodies requested it
	Bytes   int         // of the body
	Parts   int         // that exist
	Of      int         // that were published

	created time.Time // of the stream
	numbers []uint64  // sequence numbers of the parts
}

// DeadLetters selects dead letters.
type DeadLetters struct {
	Subject      string    // to which they were published; wildcards as in NATS
	Pipeline     string    // of this one, or of an earlier embedd, which did not name it; "": of any
	Codes        []string  // with one of these codes; none: any
	Since, Until time.Time // stored between these times; zero: no bound
	Bodies       bool      // read the bodies too
	Within       uint64    // only among the newest messages of each stream, so many; 0: all
}

// maxIncomplete bounds the incomplete dead letters that are kept while a stream is read.
const maxIncomplete = 64

// maxDistance is how far behind the first part of a dead letter Find looks for the others. Parts are published one
// after another; after a crash between two, the rest comes with the redelivery of the input.
const maxDistance = 50_000

// ErrNoDeadLetter is returned by Find where a sequence number has no dead letter.
var ErrNoDeadLetter = errors.New("there is no such dead letter")

// Read passes the dead letters that the streams have now to handle, in the order in which they became complete, and the
// incomplete ones last. It ends with the first error of handle.
func (d DeadLetters) Read(ctx context.Context, js jetstream.JetStream, handle func(*DeadLetter) error) error {
	streams, err := d.streams(ctx, js)
	if err != nil {
		return err
	}
	for _, s := range streams {
		config := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
		switch last := s.CachedInfo().State.LastSeq; {
		case d.Within > 0 && last > d.Within:
			config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, last-d.Within+1
		case !d.Since.IsZero():
			config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &d.Since
		}
		parts := &assembler{handle: func(l *DeadLetter) error {
			if len(d.Codes) > 0 && !slices.Contains(d.Codes, l.Header.Get(wire.HeaderCode)) {
				return nil
			}
			return handle(l)
		}}
		err := d.read(ctx, js, s, config, parts.add)
		if errors.Is(err, errDone) {
			err = nil
		}
		if err == nil {
			err = parts.flush()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Find reads the dead letter whose first part has a sequence number. One whose other parts are not among the next
// 50,000 messages is incomplete.
func (d DeadLetters) Find(ctx context.Context, js jetstream.JetStream, number uint64) (found *DeadLetter, err error) {
	streams, err := d.streams(ctx, js)
	if err != nil {
		return nil, err
	}
	if len(streams) > 1 {
		return nil, fmt.Errorf("the streams %s and %s have dead letters on %s, each with its own sequence numbers: name "+
			"the subject of one", streams[0].CachedInfo().Config.Name, streams[1].CachedInfo().Config.Name, d.Subject)
	}
	name, last := streams[0].CachedInfo().Config.Name, number+maxDistance
	if d.Bodies { // where the parts are, before any body is read
		where := d
		where.Bodies = false
		l, err := where.find(ctx, js, streams[0], number, last)
		if err != nil {
			return nil, err
		}
		if l != nil {
			last = slices.Max(l.numbers)
		}
	}
	found, err = d.find(ctx, js, streams[0], number, last)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("%w: stream %s has none on %s with sequence number %d; `embedd dlq ls` lists them",
			ErrNoDeadLetter, name, d.Subject, number)
	}
	return found, nil
}

// find reads the dead letter whose first part has a sequence number, and whose parts come up to another one.
func (d DeadLetters) find(ctx context.Context, js jetstream.JetStream, s jetstream.Stream, number, last uint64) (
	found *DeadLetter, err error) {
	first := true
	parts := &assembler{handle: func(l *DeadLetter) error { found = l; return errDone }}
	err = d.read(ctx, js, s, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: max(number, 1)}, func(l *DeadLetter, part int) error {
		switch {
		case first && l.Number != number, l.Number > last:
			return errDone
		case !first && parts.letters[l.Header.Get(wire.HeaderLetter)] == nil:
			return nil // another one
		}
		first = false
		return parts.add(l, part)
	})
	if err == nil || errors.Is(err, errDone) {
		err = parts.flush()
	}
	if errors.Is(err, errDone) {
		err = nil
	}
	return found, err
}

// errDone ends a read that has found what it needs.
var errDone = errors.New("done")

// streams returns the streams with dead letters, by name.
func (d DeadLetters) streams(ctx context.Context, js jetstream.JetStream) (out []jetstream.Stream, err error) {
	if d.Subject == "" {
		return nil, errors.New("the subject of the dead letters is missing; set DeadLetters.Subject")
	}
	if out, err = natsx.StreamsOf(ctx, js, d.Subject); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no stream has dead letters on %s: name their subject, output.dead, by --subject (%w)",
			d.Subject, jetstream.ErrStreamNotFound)
	}
	slices.SortFunc(out, func(a, b jetstream.Stream) int {
		return cmp.Compare(a.CachedInfo().Config.Name, b.CachedInfo().Config.Name)
	})
	return out, nil
}

// read passes the messages that a stream has now to handle, each as a dead letter of one part.
func (d DeadLetters) read(ctx context.Context, js jetstream.JetStream, s jetstream.Stream, c jetstream.ConsumerConfig,
	handle func(*DeadLetter, int) error) error {
	stream := s.CachedInfo()
	c.Description, c.FilterSubject, c.HeadersOnly = "embedd dlq", natsx.StoredFilter(&stream.Config, d.Subject), !d.Bodies
	r, err := natsx.OpenNamedReader(ctx, js, stream.Config.Name, c)
	if err != nil {
		return fmt.Errorf("reading stream %s: %w", stream.Config.Name, err)
	}
	defer r.Close(ctx)
	most := uint64(natsx.MaxFetchMessages)
	if d.Bodies {
		most /= 16 // handle may be slow; the consumer must not expire meanwhile
	}
	for left := r.Pending(); left > 0; {
		var failed error
		n, err := r.Fetch(ctx, nil, int(min(left, most)), natsx.MaxFetchBytes, func(msg *natsx.Message) {
			if meta, err := msg.Metadata(); err == nil {
				c.DeliverPolicy, c.OptStartSeq, c.OptStartTime = jetstream.DeliverByStartSequencePolicy,
					meta.Sequence.Stream+1, nil
			}
			if failed == nil {
				failed = d.readPart(stream, msg, handle)
			}
		})
		if failed != nil {
			return failed
		}
		if err != nil {
			return fmt.Errorf("reading stream %s: %w", stream.Config.Name, err)
		}
		if n == 0 { // the rest was deleted, or the server is too slow
			rest, err := natsx.OpenNamedReader(ctx, js, stream.Config.Name, c)
			if err == nil {
				defer rest.Close(ctx)
				if left = rest.Pending(); left > 0 {
					err = fmt.Errorf("the server has delivered none of %d messages within %v; try again", left, natsx.PullExpiry)
				}
			}
			if err != nil {
				return fmt.Errorf("reading stream %s: %w", stream.Config.Name, err)
			}
			break
		}
		left -= min(left, uint64(n))
	}
	return nil
}

// readPart passes a message to handle if it is a dead letter, or a part of one.
func (d DeadLetters) readPart(stream *jetstream.StreamInfo, msg *natsx.Message,
	handle func(*DeadLetter, int) error) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	if !d.Until.IsZero() && meta.Timestamp.After(d.Until) {
		return errDone
	}
	part, parts, ok := wire.ParsePart(msg.Headers().Get(wire.HeaderPart))
	if !ok || msg.Headers().Get(wire.HeaderCode) == "" {
		return nil // not a dead letter
	}
	if of := msg.Headers().Get(wire.HeaderPipeline); d.Pipeline != "" && of != "" && of != d.Pipeline {
		return nil
	}
	l := &DeadLetter{Stream: stream.Config.Name, Number: meta.Sequence.Stream, Subject: msg.Subject(),
		Time: meta.Timestamp, Header: msg.Headers(), Bytes: len(msg.Data()), Parts: 1, Of: parts,
		created: stream.Created, numbers: []uint64{meta.Sequence.Stream}}
	if d.Bodies {
		l.Body = msg.Data()
	} else {
		l.Bytes, _ = strconv.Atoi(msg.Headers().Get(nats.MsgSize))
	}
	return handle(l, part)
}

// assembler puts the parts of dead letters together. They arrive in any order, and more than once.
type assembler struct {
	handle  func(*DeadLetter) error
	letters map[string]map[int]*DeadLetter // the parts of each incomplete one
	order   []string                       // by their first parts
}

func (a *assembler) add(l *DeadLetter, part int) error {
	if l.Of == 1 {
		return a.handle(l)
	}
	id := l.Header.Get(wire.HeaderLetter)
	parts := a.letters[id]
	if parts == nil {
		if len(a.order) == maxIncomplete {
			if err := a.complete(a.order[0]); err != nil {
				return err
			}
		}
		if a.letters == nil {
			a.letters = map[string]map[int]*DeadLetter{}
		}
		parts = map[int]*DeadLetter{}
		a.letters[id] = parts
		a.order = append(a.order, id)
	}
	parts[part] = cmp.Or(parts[part], l)
	if len(parts) == l.Of {
		return a.complete(id)
	}
	return nil
}

// complete passes on a dead letter with the parts that exist.
func (a *assembler) complete(id string) error {
	parts := a.letters[id]
	delete(a.letters, id)
	a.order = slices.DeleteFunc(a.order, func(other string) bool { return other == id })
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
	return a.handle(l)
}

func (a *assembler) flush() error {
	for len(a.order) > 0 {
		if err := a.complete(a.order[0]); err != nil {
			return err
		}
	}
	return nil
}

// IsComplete reports whether all parts exist.
func (l *DeadLetter) IsComplete() bool { return l.Parts == l.Of }

// Original returns the message of a dead letter that was read with its body: its headers, without those of the server
// and of embedd, and its bytes. A dead letter of kind rows has those rows as a message. It is an error if the body was
// not read.
func (l *DeadLetter) Original() (nats.Header, []byte, error) {
	header, body := l.Header, l.Body
	if body == nil && l.Bytes > 0 {
		return nil, nil, fmt.Errorf("the body of %d bytes was not read; read the dead letter with DeadLetters.Bodies",
			l.Bytes)
	}
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

// replay publishes the original message to its subject, or to the given one, under a new identity: with the original
// one it would be a duplicate. The identity is a function of the dead letter and its identity, so within the stream's
// duplicate window it is replayed once. On core NATS there is no ack.
func (l *DeadLetter) replay(ctx context.Context, js jetstream.JetStream, to string) (*jetstream.PubAck, error) {
	msg, err := l.replayMessage(to)
	if err != nil {
		return nil, err
	}
	if l.Header.Get(wire.HeaderSource) == "" {
		if err := js.Conn().PublishMsg(msg); err != nil {
			return nil, err
		}
		return nil, js.Conn().FlushWithContext(ctx)
	}
	secret := wire.NewKey([]byte(l.Header.Get(nats.MsgIdHdr))) // to clients that may not read dead letters
	id := secret.ID(wire.Origin{Stream: l.Stream, Created: l.created, Seq: l.Number}, "", "replay", 0)
	ack, err := js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
	return ack, natsx.ExplainPublishError(err, msg.Subject)
}

// replayMessage is the message that a replay publishes.
func (l *DeadLetter) replayMessage(to string) (msg *nats.Msg, err error) {
	if !l.IsComplete() {
		return nil, fmt.Errorf("%d of %d parts exist; the others were deleted", l.Parts, l.Of)
	}
	msg = nats.NewMsg(cmp.Or(to, l.Header.Get(wire.HeaderSubject)))
	if err := checkReplaySubject(msg.Subject); err != nil {
		return nil, err
	}
	if msg.Header, msg.Data, err = l.Original(); err != nil {
		return nil, err
	}
	for name := range msg.Header {
		if !natsx.CanSendHeader(name) {
			return nil, fmt.Errorf("the message has a header %q, whose name this client cannot send; publish the message "+
				"again with the client that has sent it, and without the header if possible", name)
		}
	}
	return msg, nil
}

// checkReplaySubject rejects subjects that no input can have, because the publisher of a dead letter can name any.
func checkReplaySubject(subject string) error {
	switch {
	case subject == "":
		return errors.New("the dead letter does not name the subject of its message: name it by --to")
	case strings.ContainsAny(subject, "*> \t\r\n"), strings.HasPrefix(subject, "$"), strings.HasPrefix(subject, "_"):
		return fmt.Errorf("subject %q cannot be one of messages", subject)
	}
	return nil
}

// remove deletes the dead letter from its stream.
func (l *DeadLetter) remove(ctx context.Context, js jetstream.JetStream) error {
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
