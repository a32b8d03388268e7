package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
)

// labels is the reader of the labels that come apart from their rows.
type labels struct {
	stream  string    // "" on core NATS
	created time.Time // of the stream; the reader's own
	from    time.Time // server time from which labels are read again after a restart; zero: from the first
	letters *tail     // of the dead letters
	owed    []debt    // dead letters that were not taken, oldest first; the reader's own

	pace pace

	mu      sync.Mutex
	counted plugin.LabelStatus // as the metrics have it
}

// bindLabels finds the stream of the labels.
func (p *pipeline) bindLabels(ctx context.Context) error {
	name, err := p.JS.StreamNameBySubject(ctx, p.Labels)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return needs.Missing(needs.StreamName(p.Labels), p.Labels)
	}
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	s, err := p.JS.Stream(ctx, name)
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	if r := s.CachedInfo().Config.Retention; r != jetstream.LimitsPolicy {
		return fmt.Errorf("stream %s, which takes labels on %s, has retention %v: after a restart labels are read again, so it needs limits; send labels to a stream of their own",
			name, p.Labels, r)
	}
	p.labels.stream = name
	p.labels.pace.rows.moved, p.labels.pace.labels.moved = time.Now(), time.Now()
	p.labels.letters = newTail(p.JS, p.Log, p.AckPending)
	p.labels.letters.window = p.tail.window
	return nil
}

// labelsFrom says from when labels are read again: as long before the first row that is read again as a label may
// come before its row.
func (p *pipeline) labelsFrom(ctx context.Context) error {
	if p.learnFirst == 0 {
		return nil
	}
	first, err := p.Input.GetMsg(ctx, p.learnFirst)
	at := p.Input.CachedInfo().State.FirstTime // the rows before it are gone
	if err == nil {
		at = first.Time
	} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("reading message %d of stream %s: %w", p.learnFirst, p.Stream, err)
	}
	p.labels.from = at.Add(-p.Running.LabelLimits().Wait)
	return nil
}

// learnLabels reads labels, in order and without acknowledging, as learn reads rows.
func (p *pipeline) learnLabels(ctx context.Context) {
	var next uint64 // 0: from the beginning of what is needed
	for attempt := 0; ctx.Err() == nil; attempt++ {
		read, err := p.learnLabelsOn(ctx, &next)
		if ctx.Err() != nil {
			return
		}
		if read > 0 {
			attempt = 0
		}
		p.Log.Debug("the reader of labels begins anew", "stream", p.labels.stream, "from", next, "error", err)
		if attempt == maxLabelAttempts {
			p.Log.Warn("labels cannot be read; trying again, and rows are read on meanwhile", "stream", p.labels.stream,
				"error", err)
			p.labels.pace.labelsAt(time.Time{}, true)
		}
		if !natsx.Backoff(ctx, attempt) {
			return
		}
	}
}

// maxLabelAttempts is how often in a row the labels cannot be read before rows no longer wait for them: three seconds.
const maxLabelAttempts = 5

// learnLabelsOn reads until something fails; next is the sequence number to go on from.
func (p *pipeline) learnLabelsOn(ctx context.Context, next *uint64) (read int, err error) {
	s, err := p.JS.Stream(ctx, p.labels.stream)
	if err != nil {
		return 0, err
	}
	info := s.CachedInfo()
	if !p.labels.created.Equal(info.Created) {
		if !p.labels.created.IsZero() {
			p.Log.Warn("the stream of labels was made anew; it is read from its first message", "stream",
				p.labels.stream, "created", info.Created)
			*next = 1
		}
		p.labels.created = info.Created
	}
	config := jetstream.ConsumerConfig{
		Description:   needs.ConsumerDescription + p.Name + ", labels",
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(*next, 1),
		AckPolicy: jetstream.AckNonePolicy, FilterSubject: p.Labels, MemoryStorage: true,
		InactiveThreshold: 5 * time.Minute,
	}
	if *next == 0 && !p.labels.from.IsZero() {
		config.DeliverPolicy, config.OptStartSeq, config.OptStartTime = jetstream.DeliverByStartTimePolicy, 0,
			&p.labels.from
	}
	c, err := s.CreateConsumer(ctx, config)
	if err != nil {
		return 0, err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = s.DeleteConsumer(clean, c.CachedInfo().Name) // it ends by itself too
	}()
	p.labels.pace.labelsAt(time.Time{}, c.CachedInfo().NumPending == 0)
	delivered, gap := uint64(0), false
	for !gap {
		p.payLetters(ctx)
		rows := p.labels.pace.rowsTime()
		n, err := natsx.Fetch(ctx, p.JS, c, natsx.MaxFetchMessages, natsx.MaxFetchBytes, func(msg *natsx.Message) {
			meta, err := msg.Metadata()
			if err != nil || gap {
				return
			}
			// Nothing is acknowledged here, so a message that was lost on the way shows as a gap in the deliveries.
			if delivered++; meta.Sequence.Consumer != delivered {
				gap = true
				return
			}
			in := &input{Message: scope.Message{Subject: msg.Subject(), Header: msg.Headers(), Data: msg.Data(),
				Time: meta.Timestamp, Delivered: 1, Origin: wire.Origin{Stream: p.labels.stream, Created: p.labels.created,
					Seq: meta.Sequence.Stream}}}
			p.awaitRows(ctx, in.Time)
			p.awaitBacklog(ctx, 0)
			if ctx.Err() != nil {
				gap = true
				return
			}
			p.learnFromLabels(ctx, in)
			p.labels.pace.labelsAt(in.Time, meta.NumPending == 0)
			*next = in.Origin.Seq + 1
			read++
		})
		if err != nil {
			return read, err
		}
		if n == 0 {
			// Whatever was stored before this pull began would have come.
			p.labels.pace.labelsAt(rows, true)
			p.Running.LabelsReached(rows)
			p.countLabels()
		}
	}
	return read, nil
}

// learnLabelsCore reads labels without a stream: those that come while nobody listens are lost.
func (p *pipeline) learnLabelsCore(ctx context.Context) (*nats.Subscription, error) {
	return p.Conn.Subscribe(p.Labels, func(msg *nats.Msg) {
		p.learnFromLabels(ctx, &input{Message: scope.ReceivedCore(msg)})
	})
}

// learnFromLabels learns from one message of labels. One that cannot be read becomes a dead letter.
func (p *pipeline) learnFromLabels(ctx context.Context, in *input) {
	m, err := p.Running.DecodeLabels(in.Data)
	if err != nil {
		p.deadLabels(ctx, in, err)
		return
	}
	at := plugin.Position{Created: in.Origin.Created, Seq: in.Origin.Seq, Time: in.Time}
	if err := p.Running.LearnLabels(m, at); err != nil {
		p.told.unlearned.Warn(p.Log, "labels could not be learned from", "source", in.Origin.Source(), "error", err)
	}
	p.Series.Add(health.LabelMessages, 1, "learned")
	p.countLabels()
}

// debt is a message of labels whose dead letter was not taken.
type debt struct {
	in    *input
	cause error
}

// maxOwed and maxOwedBytes bound the messages of labels that are kept until their dead letters are taken (Invariant 5).
const (
	maxOwed      = 1024
	maxOwedBytes = 8 << 20
)

// owe keeps a message until its dead letter is taken; false where there are too many.
func (l *labels) owe(d debt) bool {
	bytes := len(d.in.Data)
	for _, other := range l.owed {
		bytes += len(other.in.Data)
	}
	if len(l.owed) == maxOwed || bytes > maxOwedBytes {
		return false
	}
	l.owed = append(l.owed, d)
	return true
}

// payLetters sends the dead letters again that were not taken, as long as they are now.
func (p *pipeline) payLetters(ctx context.Context) {
	for l := &p.labels; len(l.owed) > 0 && ctx.Err() == nil; l.owed = l.owed[1:] {
		if p.sendLetter(ctx, l.owed[0].in, l.owed[0].cause) != nil {
			return
		}
	}
}

// deadLabels sends a message of labels that cannot be read to the dead letters. Where they are not taken labels are read
// on all the same, and it is sent again later.
func (p *pipeline) deadLabels(ctx context.Context, in *input, cause error) {
	p.Series.Add(health.LabelMessages, 1, "dead")
	if p.labels.stream == "" {
		p.sendCore(p.deadMessage(&answer{in: in}, cause))
		return
	}
	err := p.sendLetter(ctx, in, cause)
	switch {
	case err == nil || ctx.Err() != nil:
	case p.labels.owe(debt{in, cause}):
		p.told.owed.Warn(p.Log, "a dead letter of labels is not taken; it is sent again", "source", in.Origin.Source(), "error",
			err)
	default:
		p.told.owed.Warn(p.Log, "a dead letter of labels is not taken, and too many wait; the message stays in its stream, and is read again after a restart",
			"source", in.Origin.Source(), "error", err)
	}
}

// sendLetter sends the dead letter of a message of labels.
func (p *pipeline) sendLetter(ctx context.Context, in *input, cause error) error {
	a := p.deadMessage(&answer{in: in}, cause)
	// A process before this one may have sent it: after a restart labels are read again.
	p.labels.letters.markStored(ctx, a, true)
	u, err := newPublisher(p.Conn, p.Models.Hub)
	if err != nil {
		return err
	}
	defer u.close()
	a, err = newConfirmer(p, u).deliver(ctx, a)
	if err == nil {
		p.noteLetters(a)
	}
	return err
}

// countLabels brings the metrics up to the join's own counts.
func (p *pipeline) countLabels() {
	p.labels.mu.Lock()
	defer p.labels.mu.Unlock()
	s := p.Running.LabelStatus()
	p.countJoined(p.labels.counted, s)
	p.labels.counted = s
}
