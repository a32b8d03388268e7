package stream

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestSilentServer: a server that keeps its connection and says nothing is trouble, which readiness tells; where another is
// known it is left for that.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	for _, others := range []bool{false, true} {
		s := newSite(t)
		log := &lines{}
		l := s.link()
		urls := l.url()
		if others {
			urls += "," + s.url()
		}
		nc, err := nats.Connect(urls, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.DontRandomize(),
			nats.IgnoreDiscoveredServers())
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(Options{Conn: nc, Pipelines: []Pipeline{answerer(t)}, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		e.patience = 500 * time.Millisecond
		s.run(e)
		s.send(20)
		s.acknowledged("p")
		l.hush.Store(true)
		if others {
			s.until("the server is left", func() bool { return log.with("the server is left for another") != nil })
		} else {
			s.stands(e, StateBlocked, false, "the server does not answer since", "parted from its cluster")
			time.Sleep(2 * e.patience)
			if n := nc.Stats().Reconnects; n > 0 || log.with("left for another") != nil {
				t.Errorf("the only server was left: %d reconnects", n)
			}
			l.hush.Store(false)
		}
		s.send(20)
		s.acknowledged("p")
		s.stands(e, StateReady, true)
		s.once(40)
	}
}

// TestAlone: whose leader hears of the others is judged by how many would have to agree.
func TestAlone(t *testing.T) {
	near, far := &jetstream.PeerInfo{Active: time.Second}, &jetstream.PeerInfo{Active: 5 * time.Second}
	off := &jetstream.PeerInfo{Offline: true}
	for _, c := range []struct {
		others []*jetstream.PeerInfo
		want   bool
	}{
		{nil, false},
		{[]*jetstream.PeerInfo{near, near}, false},
		{[]*jetstream.PeerInfo{near, far}, false},
		{[]*jetstream.PeerInfo{near, off}, false},
		{[]*jetstream.PeerInfo{far, off}, true},
		{[]*jetstream.PeerInfo{near, near, far, far}, false},
		{[]*jetstream.PeerInfo{near, far, far, far}, true},
	} {
		if got := alone(&jetstream.ClusterInfo{Leader: "a", Replicas: c.others}); got != c.want {
			t.Errorf("alone is %v with %v", got, c.others)
		}
	}
	if alone(nil) {
		t.Error("a server without a cluster is alone")
	}
}
