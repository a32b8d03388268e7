package stream_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream"
)

// stolenText is the message of the log when a client that is no replica takes deliveries.
const stolenText = "deliveries of the consumer reach no replica"

// TestStolenDeliveries: deliveries that a client other than a replica takes from the durable consumer are reported by
// the replicas, and nothing is reported when replicas start, stop, lose their connection and nak messages.
func TestStolenDeliveries(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "in", Subjects: []string{"in.>"}})
	s.Stream(jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>", "dead.>"}})
	p := basicPipeline()
	p.Stage.Fixed, p.AckWait = fixedModel(t), time.Second
	start := func() *replica {
		r := newReplica(t, s.Connect(nats.ReconnectWait(time.Millisecond)), p)
		stream.SetWatchInterval(r.Engine, 50*time.Millisecond)
		r.Start()
		return r
	}
	published := 0
	publish := func(n int) {
		for range n {
			published++
			s.Publish(&nats.Msg{Subject: p.Subject, Data: drawRows(uint64(published), 2, 4).message(t)})
		}
	}
	answered := func() bool { return s.Count("out") == published }
	a, b := start(), start()
	for range 3 {
		publish(40)
		natstest.Await(t, "answers", answered)
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		publish(20)
		_ = a.Conn.ForceReconnect()
		b = start()
		publish(20)
		natstest.Await(t, "answers", answered)
	}
	for _, r := range []*replica{a, b} {
		if r.Log.has(stolenText) {
			t.Fatal("deliveries are said to be stolen, and no other client pulls")
		}
	}

	durable, err := s.JS.Consumer(t.Context(), "in", "embedd_p")
	if err != nil {
		t.Fatal(err)
	}
	thief, err := durable.Consume(func(msg jetstream.Msg) { _ = msg.Ack() }, jetstream.PullMaxMessages(100),
		jetstream.PullExpiry(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Stop()
	natstest.Await(t, "the report of stolen deliveries", func() bool {
		publish(4)
		return a.Log.has(stolenText) && b.Log.has(stolenText)
	})
}
