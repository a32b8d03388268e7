package stream

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
)

// binding is what the pipeline knows of its durable consumer: that it is still the one that brought what is held.
//
// An acknowledgement names the stream, the consumer and a number. Where the stream was deleted and made anew, and the
// consumer with it, the same names and numbers mean other messages; so none leaves before it is known that the consumer
// is the one of before. The server says when a consumer goes while a pull waits there. Where none does, it is asked.
type binding struct {
	mu         sync.Mutex
	made       time.Time // the consumer's creation
	pulls      int       // how many were begun
	waiting    bool      // the newest of them is not over
	sure       int       // the newest pull of which it is known that it waits at this consumer
	reconnects uint64    // of the connection, when that was known
	asked      time.Time // when the server was asked last, and it was the one of before
}

// certainty is for how long an answer of the server holds where no pull waits: nobody makes a stream and a consumer,
// fills the one and pulls from the other in that time. Under load it spares a request for each acknowledgement.
const certainty = 2 * time.Millisecond

// bind begins with a consumer.
func (b *binding) bind(c jetstream.Consumer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made = c.CachedInfo().Created
}

// begin and end stand around a pull.
func (b *binding) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pulls++
	b.waiting = true
}

func (b *binding) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = false
}

// isSure tells whether the server would have said so, were the consumer gone.
func (b *binding) isSure(nc *nats.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return (b.waiting && b.sure == b.pulls || time.Since(b.asked) < certainty) && nc.IsConnected() &&
		nc.Stats().Reconnects == b.reconnects
}

// verify asks the server whether the consumer is the one of before.
func (b *binding) verify(ctx context.Context, p *relay, consumer string) (bool, error) {
	b.mu.Lock()
	made, pulls, reconnects, now := b.made, b.pulls, p.Conn.Stats().Reconnects, time.Now()
	b.mu.Unlock()
	c, err := natsx.Hedge(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return p.JS.Consumer(ctx,
			p.Stream, consumer)
	})
	if err != nil || !c.CachedInfo().Created.Equal(made) {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sure, b.reconnects, b.asked = pulls, reconnects, now
	return true, nil
}

// acknowledge acknowledges what is confirmed. Where the input stream was made anew it does not: what is held then is of
// a stream that is gone.
func (c *confirmer) acknowledge(ctx context.Context) {
	if len(c.done) == 0 || c.Input == nil {
		return
	}
	c.sure = c.sure[:0]
	for _, a := range c.done {
		l := a.in.lane
		if slices.Contains(c.sure, l) {
			continue
		}
		if !l.binding.isSure(c.Conn) && !c.certain(ctx, l) {
			return // ctx is done: what is not acknowledged is redelivered, and absorbed
		}
		c.sure = append(c.sure, l)
	}
	for i, a := range c.done {
		if err := c.acknowledgeOne(ctx, a.in); err != nil {
			c.Log.Debug("acknowledging failed; the redelivery will be absorbed", "source", a.in.Origin.Source(),
				"error", err)
		}
		killpoint.Here(killpoint.Acked)
		c.left(a)
		c.held.remove(a.in)
		c.reuse(a)
		c.done[i] = nil
	}
	c.done = c.done[:0]
}

// ackWord is how long the server may take to confirm an acknowledgement before it is sent again.
const ackWord = 2 * time.Second

func (c *confirmer) acknowledgeOne(ctx context.Context, in *input) error {
	if in.stale.Load() {
		return nil
	}
	if !c.DoubleAck {
		return in.msg.Ack()
	}
	for attempt := 0; ; attempt++ {
		wait, cancel := context.WithTimeout(ctx, ackWord)
		err := in.msg.DoubleAck(wait)
		cancel()
		if err == nil || errors.Is(err, nats.ErrNoResponders) || !natsx.Backoff(ctx, attempt) {
			return err // without a consumer there is nothing to acknowledge
		}
		if !c.certain(ctx, in.lane) || in.stale.Load() {
			return nil
		}
	}
}

// certain finds out which of the messages that are held are still those that their numbers name, for as long as it
// takes; false where ctx is done first.
func (c *confirmer) certain(ctx context.Context, l *lane) bool {
	for attempt := 0; ; attempt++ {
		same, err := l.binding.verify(ctx, c.relay, l.durable)
		if same {
			return true
		}
		if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			var input jetstream.Stream
			input, err = c.JS.Stream(ctx, c.Stream)
			switch {
			case err == nil:
				c.held.bind(input.CachedInfo().Created)
				return true
			case errors.Is(err, jetstream.ErrStreamNotFound):
				c.held.bind(time.Time{})
				return true
			}
		}
		c.Log.Debug("the consumer cannot be asked for before an acknowledgement; trying again", "error", err)
		if !natsx.Backoff(ctx, attempt) {
			return false
		}
	}
}

// locate asks for the domain of a leaf node, and for no other.
func (p *relay) locate(ctx context.Context) error {
	if !p.ModelsFromHub() {
		return nil
	}
	asks := func(one natsx.Permission) bool {
		return p.Permissions.IsServerRequest(one) && strings.HasSuffix(one.Subject, ".API.INFO")
	}
	return p.Permissions.Guard(ctx, asks, func(ctx context.Context) error {
		account, err := p.JS.AccountInfo(ctx)
		if err != nil {
			return natsx.ExplainAPIError(err)
		}
		p.Domain = account.Domain
		return nil
	})
}

// The keys of a consumer's metadata.
const (
	metaPipeline = "embedd_pipeline"
	metaSubject  = "embedd_subject"
)

// consumer binds the pipeline's own durable consumer, or makes it. It also says when the stream was made: one of the
// same name that was deleted and made again is another (Invariant 2). It changes nothing of a consumer that is there
// but what a pipeline relies on, and never what it reads.
func (p *relay) consumer(ctx context.Context, l *lane) (c jetstream.Consumer, created time.Time, err error) {
	needs := []string{".STREAM.INFO.", ".CONSUMER.INFO.", ".CONSUMER.CREATE."}
	err = p.GuardInput(ctx, needs, func(ctx context.Context) error {
		c, created, err = p.bindConsumer(ctx, l)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = p.InputGone()
	}
	return c, created, err
}

func (p *relay) bindConsumer(ctx context.Context, l *lane) (jetstream.Consumer, time.Time, error) {
	input, err := natsx.Hedge(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return p.JS.Stream(ctx,
			p.Stream)
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	created := input.CachedInfo().Created
	want := jetstream.ConsumerConfig{
		Durable:       l.durable,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		FilterSubject: l.filter,
	}
	c, err := natsx.Hedge(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return input.Consumer(ctx,
			want.Durable)
	})
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		p.settings(&want)
		if l.inOrder() && l.was.Created.Equal(created) && l.was.Floor > 0 { // whoever made it anew died in between
			want.DeliverPolicy, want.OptStartSeq = jetstream.DeliverByStartSequencePolicy, l.was.Floor+1
		}
		c, err = input.CreateConsumer(ctx, want)
	case err == nil:
		have := c.CachedInfo().Config
		if err := needs.CheckConsumer(&p.Pipeline, have, input.CachedInfo().Config.Subjects, l.filter); err != nil {
			return nil, time.Time{}, err
		}
		if changed := have; p.settings(&changed) {
			c, err = input.UpdateConsumer(ctx, changed)
		}
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	now, err := natsx.Hedge(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return p.JS.Stream(ctx,
			p.Stream)
	})
	if err == nil && !now.CachedInfo().Created.Equal(created) {
		err = errors.New("the stream was made anew while its consumer was bound")
	}
	return c, created, err
}

// answered is the highest number of an input of which the output holds an answer. Up to it a first delivery need not
// be one: the consumer may have been removed and made again, or a server that crashed has forgotten what it delivered
// last.
func (p *relay) answered(ctx context.Context, created time.Time) (newest uint64, err error) {
	for _, s := range p.tail.sinks {
		from, _ := s.before(step)
		if _, err = s.after(ctx, from, func(h head) {
			seq, ours := seqOf(h.source, p.Stream)
			o := wire.Origin{Stream: p.Stream, Created: created, Seq: seq}
			if ours && seq > newest && (h.id == o.ID(p.Name, wire.AnswerOut, 0) || h.id == o.ID(p.Name, wire.AnswerDead, 0)) {
				newest = seq
			}
		}); err != nil {
			return 0, err
		}
	}
	return newest, nil
}

// settings sets what a pipeline relies on, and tells whether that changed anything.
func (p *relay) settings(c *jetstream.ConsumerConfig) bool {
	before := *c
	c.Description = needs.ConsumerDescription + p.Name
	c.AckWait, c.MaxDeliver, c.MaxAckPending = p.AckWait, -1, p.AckPending
	if p.Input.CachedInfo().Config.Retention != jetstream.LimitsPolicy {
		c.MaxAckPending = -1 // what is put off while there is no model must not keep back what makes one
	}
	c.Metadata = map[string]string{}
	for k, v := range before.Metadata {
		c.Metadata[k] = v
	}
	c.Metadata[metaPipeline], c.Metadata[metaSubject] = p.Name, p.Subject
	return !reflect.DeepEqual(before, *c)
}

// reuse gives back the memory of outputs that have left. Nothing is sent of them any more, and nothing looked up.
func (p *relay) reuse(a *answer) {
	if a.result != "out" {
		return
	}
	for _, o := range a.parts {
		if o.letter == nil {
			p.Running.Reuse(o.msg.Data)
			o.msg.Data = nil
		}
	}
}

// hasAnswered reports whether a pipeline of this name has answered an input, whatever became of its models: its
// consumer has acknowledged something, or there is an output on its subject.
func (p *relay) hasAnswered(ctx context.Context) (bool, error) {
	c, err := p.Input.Consumer(ctx, p.ConsumerName())
	if err == nil && c.CachedInfo().AckFloor.Stream > 0 {
		return true, nil
	}
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, natsx.ExplainAPIError(err)
	}
	stream, err := p.tail.sinks[p.Output].look(ctx)
	if err != nil {
		return false, natsx.ExplainAPIError(err)
	}
	out, err := stream.Info(ctx, jetstream.WithSubjectFilter(p.Output))
	if err != nil {
		return false, natsx.ExplainAPIError(err)
	}
	return out.State.Subjects[p.Output] > 0, nil
}
