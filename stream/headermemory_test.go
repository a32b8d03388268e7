package stream_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/natstest"
)

// TestInFlightCountsHeaders: the headers of inputs count in the memory of those that wait.
func TestInFlightCountsHeaders(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := basicPipeline()
	p.Stream, p.Models.None, p.InFlight = "", true, 1<<20
	r := startReplica(t, s.Connect(), p)
	s.AwaitSubscriber("in.x")
	const n, header = 100, 100 << 10
	nc := s.Connect()
	for range n {
		m := nats.NewMsg("in.x")
		m.Header.Set("A", strings.Repeat("h", header))
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	dropped := func() int { return int(r.counter("embedd_dropped_messages_total", "path=answer")) } // some by the client
	natstest.Await(t, "all have arrived", func() bool { return dropped()+int(r.pipeline().Lag) == n })
	if kept := n - dropped(); kept == 0 || kept*header > int(p.InFlight) {
		t.Errorf("%d messages with headers of %d bytes are kept in %d bytes", kept, header, p.InFlight)
	}
}
