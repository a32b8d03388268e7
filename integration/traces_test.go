package integration

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver takes traces over OTLP.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
	names []string // of services

	refusals int
}

func startReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var request otlp.TracesData // has the bytes of an ExportTraceServiceRequest
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.refusals++; r.refusals == 1 { // the daemon tries again
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		if err != nil || q.Header.Get("X-Tenant") != "a,b" || q.URL.Path != "/v1/traces" ||
			proto.Unmarshal(body, &request) != nil {
			http.Error(w, "no traces", http.StatusBadRequest)
			return
		}
		for _, resource := range request.ResourceSpans {
			for _, a := range resource.Resource.Attributes {
				if a.Key == "service.name" {
					r.names = append(r.names, a.Value.GetStringValue())
				}
			}
			for _, s := range resource.ScopeSpans {
				r.spans = append(r.spans, s.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

// of returns the spans with a name in a trace.
func (r *receiver) of(trace, name string) (found []*otlp.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if hex.EncodeToString(s.TraceId) == trace && s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// TestTraces: a trace from a publisher's span through the daemon to the subscriber is one tree at a receiver of OTLP.
// The variables of the environment that ask for it are the standard ones.
func TestTraces(t *testing.T) {
	r := startReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	t.Setenv("OTEL_SERVICE_NAME", "reducer")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%2Cb")
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	d := startDaemon(t, configFile(t, s.ClientURL(), `digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {file: `+packedModel(t, "lda", 3)+`}`))
	const trace, publisher = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	c.send("features.digits", digits(t).message(t, 0, 8, true), "traceparent", "00-"+trace+"-"+publisher+"-01",
		"tracestate", "vendor=1")
	c.send("features.digits", []byte("no Arrow"), "traceparent", "00-"+trace+"-"+publisher+"-01")
	c.send("features.digits", digits(t).message(t, 8, 9, true))
	c.await("REDUCED", 2)
	c.await("DEAD", 1)
	d.stop() // sends the last spans

	inputs := r.of(trace, "process digits")
	if len(inputs) != 2 || len(r.names) == 0 || r.names[0] != "reducer" {
		t.Fatalf("%d spans of the two inputs, services %v", len(inputs), r.names)
	}
	parents := map[string]bool{}
	for _, span := range inputs {
		if parent := hex.EncodeToString(span.ParentSpanId); parent != publisher ||
			span.TraceState != "" && span.TraceState != "vendor=1" {
			t.Errorf("the parent of an input's span is %s, state %q", parent, span.TraceState)
		}
		parents[hex.EncodeToString(span.SpanId)] = true
	}
	for name, want := range map[string]int{"decode": 2, "transform": 1, "publish": 2} {
		children := r.of(trace, name)
		for _, span := range children {
			if !parents[hex.EncodeToString(span.ParentSpanId)] {
				t.Errorf("the span %s is no child of an input's span", name)
			}
		}
		if len(children) != want {
			t.Errorf("%d spans %s, want %d", len(children), name, want)
		}
	}
	for _, stream := range []string{"REDUCED", "DEAD"} {
		answer := c.read(stream)[0]
		parts := strings.Split(answer.header.Get("traceparent"), "-")
		if len(parts) != 4 || parts[1] != trace || !parents[parts[2]] || parts[3] != "01" {
			t.Errorf("%s carries %v", stream, answer.header.Values("traceparent"))
		}
	}
	if own := parentIn(c.read("REDUCED")[1].header); own == "" || own == trace {
		t.Errorf("an input without a trace continues in trace %q", own)
	} else if begun := r.of(own, "process digits"); len(begun) != 1 || len(begun[0].ParentSpanId) != 0 {
		t.Errorf("an input without a trace has the spans %v", begun)
	}
}

// parentIn is the trace that a message carries.
func parentIn(h nats.Header) string {
	if parts := strings.Split(h.Get("traceparent"), "-"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

// TestTracesRefused: an exporter that the daemon does not have is an error before anything starts.
func TestTracesRefused(t *testing.T) {
	config := configFile(t, "nats://127.0.0.1:1", `digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}`)
	for variable, value := range map[string]string{"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		"OTEL_EXPORTER_OTLP_TIMEOUT": "soon", "OTEL_EXPORTER_OTLP_HEADERS": "a",
		"OTEL_EXPORTER_OTLP_CERTIFICATE": "missing.pem", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "localhost:4317"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(variable, value)
			if _, stderr, code := run(t, "run", "-c", config); code != 2 ||
				!strings.Contains(stderr, strings.Replace(variable, "_TRACES_END", "_END", 1)) {
				t.Errorf("exit %d: %s", code, stderr)
			}
		})
	}
}
