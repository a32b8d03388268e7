package relay

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/embedd/embedd/stream/internal/scope"
)

// TestNoTracing: without tracing, spans cost no allocation.
func TestNoTracing(t *testing.T) {
	s, in, h := &scope.Scope{}, &input{}, nats.Header{}
	in.Header = nats.Header{"traceparent": []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	a, err := &answer{in: in, result: "out"}, errors.New("no")
	if n := testing.AllocsPerRun(100, func() {
		beginSpan(s, in)
		endSpan(childSpan(s, in, "decode", trace.SpanKindInternal), err)
		addParent(h, in.span)
		a.describe()
		endSpan(in.span, nil)
	}); n != 0 || len(h) != 0 {
		t.Errorf("%v allocations, headers %v", n, h)
	}
}

// TestParentOf: what is no valid trace parent counts as none.
func TestParentOf(t *testing.T) {
	const valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for text, want := range map[string]bool{
		valid: true, strings.Replace(valid, "-01", "-00", 1): true, "01" + valid[2:] + "-more": true,
		strings.Replace(valid, "-01", "-02", 1): true, strings.Replace(valid, "-01", "-03", 1): true,
		"": false, "00": false, valid[:54]: false, valid + "-more": false, "ff" + valid[2:]: false,
		strings.ToUpper(valid): false, strings.Replace(valid, "-01", "-zz", 1): false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
		strings.Repeat("x", 1<<20):                                false,
	} {
		c := trace.SpanContextFromContext(parentOf(nats.Header{"traceparent": {text}, "tracestate": {"a=1,,=\x00"}}))
		isSampled := want && (strings.Contains(text, "3331-01") || strings.Contains(text, "3331-03"))
		if c.IsValid() != want || c.IsSampled() != isSampled {
			t.Errorf("%.60q: valid %v, sampled %v", text, c.IsValid(), c.IsSampled())
		}
	}
}
