package integration

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestCore: a subject without a stream is served at most once: messages wait in memory until there is a model, and are
// answered in order, without a source.
func TestCore(t *testing.T) {
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	out := must(c.nc.SubscribeSync("reduced.core"))(t)
	dead := must(c.nc.SubscribeSync("dead.core"))(t)
	d := startDaemon(t, configFile(t, s.ClientURL(), `
core:
  input: {subject: features.core}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.core, dead: dead.core}
  model: {method: lda, dim: 5}
  training: {window: {rows: 3000}, every: {rows: 300, period: none}}`))
	eventually(t, says("the daemon listens to the subject"), func() bool {
		z, err := s.Subsz(&server.SubszOptions{Subscriptions: true, Test: "features.core"})
		return err == nil && len(z.Subs) > 0
	})
	g := digits(t)
	n := 0
	for from := 0; from < 600; from += 50 {
		msg := nats.NewMsg("features.core")
		msg.Data, msg.Header = g.message(t, from, from+50, true), nats.Header{"X-Own": {"kept"}}
		if err := c.nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
		n++
	}
	var r reduced
	for range n {
		msg := must(out.NextMsg(ample))(t)
		if msg.Header.Get(wire.HeaderSource) != "" || msg.Header.Get("Nats-Msg-Id") != "" ||
			msg.Header.Get("X-Own") != "kept" || msg.Header.Get(wire.HeaderMethod) != "lda" {
			t.Errorf("headers %v: want lda, the client's own, no source and no identity", msg.Header)
		}
		r.add(t, msg.Data)
	}
	for i, id := range r.id {
		if id != int32(i) {
			t.Fatalf("row %d came out at %d", id, i)
		}
	}
	if len(r.id) != 600 {
		t.Errorf("%d rows, want 600", len(r.id))
	}
	if err := c.nc.Publish("features.core", []byte("no Arrow")); err != nil {
		t.Fatal(err)
	}
	letter := must(dead.NextMsg(ample))(t)
	if letter.Header.Get(wire.HeaderCode) != string(wire.NotArrow) || string(letter.Data) != "no Arrow" {
		t.Errorf("the dead letter has code %q and says %q", letter.Header.Get(wire.HeaderCode), letter.Data)
	}
	d.stop()
}

// heard reports whether a subject of a service has a subscriber, which answers: without one the server does.
func (c *client) heard(subject string) bool {
	_, err := c.nc.Request(subject, nil, ample)
	return err != nats.ErrNoResponders
}
