package relay

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/natstest"
)

// TestPubAckOfTheHub: a stream of the hub that takes the outputs of a leaf node acknowledges them too. That is not
// taken for the acknowledgement of the leaf node's own stream.
func TestPubAckOfTheHub(t *testing.T) {
	t.Parallel()
	port := link.FreePort(t)
	node := func(domain string, leaf server.LeafNodeOpts) *natstest.Server {
		s := natstest.New(t, func(o *server.Options) {
			o.ServerName, o.JetStreamDomain, o.LeafNode = domain, domain, leaf
		})
		s.Stream(jetstream.StreamConfig{Name: "out"})
		return s
	}
	node("hub", server.LeafNodeOpts{Host: "127.0.0.1", Port: port, NoAdvertise: true})
	edge := node("edge", server.LeafNodeOpts{
		Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)}}}}})
	p := newPublisher(edge.JS.Conn(), "hub")
	defer p.close()
	ack := func(domain string) (msg *nats.Msg) {
		t.Helper()
		natstest.Await(t, "an acknowledgement of the "+domain+" is the first", func() bool {
			var err error
			if msg, err = edge.JS.Conn().RequestWithContext(t.Context(), "out.x", nil); err != nil {
				return false // the leaf node does not know yet that the hub listens
			}
			stored, err := parsePubAck(msg)
			return err == nil && stored.Domain == domain
		})
		msg.Subject = p.inbox + "1"
		return msg
	}
	d := newDedup(edge.JS, nil, maxPending, nil)
	out, err := d.addSink(t.Context(), "out.x")
	if err != nil {
		t.Fatal(err)
	}
	o := &part{sink: out, attempt: 1}
	p.pending[1] = o
	own := ack("edge")
	if err := edge.JS.DeleteStream(t.Context(), "out"); err != nil {
		t.Fatal(err)
	}
	hubs := ack("hub")
	if p.receive(hubs); o.isStored {
		t.Errorf("the hub's acknowledgement %s is taken for that of the leaf node", hubs.Data)
	}
	if p.receive(own); !o.isStored {
		t.Errorf("the leaf node's acknowledgement %s is ignored", own.Data)
	}
}
