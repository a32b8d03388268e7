package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/deliveries"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/training"
)

// hotPath has what the steps of a relay share. Each step embeds it, and has its own state besides.
type hotPath struct {
	*scope.Scope
	gate          answerGate
	composer      *composer
	transformer   *transformer
	training      *training.Path
	identities    *identities
	dedup         *dedup // nil on core NATS
	outputs       *sink  // nil on core NATS
	deadLetters   *sink  // nil on core NATS
	undeliverable undeliverable
	began         time.Time
	answered      atomic.Int64 // when an input was last answered, in nanoseconds since began
	consumers     *consumers
	activity      *Activity
	utilization   utilization
	deadLetterLog sync.Map      // of a *ratelog.Limiter for each code
	drainTimeout  time.Duration // how long inputs may take to be answered after a stop
	inspect       func()        // updates the lag and the other statistics of the streams now
	claimed       atomic.Uint64 // answers that were sent under their second identity
	claimLog      ratelog.Limiter
	deliveries    deliveries.Counter
}

// send publishes the parts of an answer without waiting for their confirmation. confirmer.finish sends the parts that
// fail here again.
func (p *hotPath) send(u *publisher, a *answer) {
	for _, o := range a.parts {
		if !o.isStored && !o.isDoubtful && (o.deadLetter == nil || !p.undeliverable.areRefused()) {
			u.send(o)
		}
	}
}

// publish calls send, for each key in the order of its inputs if order is kept.
func (p *hotPath) publish(u *publisher, a *answer) {
	a.publishing = childSpan(p.Scope, a.in, "publish", trace.SpanKindProducer)
	if !a.in.source.isOrdered() || u.enqueue(a) {
		p.send(u, a)
	}
}

// logDeadLetters counts and logs the dead letters of an answer that was stored.
func (p *hotPath) logDeadLetters(a *answer) {
	for _, l := range a.deadLetters {
		p.Series.Add(health.DeadLetters, 1, string(l.Code))
		limiter, _ := p.deadLetterLog.LoadOrStore(l.Code, &ratelog.Limiter{})
		limiter.(*ratelog.Limiter).Warn(p.Log, "dead letter; further ones with this code are logged once a minute", "code",
			string(l.Code), "source", l.Origin.Source(), "subject", l.Subject, "error", l.Error)
	}
}

// flushDeadLetterLog logs how many dead letters were not logged since the last one of each code.
func (p *hotPath) flushDeadLetterLog() {
	for code, limiter := range p.deadLetterLog.Range {
		limiter.(*ratelog.Limiter).Flush(p.Log, "further dead letters before the stop", "code", string(code.(wire.Code)))
	}
}

// explain adds what to do to the error of a publish.
func (p *hotPath) explain(err error, subject string) error {
	return cmp.Or(p.Permissions.PublishDenied(subject), natsx.ExplainPublishError(err, subject))
}

// fetch pulls messages of a source once and passes each to take, as nil if it has no metadata. created is the creation
// time of the stream.
func (p *hotPath) fetch(ctx context.Context, s *source, c jetstream.Consumer, created time.Time, messages int,
	bytes int64, take func(*input)) (int, error) {
	defer s.identity.beginPull()()
	return p.Pulls.Fetch(ctx, p.JS, c, messages, bytes, func(msg *natsx.Message) {
		p.Series.Read(health.PathAnswer, len(msg.Data()))
		m, ok := p.Received(msg, created)
		if !ok {
			take(nil)
			return
		}
		if m.Delivered > 1 {
			p.Series.Add(health.Redeliveries, 1)
		}
		in := &input{Message: m, msg: msg, source: s, size: m.Size(), receivedAt: time.Now()}
		p.activity.received(in.receivedAt, in.Pending)
		killpoint.Here(killpoint.Pulled)
		take(in)
	})
}

// recordDeadShare counts an answer among the newest ones: also one whose output the server refused for good.
func (p *hotPath) recordDeadShare(a *answer) {
	failure := a.failure()
	p.DeadShare.Record(failure.Code, failure.Error)
}

// HaltReason explains why the pipeline is halted, "" while it is not.
func (p *hotPath) HaltReason() string {
	why := p.gate.halt.Reason()
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s; nothing is answered and nothing is lost until `embedd resume %s` or a restart; `embedd dlq "+
		"ls %s` lists them", why, p.Name, p.Name)
}

// Resume ends a halt. It reports whether the pipeline was halted.
func (p *hotPath) Resume() bool {
	isHalted := p.gate.halt.Resume()
	if isHalted {
		p.Log.Info("resumed")
	}
	return isHalted
}

// release makes the memory of outputs that were published and confirmed available for reuse.
func (p *hotPath) release(a *answer) {
	if a.result != "out" {
		return
	}
	for _, o := range a.parts {
		if o.deadLetter == nil {
			p.Running.Reuse(o.msg.Data)
			p.composer.reuseHeader(o.msg.Header)
			o.msg.Data, o.msg.Header = nil, nil
		}
	}
}

// decoder is a stage, or a codec of it.
type decoder interface {
	Decode(msg []byte) (*arrowio.Message, error)
}

// Project transforms a message. A message that was decoded before the schema was fixed is decoded again.
func (p *hotPath) Project(ctx context.Context, by decoder, data []byte, m *arrowio.Message, live *plugin.Live) (
	*arrowio.Message, *plugin.Result, error) {
	r, err := p.Running.TransformWith(ctx, m, live)
	if errors.Is(err, plugin.ErrContract) {
		if m, err = by.Decode(data); err != nil {
			return nil, nil, err
		}
		r, err = p.Running.TransformWith(ctx, m, live)
	}
	return m, r, err
}
