package stream_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
)

// ample is the timeout of tests for an event that has to happen, generous for a loaded machine.
const ample = 10 * time.Minute

// connect starts a server and connects to it.
func connect(t *testing.T, jets bool) *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: jets,
		StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(ample) {
		t.Fatal("the server does not start")
	}
	nc, err := nats.Connect(s.ClientURL(), nats.Timeout(ample))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// pipelineOf is a pipeline that skips what comes before its first model.
func pipelineOf(name string) stream.Pipeline {
	return stream.Pipeline{Name: name, Stream: "in", Subject: "in.x", Output: "out.x", Dead: "out.dead",
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Until: plugin.UntilSkip}}
}

// TestErrorsOfRun: a host can distinguish with errors.Is what prevents the start of an engine.
func TestErrorsOfRun(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), ample)
	defer stop()
	run := func(nc *nats.Conn) error {
		e, err := stream.New(stream.Options{Conn: nc, Pipelines: []stream.Pipeline{pipelineOf("p")}, Wait: ample})
		if err != nil {
			t.Fatal(err)
		}
		return e.Run(ctx)
	}
	if err := run(connect(t, false)); !errors.Is(err, stream.ErrNoJetStream) {
		t.Errorf("without JetStream: %v", err)
	}
	nc := connect(t, true)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	wantMissing := func(what string) {
		t.Helper()
		if err := run(nc); !errors.Is(err, stream.ErrStreamMissing) || !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("without %s: %v", what, err)
		}
	}
	wantMissing("an input stream")
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "in", Subjects: []string{"in.>"}}); err != nil {
		t.Fatal(err)
	}
	wantMissing("an output stream")
}
