package stream_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/internal/needs"
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
			p.AckWait = time.Second     // in which a lost connection's messages are redelivered
			p.Models.None = c.bytes > 0 // a connection that breaks may keep a model from being stored for minutes
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
			natstest.Await(t, "it is logged", func() bool { return r.Log.has(c.log) })
			if c.log != "" && strings.Count(r.Log.String(), c.log) != 1 {
				t.Errorf("the log does not say once that %s:\n%s", c.log, r.Log)
			}
		})
	}
}

// account gives all clients an account with limits of JetStream.
func account(t *testing.T, limits string) func(*server.Options) {
	file := filepath.Join(t.TempDir(), "server.conf")
	if err := os.WriteFile(file, []byte("no_auth_user: a\naccounts: {A: {jetstream: {"+limits+"}, users: [{user: a, "+
		"password: a}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *server.Options) {
		o.Accounts, o.Users, o.NoAuthUser = config.Accounts, config.Users, config.NoAuthUser
	}
}

// TestLimitsInOneSentence: a limit with which no pipeline can run is reported in the same words by setup, doctor and
// run.
func TestLimitsInOneSentence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server func(*server.Options)
		want   string
	}{
		"subscriptions": {server: func(o *server.Options) { o.MaxSubs = 12 }, want: "max_subscriptions"},
		"streams":       {server: account(t, "max_streams: 3"), want: "raise max_streams of the account to 6 at least"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.New(t, c.server)
			p := contractPipeline("p")
			makeStreams(s, p)
			plans, err := admin.Setup(t.Context(), s.JS, []stream.Pipeline{p}, true)
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, plan := range plans {
				if plan.Problem != "" {
					said += plan.Problem
				}
			}
			if !strings.Contains(said, c.want) {
				t.Fatalf("setup says %q, want %q", said, c.want)
			}
			findings, err := admin.Diagnose(t.Context(), admin.Options{Conn: s.Connect(), Pipelines: []stream.Pipeline{p}})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(findings, func(f admin.Finding) bool {
				return f.Level == admin.LevelFault && f.Text == said
			}) {
				t.Errorf("doctor does not say %q: %v", said, findings)
			}
			engine, err := stream.New(stream.Options{Conn: s.Connect(), Pipelines: []stream.Pipeline{p}})
			if err != nil {
				t.Fatal(err)
			}
			if err := engine.Run(t.Context()); err == nil || err.Error() != said {
				t.Errorf("run says %v, want %s", err, said)
			}
		})
	}
}

// TestNoConsumerInOneSentence: so is a stream without room for the durable consumer.
func TestNoConsumerInOneSentence(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	s.Stream(jetstream.StreamConfig{Name: "outp"})
	in := s.Stream(jetstream.StreamConfig{Name: "inp", MaxConsumers: 1})
	if _, err := in.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "other"}); err != nil {
		t.Fatal(err)
	}
	want := needs.ConsumerFault("inp", 1)
	plans, err := admin.Setup(t.Context(), s.JS, []stream.Pipeline{p}, false)
	if err != nil || plans[0].ConsumerWarning != want.Error() {
		t.Errorf("setup says %v %+v, want %v", err, plans[0], want)
	}
	findings, err := admin.Diagnose(t.Context(), admin.Options{Conn: s.Connect(), Pipelines: []stream.Pipeline{p}})
	if err != nil || !slices.ContainsFunc(findings, func(f admin.Finding) bool { return f.Text == want.Text }) {
		t.Errorf("doctor does not say %q: %v %v", want.Text, findings, err)
	}
	engine, err := stream.New(stream.Options{Conn: s.Connect(), Pipelines: []stream.Pipeline{p}})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want.Error()) {
		t.Errorf("run says %v, want %v", err, want)
	}
}

// TestSubscriptionsAreCounted: a process has no more subscriptions than are asked for.
func TestSubscriptionsAreCounted(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p, q, idle := contractPipeline("p"), contractPipeline("q"), contractPipeline("idle")
	q.Labels, q.Stage.Labels = "inq.labels", &plugin.Labels{}
	makeStreams(s, p)
	makeStreams(s, q)
	makeStreams(s, idle)
	nc := s.Connect()
	startReplica(t, nc, p, q, idle)
	most := 0
	for i := range 60 {
		s.Publish(&nats.Msg{Subject: p.Subject, Data: shapeOf(t, "good").write(t, drawRows(uint64(i), 5, 4))})
		most = max(most, nc.NumSubscriptions())
	}
	awaitOutcomes(s, p, 60)
	most = max(most, nc.NumSubscriptions())
	all := needs.Subscriptions(needs.For(needs.Config{Pipelines: []stream.Pipeline{p, q, idle}}))
	if most > all || most < all-12 {
		t.Errorf("%d subscriptions, and %d are asked for", most, all)
	}
}

// TestDroppedLabelsAreCounted: late labels on core NATS that arrive faster than they are learned wait within a limit,
// and those beyond it are counted.
func TestDroppedLabelsAreCounted(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := basicPipeline()
	p.Stream, p.Models.None, p.InFlight, p.Labels, p.Stage.Spec.Key = "", true, 1<<20, "labels.x", "key"
	r := startReplica(t, s.Connect(), p)
	s.AwaitSubscriber("labels.x")
	const n = 100
	rows := drawRows(1, 20_000, 3)
	labels := arrowMessage(t, column{"label", rows.label}, column{"key", rows.key})
	nc := s.Connect()
	for range n {
		if err := nc.Publish("labels.x", labels); err != nil {
			t.Fatal(err)
		}
	}
	dropped := func() int { return int(r.counter("embedd_dropped_messages_total", "path=learn")) }
	natstest.Await(t, "all are learned or counted as dropped", func() bool {
		return dropped()+int(r.counter("embedd_label_messages_total", "result=learned")) == n
	})
	if dropped() == 0 {
		t.Fatalf("%d messages of %d bytes wait in %d bytes", n, len(labels), p.InFlight)
	}
	natstest.Await(t, "the log says so", func() bool { return r.Log.has("late labels are dropped") })
}

// TestWorkQueueHasAnotherReader: a start says why a work queue allows no consumer of the pipeline's subject.
func TestWorkQueueHasAnotherReader(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	in := s.Stream(jetstream.StreamConfig{Name: "in", Retention: jetstream.WorkQueuePolicy})
	for _, name := range []string{"out", "dead"} {
		s.Stream(jetstream.StreamConfig{Name: name})
	}
	if _, err := in.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "other", FilterSubject: "in.>",
		AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	engine, err := stream.New(stream.Options{Conn: s.Connect(), Pipelines: []stream.Pipeline{fixedPipeline(t)}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "stream in is a work queue, and another consumer reads messages of in.x"
	if err := engine.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a start says %v, want %q", err, want)
	}
}
