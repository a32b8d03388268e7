package relay

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/scope"
)

// traceHeaders are the headers of a message, for W3C Trace Context. They are copied to the answers of an input as all
// of its headers are; with tracing, the answers name the input's span as their parent.
type traceHeaders nats.Header

// Get returns a header. The propagator refuses the flags 03 of W3C Trace Context Level 2, a sampled trace with a random
// id, so they are read as 01.
func (h traceHeaders) Get(key string) string {
	value := nats.Header(h).Get(key)
	if rest, isRandom := strings.CutSuffix(value, "-03"); isRandom && key == "traceparent" {
		return rest + "-01"
	}
	return value
}

func (h traceHeaders) Set(key, value string) { h[key] = []string{value} }
func (h traceHeaders) Keys() []string        { return slices.Collect(maps.Keys(h)) }

// beginSpan starts the span of an input, from its receipt to its acknowledgement. Without tracing it does nothing, and
// the input has no span.
func beginSpan(s *scope.Scope, in *input) {
	if s.Tracer == nil {
		return
	}
	_, in.span = s.Tracer.Start(parentOf(in.Header), "process "+s.Name, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithTimestamp(in.receivedAt),
		trace.WithAttributes(attribute.String("messaging.system", "nats"),
			attribute.String("messaging.destination.name", in.Subject), attribute.String("embedd.pipeline", s.Name),
			attribute.String("embedd.source", in.Origin.Source()), attribute.Int64("embedd.delivered", int64(in.Delivered)),
			attribute.Int("messaging.message.body.size", len(in.Data))))
}

// childSpan starts a span of a step of an input, nil without tracing.
func childSpan(s *scope.Scope, in *input, name string, kind trace.SpanKind) trace.Span {
	if in.span == nil {
		return nil
	}
	_, child := s.Tracer.Start(trace.ContextWithSpan(context.Background(), in.span), name, trace.WithSpanKind(kind))
	return child
}

// endSpan ends a span, if there is one.
func endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// nameModel adds the model of an answer to the span of its input.
func nameModel(span trace.Span, live *plugin.Live) {
	if span != nil {
		span.SetAttributes(attribute.String("embedd.model.version", live.Version),
			attribute.Int("embedd.model.epoch", live.Epoch))
	}
}

// describe adds the result of an answer to the span of its input.
func (a *answer) describe() {
	span := a.in.span
	if span == nil {
		return
	}
	span.SetAttributes(attribute.String("embedd.result", a.result), attribute.Int("embedd.rows.out", a.rows.Out),
		attribute.Int("embedd.rows.dead", a.rows.Dead), attribute.Int("embedd.rows.skip", a.rows.Skip))
	if len(a.deadLetters) > 0 {
		span.SetAttributes(attribute.String("embedd.code", string(a.deadLetters[0].Code)))
		span.SetStatus(codes.Error, a.deadLetters[0].Error)
	}
}

// parentOf returns a context with the span context that a message carries; one that is not valid counts as none.
func parentOf(h nats.Header) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), traceHeaders(h))
}

// addParent makes the span of an input the parent of the spans of clients that read its answer.
func addParent(h nats.Header, span trace.Span) {
	if span != nil {
		propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), traceHeaders(h))
	}
}
