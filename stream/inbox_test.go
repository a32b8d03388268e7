package stream_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
)

// TestRequestsNeedAnInbox: a request is answered, and done, only if its reply subject is an inbox. With any other the
// daemon would publish for the client where only the daemon may: to the JetStream API, which takes the empty body of
// an error for a request to delete, to its own subjects, or to those of other applications. Requests without a reply
// subject are answers of the server to a request with the subject of an endpoint as its reply.
func TestRequestsNeedAnInbox(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "in", Subjects: []string{"in.>", "out.>", "dead.>"}})
	s.Stream(jetstream.StreamConfig{Name: "precious"})
	s.Publish(&nats.Msg{Subject: "precious.x"})
	nc, r := s.Connect(), startReplica(t, s.Connect(), basicPipeline())
	for i := range 20 {
		s.Publish(&nats.Msg{Subject: "in.x", Data: drawRows(uint64(i), 50, 3).message(t)})
	}
	natstest.Await(t, "a model", func() bool { return r.live() != "" })
	natstest.Await(t, "the answers", func() bool { return s.Count("in") == 40 })
	pinned, err := nc.Request("embedd.p.model.pin", nil, natstest.Timeout)
	if err != nil || pinned.Header.Get(wire.HeaderError) != "" {
		t.Fatal(err, pinned.Header)
	}
	isPinned := func() bool { m := r.pipeline().Report().Model; return m != nil && m.Pinned }
	natstest.Await(t, "the model is pinned", isPinned)

	observer := s.Connect()
	all, err := observer.SubscribeSync(">")
	if err == nil {
		err = observer.FlushTimeout(natstest.Timeout) // what is published before the server knows of it is not seen
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"$JS.API.STREAM.DELETE.precious", "$JS.API.STREAM.PURGE.precious",
		"$JS.API.CONSUMER.DELETE.in.embedd_p", "$KV.EMBEDD_STATE.p.identity", "out.x", "in.x",
		"embedd.p.resume", "orders.new"} {
		for _, subject := range []string{"embedd.p.transform", "embedd.p.model.show", "embedd.p.model.ls", "embedd.p.status",
			"embedd.p.model.unpin", "embedd.p.reload", "$SRV.PING", "$SRV.INFO.embedd_p", "$SRV.STATS.embedd_p"} {
			if err := nc.PublishRequest(subject, reply, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, subject := range []string{"embedd.p.model.unpin", "embedd.p.retrain"} {
		if err := nc.PublishRequest("$JS.API.STREAM.NAMES", subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{"embedd.p.transform", "embedd.p.model.show", "embedd.p.model.ls", "embedd.p.status",
		"embedd.p.model.unpin", "$SRV.PING.embedd_p"} { // whose earlier requests are done when this one is answered
		if _, err := nc.Request(subject, []byte("x"), natstest.Timeout); err != nil {
			t.Fatal(err)
		}
	}
	if !isPinned() {
		t.Error("the model was unpinned")
	}
	if n := s.Count("precious"); n != 1 {
		t.Errorf("the stream of another application has %d messages", n)
	}
	if n := s.Count("in"); n != 40 {
		t.Errorf("the stream of inputs and answers has %d messages, before it had 40", n)
	}
	natstest.Await(t, "a request is logged", func() bool {
		return r.Log.has("level=WARN", "its reply subject is no inbox")
	})
	if err := observer.FlushTimeout(natstest.Timeout); err != nil {
		t.Fatal(err)
	}
	requests := 0
	for {
		m, err := all.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		if m.Reply == "" && m.Subject == "orders.new" {
			t.Errorf("the daemon publishes %q to %s", m.Data, m.Subject)
		}
		if m.Reply == "orders.new" {
			requests++
		}
	}
	if requests != 9 {
		t.Errorf("%d of 9 requests are seen: a reply might not be", requests)
	}
}
