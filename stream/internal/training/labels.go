package training

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
)

// labelReader reads the labels that arrive separately from their rows.
type labelReader struct {
	*Path
	stream  string    // "" on core NATS
	created time.Time // of the stream; used by the reader alone
	from    time.Time // server time from which labels are read again after a restart; zero: from the first
	next    uint64    // sequence number to read next; 0: of the first label that is needed
	pending pendingLetters

	sync synchronizer

	unlearnedLabelsLog, lettersLog ratelog.Limiter
}

// BindLabels finds the stream of the labels. It is called before the stage exists.
func (p *Path) BindLabels(ctx context.Context) error {
	name, err := p.JS.StreamNameBySubject(ctx, p.Labels)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return needs.MissingOf(ctx, p.JS, &p.Pipeline, p.Labels)
	}
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	s, err := p.JS.Stream(ctx, name)
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	if r := s.CachedInfo().Config.Retention; r != jetstream.LimitsPolicy {
		return fmt.Errorf("stream %s, which takes labels on %s, has retention %v: after a restart labels are read "+
			"again, so it needs limits retention; send labels to a separate stream", name, p.Labels, r)
	}
	p.labels.stream = name
	p.labels.sync.rows.movedAt, p.labels.sync.labels.movedAt = time.Now(), time.Now()
	return nil
}

// ResumeLabels finds the time from which labels are read again after a restart. It is before the first row that is read
// again, by as much as a label may arrive before its row.
func (p *Path) ResumeLabels(ctx context.Context) error {
	if p.ReadFrom == 0 {
		return nil
	}
	first, err := p.Input.GetMsg(ctx, p.ReadFrom)
	at := p.Input.CachedInfo().State.FirstTime // of the oldest row, if that one has left the stream
	if err == nil {
		at = first.Time
	} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("reading message %d of stream %s: %w", p.ReadFrom, p.Stream, err)
	}
	p.labels.from = at.Add(-p.Running.LabelLimits().Wait)
	return nil
}

// RunLabels reads labels until ctx is done, in order and without acknowledging.
func (p *Path) RunLabels(ctx context.Context) {
	l := p.labels
	for attempt := 0; ctx.Err() == nil; attempt++ {
		read, err := l.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if read > 0 {
			attempt = 0
		}
		l.Log.Debug("labels are read again", "stream", l.stream, "from", l.next, "error", err)
		if attempt == maxLabelAttempts {
			l.Log.Warn("labels cannot be read; trying again, and rows are still read", "stream", l.stream,
				"error", err)
			l.sync.moveLabels(time.Time{}, true)
		}
		if !natsx.Backoff(ctx, attempt) {
			return
		}
	}
}

// maxLabelAttempts is how many consecutive reads of labels fail before rows no longer wait for them: three seconds.
const maxLabelAttempts = 5

// read reads until something fails.
func (l *labelReader) read(ctx context.Context) (read int, err error) {
	c, err := l.open(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	l.sync.moveLabels(time.Time{}, c.Pending() == 0)
	for ctx.Err() == nil {
		l.sendPending(ctx)
		rows := l.sync.rowsTime()
		n, err := c.Fetch(ctx, l.Pulls, natsx.MaxFetchMessages, natsx.MaxFetchBytes, func(msg *natsx.Message) {
			meta, err := msg.Metadata()
			if err != nil || ctx.Err() != nil {
				return
			}
			m := &scope.Message{Subject: msg.Subject(), Header: msg.Headers(), Data: msg.Data(),
				Time: meta.Timestamp, Delivered: 1, Origin: wire.Origin{Stream: l.stream, Created: l.created,
					Seq: meta.Sequence.Stream}}
			l.awaitRows(ctx, m.Time)
			l.awaitBacklog(ctx, 0)
			if ctx.Err() != nil {
				return
			}
			l.learn(ctx, m)
			l.sync.moveLabels(m.Time, meta.NumPending == 0)
			l.next = m.Origin.Seq + 1
			read++
		})
		if err != nil {
			return read, err
		}
		if n == 0 {
			// All labels that were stored before this pull began have arrived.
			l.sync.moveLabels(rows, true)
			l.Running.LabelsReached(rows)
		}
	}
	return read, ctx.Err()
}

// open creates the consumer of the labels. It moves next to the first message when the stream was recreated.
func (l *labelReader) open(ctx context.Context) (*natsx.Reader, error) {
	s, err := l.JS.Stream(ctx, l.stream)
	if err != nil {
		return nil, err
	}
	if created := s.CachedInfo().Created; !l.created.Equal(created) {
		if !l.created.IsZero() {
			l.Log.Warn("the stream of labels was recreated; it is read from its first message", "stream", l.stream,
				"created", created)
			l.next = 1
		}
		l.created = created
	}
	config := jetstream.ConsumerConfig{FilterSubject: l.Labels, DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: max(l.next, 1)}
	if l.next == 0 && !l.from.IsZero() {
		config.DeliverPolicy, config.OptStartSeq, config.OptStartTime = jetstream.DeliverByStartTimePolicy, 0, &l.from
	}
	return l.openCursorOf(ctx, l.stream, "labels", config)
}

// SubscribeLabels reads labels on core NATS: those that are published while there is no subscription are lost. The
// client drops what exceeds a quarter of InFlight, as the feed does, or one message of the server's maximum payload.
func (p *Path) SubscribeLabels(ctx context.Context) (*nats.Subscription, error) {
	sub, err := p.Conn.Subscribe(p.Labels, func(msg *nats.Msg) {
		m := scope.ReceivedCore(msg)
		p.labels.learn(ctx, &m)
	})
	if err != nil {
		return nil, err
	}
	bytes := max(p.InFlight/4, p.Conn.MaxPayload())
	return sub, sub.SetPendingLimits(int(bytes/pendingOverhead), int(bytes))
}

// pendingOverhead is what a message that waits in the client takes in memory in addition to its data and headers.
const pendingOverhead = 256

// learn learns one message of labels. One that cannot be read becomes a dead letter.
func (l *labelReader) learn(ctx context.Context, received *scope.Message) {
	m, err := l.Running.DecodeLabels(received.Data)
	if err != nil && received.IsDeleteMarker() {
		return
	}
	if err != nil {
		l.sendLetter(ctx, received, err)
		return
	}
	at := plugin.Position{Created: received.Origin.Created, Seq: received.Origin.Seq, Time: received.Time}
	if hasLabel(m) {
		l.labelled.end(l.Path)
	}
	if err := l.Running.LearnLabels(m, at); err != nil {
		l.unlearnedLabelsLog.Warn(l.Log, "labels could not be learned", "source", received.Origin.Source(), "error", err)
	}
	l.Series.Add(health.LabelMessages, 1, "learned")
}

// sendLetter sends the dead letter of a message of labels that cannot be read. If the server does not store it, it is
// sent again later, and reading continues.
func (l *labelReader) sendLetter(ctx context.Context, m *scope.Message, cause error) {
	l.Series.Add(health.LabelMessages, 1, "dead")
	err := l.hooks.SendLabelLetter(ctx, m, cause)
	switch {
	case err == nil || ctx.Err() != nil:
	case l.pending.add(pendingLetter{m, cause}):
		l.lettersLog.Warn(l.Log, "a dead letter of labels cannot be stored; it is sent again", "source",
			m.Origin.Source(), "error", err)
	default:
		l.lettersLog.Warn(l.Log, "a dead letter of labels cannot be stored, and too many wait; the message stays in "+
			"its stream, and is read again after a restart", "source", m.Origin.Source(), "error", err)
	}
}

// sendPending sends the pending dead letters again, until the server does not store one.
func (l *labelReader) sendPending(ctx context.Context) {
	for len(l.pending) > 0 && ctx.Err() == nil {
		if l.hooks.SendLabelLetter(ctx, l.pending[0].message, l.pending[0].cause) != nil {
			return
		}
		l.pending = l.pending[1:]
	}
}

// pendingLetter is a message of labels whose dead letter is not stored yet.
type pendingLetter struct {
	message *scope.Message
	cause   error
}

// pendingLetters are the dead letters to send again, oldest first.
type pendingLetters []pendingLetter

// maxPending and maxPendingBytes bound the messages whose dead letters are pending (Invariant 5).
const (
	maxPending      = 1024
	maxPendingBytes = 8 << 20
)

// add keeps a message, and returns false when there are too many.
func (p *pendingLetters) add(letter pendingLetter) bool {
	bytes := letter.message.Size()
	for _, other := range *p {
		bytes += other.message.Size()
	}
	if len(*p) == maxPending || bytes > maxPendingBytes {
		return false
	}
	*p = append(*p, letter)
	return true
}
