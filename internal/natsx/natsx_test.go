package natsx

import (
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/testsize"
)

func TestMain(m *testing.M) {
	testsize.AtOnce(8)
	os.Exit(m.Run())
}

// testTimeout is a timeout for events that must happen, also on a busy machine.
const testTimeout = 30 * time.Second

// startServer runs a server with JetStream until the test ends.
func startServer(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog, o.JetStream, o.StoreDir = "127.0.0.1", -1, true, true, true, t.TempDir()
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(testTimeout) {
		t.Fatal("the server does not start")
	}
	return s
}

func connect(t *testing.T, s *server.Server, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), append(options, nats.Timeout(testTimeout))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func jetStreamOf(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(testTimeout))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}
