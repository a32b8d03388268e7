package replica

import (
	"math"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

// TestTraceFit: a candidate that was judged has one span, which names the version if it went live.
func TestTraceFit(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	s := &scope.Scope{Pipeline: spec.Pipeline{Name: "p"},
		Tracer: trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("")}
	traceFit(s, plugin.Outcome{Candidate: math.NaN()})
	traceFit(s, plugin.Outcome{Promoted: true, Live: &plugin.Live{Version: "p-1"}, Door: "first", Duration: time.Second})
	ended := spans.Ended()
	if len(ended) != 2 || ended[0].Name() != "fit p" || ended[1].EndTime().Sub(ended[1].StartTime()) != time.Second {
		t.Fatalf("the spans are %v", ended)
	}
	version := attribute.String("embedd.model.version", "p-1")
	if slices.Contains(ended[0].Attributes(), version) || !slices.Contains(ended[1].Attributes(), version) {
		t.Errorf("the attributes are %v and %v", ended[0].Attributes(), ended[1].Attributes())
	}
}
