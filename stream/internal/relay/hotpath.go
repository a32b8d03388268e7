package relay

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/stream/internal/deliveries"
	"github.com/embedd/embedd/stream/internal/health"
)

// hotPath has what the steps of a relay share.
type hotPath struct {
	*transformer
	gate          answerGate
	consumers     *consumers
	activity      *Activity
	utilization   utilization
	deadLetterLog *health.LetterLog
	drainTimeout  time.Duration // how long inputs may take to be answered after a stop
	inspect       func()        // updates the lag and the other statistics of the streams now
	claimed       atomic.Uint64 // answers that were sent under their second identity
	claimLog      ratelog.Limiter
	deliveries    deliveries.Counter
}

// send publishes the parts of an answer without waiting for their confirmation. confirmer.settle sends the parts that
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
		p.deadLetterLog.Add(&l.Letter)
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
			p.Series.Redelivered()
		}
		in := &input{Message: m, msg: msg, source: s, size: m.Size(), receivedAt: time.Now()}
		p.activity.received(in.receivedAt, in.Pending)
		killpoint.Here(killpoint.Pulled)
		take(in)
	})
}
