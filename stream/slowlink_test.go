package stream_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
)

// TestSlowLink checks that a backlog passes a slow link: a server closes a connection if more than its max_pending is
// buffered, and the same pull would then be cut off repeatedly.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir:      t.TempDir(),
		MaxPending:    24 << 20, // three pulls: both readers of the pipeline, and space for one
		WriteDeadline: ample})   // it would cut the connection off too where the machine pauses
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(ample) {
		t.Fatal("the server does not start")
	}
	ctx, stop := context.WithTimeout(context.Background(), ample)
	defer stop()
	fast, err := nats.Connect(s.ClientURL(), nats.Timeout(ample))
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	js, err := jetstream.New(fast)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"in", "out"} {
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name,
			Subjects: []string{name + ".>"}}); err != nil {
			t.Fatal(err)
		}
	}
	// A message that cannot be decoded becomes a dead letter at no extra cost.
	const messages = 40
	for range messages {
		if _, err := js.Publish(ctx, "in.x", make([]byte, 900<<10)); err != nil {
			t.Fatal(err)
		}
	}

	slow, err := nats.Connect("nats://"+slowLink(t, s.Addr().String(), 40<<20), nats.MaxReconnects(-1),
		nats.Timeout(ample))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	e, err := stream.New(stream.Options{Conn: slow,
		Pipelines: []stream.Pipeline{{Name: "p", Stream: "in", Subject: "in.x", Output: "out.x", Dead: "out.dead",
			Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
				Until: plugin.UntilSkip}}}, Wait: ample})
	if err != nil {
		t.Fatal(err)
	}
	running, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(running) }()
	for answered := uint64(0); answered < messages; time.Sleep(50 * time.Millisecond) {
		out, err := js.Stream(ctx, "out")
		if err != nil {
			t.Fatalf("%d of %d messages are answered: %v", answered, messages, err)
		}
		answered = out.CachedInfo().State.Msgs
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := s.NumSlowConsumers(); n > 0 {
		t.Errorf("the server cut the connection off %d times as a slow consumer, want never", n)
	}
}

// slowLink is the address of a link to a server that carries the given number of bytes a second from it.
func slowLink(t *testing.T, to string, rate int) string {
	t.Helper()
	l, err := carrier.New(to, nil, func(piece []byte) error {
		time.Sleep(time.Duration(len(piece)) * time.Second / time.Duration(rate))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l.Address()
}
