package stream_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
)

// TestRunsWithLess: a pipeline answers and learns within limits of the stream and the server that are below what it
// asks for elsewhere.
func TestRunsWithLess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream jetstream.StreamConfig
		server func(*server.Options)
		bytes  int    // added to each message
		log    string // what it logs, once
	}{
		"one message without an acknowledgement": {
			stream: jetstream.StreamConfig{ConsumerLimits: jetstream.StreamConsumerLimits{MaxAckPending: 1}},
			log:    "the server allows fewer messages without an acknowledgement"},
		"messages without an acknowledgement in the server": {
			server: func(o *server.Options) { o.JetStreamLimits.MaxAckPending = 100 },
			log:    "the server allows fewer messages without an acknowledgement"},
		"inactive consumers": {
			stream: jetstream.StreamConfig{ConsumerLimits: jetstream.StreamConsumerLimits{InactiveThreshold: time.Second}}},
		"one consumer": {stream: jetstream.StreamConfig{MaxConsumers: 1},
			log: "the stream allows no further consumer"},
		"a slow consumer": {server: func(o *server.Options) { o.MaxPayload, o.MaxPending = 1<<20, 1<<20 },
			bytes: 200 << 10, log: "less is pulled at a time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var options []func(*server.Options)
			if c.server != nil {
				options = append(options, c.server)
			}
			s := natstest.New(t, options...)
			p := contractPipeline("p")
			p.AckWait = time.Second // in which a lost connection's messages are redelivered
			c.stream.Name, c.stream.Storage = "inp", jetstream.MemoryStorage
			s.Stream(c.stream)
			s.Stream(jetstream.StreamConfig{Name: "outp", Storage: jetstream.MemoryStorage})
			for i := range 60 {
				columns := append(drawRows(uint64(i), 5, 4).columns(), column{"fill",
					slices.Repeat([]string{strings.Repeat("x", c.bytes/5)}, 5)})
				s.Publish(&nats.Msg{Subject: p.Subject, Data: arrowMessage(s, columns...)})
			}
			r := startReplica(t, s.Connect(), p)
			want := map[int]string{}
			for seq := range 60 {
				want[seq+1] = "out"
			}
			wantOutcomes(t, awaitOutcomes(s, p, 60), want)
			if c.log != "" && strings.Count(r.Log.String(), c.log) != 1 {
				t.Errorf("the log does not say once that %s:\n%s", c.log, r.Log)
			}
		})
	}
}
