package replica

import (
	"context"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/scope"
)

// traceFit makes the span of a candidate that was judged.
func traceFit(s *scope.Scope, o plugin.Outcome) {
	if s.Tracer == nil {
		return
	}
	end := time.Now()
	_, fit := s.Tracer.Start(context.Background(), "fit "+s.Name, trace.WithTimestamp(end.Add(-o.Duration)),
		trace.WithAttributes(attribute.String("embedd.pipeline", s.Name), attribute.Int("embedd.rows", o.Rows),
			attribute.Bool("embedd.promoted", o.Promoted)))
	if o.Promoted {
		fit.SetAttributes(attribute.String("embedd.model.version", o.Live.Version),
			attribute.Int("embedd.model.epoch", o.Live.Epoch), attribute.String("embedd.door", o.Door),
			attribute.String("embedd.reason", o.Reason))
	}
	if !math.IsNaN(o.Candidate) {
		fit.SetAttributes(attribute.Float64("embedd.accuracy", o.Candidate))
	}
	if o.Err != nil {
		fit.SetStatus(codes.Error, o.Err.Error())
	}
	fit.End(trace.WithTimestamp(end))
}
