package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/embedd/embedd/stream"
)

// TestStatusOfSeveralDaemons: the error of one daemon, for instance of another version, hides no status of the others.
// What the reason says is not repeated below it.
func TestStatusOfSeveralDaemons(t *testing.T) {
	t.Parallel()
	s := serveNATS(t, server.Options{})
	for _, d := range []struct{ pipeline, answer string }{{"one", "not JSON"},
		{"one", `{"pipeline":"one","state":"ready"}`},
		{"two", `{"pipeline":"two","state":"ready","reason":"no rows; keys repeat","labels":{"note":"keys repeat"}}`}} {
		nc := sure(nats.Connect(s.ClientURL(), nats.Timeout(ample)))
		t.Cleanup(nc.Close)
		service := sure(micro.AddService(nc, micro.Config{Name: stream.ServiceName(d.pipeline), Version: "0.0.1",
			Metadata: map[string]string{stream.ServicePipeline: d.pipeline}}))
		if err := service.AddEndpoint("status", micro.HandlerFunc(func(r micro.Request) {
			_ = r.Respond([]byte(d.answer))
		}), micro.WithEndpointSubject(stream.ServiceSubject(d.pipeline, "status")),
			micro.WithEndpointQueueGroupDisabled()); err != nil {
			t.Fatal(err)
		}
		if err := nc.FlushTimeout(ample); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := call(t.Context(), "status", "--server", s.ClientURL())
	if code != 1 || strings.Count(stdout, "ready") != 2 || !strings.Contains(stdout, "two") ||
		strings.Count(stdout, "keys repeat") != 1 ||
		!strings.Contains(stderr, "pipeline one: the answer cannot be read") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
}
