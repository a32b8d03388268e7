package observe

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/relay"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

// TestDueWhileDisconnected: an inspection that is due while the connection is lost is not postponed for long.
func TestDueWhileDisconnected(t *testing.T) {
	nc, err := nats.Connect("nats://127.0.0.1:1", nats.RetryOnFailedConnect(true)) // nothing listens
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w := New(&scope.Scope{Conn: nc}, nil, nil)
	if pause := w.observe(t.Context()); pause != interval {
		t.Errorf("the next inspection is in %v", pause)
	}
}

// TestPartitionsWithoutInput: while no input arrives, the replica that observes the lag and the one that owns a
// partition report that its consumer is paused, and set settings again with which messages would be lost.
func TestPartitionsWithoutInput(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := spec.Pipeline{Name: "p", Stream: "in", Subject: "in.*", Partitions: 2}
	s.Stream(jetstream.StreamConfig{Name: "in", Subjects: []string{"in.*"},
		SubjectTransform: needs.PartitionTransform("in.*", 2)})
	name := needs.ConsumerName("p", "")
	configs := map[needs.Partition]jetstream.ConsumerConfig{}
	for _, q := range append(needs.Partitions(&p)[1:], needs.Partition{}) {
		configs[q] = jetstream.ConsumerConfig{Durable: q.ConsumerName(name), FilterSubject: q.Filter("in.*"),
			AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1}
		if _, err := s.JS.CreateConsumer(t.Context(), "in", configs[q]); err != nil {
			t.Fatal(err)
		}
	}
	input, err := s.JS.Stream(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	all := &scope.Scope{Pipeline: p, Conn: s.JS.Conn(), JS: s.JS, Streams: natsx.NewStreamCache(), Input: input,
		Conditions: &health.Conditions{}, Log: slog.New(slog.DiscardHandler)}
	w := New(all, nil, relay.New(all, &relay.Activity{}, 0))
	last := needs.Partitions(&p)[2]
	durable := last.ConsumerName(name)
	checks := map[string]func() error{
		"the lag": func() error {
			w.checkedAt = time.Now().Add(-time.Minute)
			return w.lag(t.Context(), &Snapshot{})
		},
		"the owner": func() error { return w.checkConsumers(t.Context(), needs.Partitions(&p)[1:]) },
	}
	for range 2 {
		if err := w.lag(t.Context(), &Snapshot{}); err != nil {
			t.Fatal(err)
		}
	}
	if w.answered.seq != 0 || w.answered.created.IsZero() {
		t.Fatalf("all is answered, and known is %+v", w.answered)
	}
	for who, check := range checks {
		if _, err := s.JS.PauseConsumer(t.Context(), "in", durable, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		inspect := check
		for range 2 { // also at the next inspection
			if err := inspect(); err == nil || !strings.Contains(err.Error(), durable+" of stream in is paused") {
				t.Errorf("%s, of a paused consumer: %v", who, err)
			}
			if who == "the lag" {
				inspect = func() error { return w.lag(t.Context(), &Snapshot{}) }
			}
		}
		if _, err := s.JS.ResumeConsumer(t.Context(), "in", durable); err != nil {
			t.Fatal(err)
		}
		edited := configs[last]
		edited.HeadersOnly, edited.MaxDeliver = true, 3
		if _, err := s.JS.UpdateConsumer(t.Context(), "in", edited); err != nil {
			t.Fatal(err)
		}
		if err := check(); err != nil {
			t.Errorf("%s, of an edited consumer: %v", who, err)
		}
		c, err := s.JS.Consumer(t.Context(), "in", durable)
		if err != nil {
			t.Fatal(err)
		}
		if is := c.CachedInfo().Config; is.HeadersOnly || is.MaxDeliver != -1 {
			t.Errorf("%s leaves headers only %t and max deliver %d", who, is.HeadersOnly, is.MaxDeliver)
		}
	}
}
