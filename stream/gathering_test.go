package stream

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	carried "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/plugin"
)

// spokes is a hub and edges of it, with the way of each.
type spokes struct {
	*testing.T
	hub   *site
	edges map[string]*site
	ways  map[string]*way
}

// way is that of an edge to its hub.
type way struct {
	*carried.Link
	cut   atomic.Bool
	bytes atomic.Int64 // to the hub
}

// newSpokes starts a hub and edges with these domains.
func newSpokes(t *testing.T, domains ...string) *spokes {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	f := &spokes{T: t, edges: map[string]*site{}, ways: map[string]*way{}}
	f.hub = f.site("hub", server.LeafNodeOpts{Host: "127.0.0.1", Port: port, NoAdvertise: true})
	for _, domain := range domains {
		w := &way{}
		up := func(b []byte) error {
			w.bytes.Add(int64(len(b)))
			return w.passes()
		}
		if w.Link, err = carried.New(fmt.Sprint("127.0.0.1:", port), up, func([]byte) error { return w.passes() }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		f.ways[domain] = w
		f.edges[domain] = f.site(domain, server.LeafNodeOpts{ReconnectInterval: 100 * time.Millisecond,
			Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: w.Address()}},
				DenyExports: []string{"in.>", "out.>"}}}})
		f.edges[domain].make(jetstream.StreamConfig{Name: "in"})
		f.edges[domain].make(jetstream.StreamConfig{Name: "out"})
	}
	return f
}

func (w *way) passes() error {
	if w.cut.Load() {
		return errors.New("the way is cut")
	}
	return nil
}

func (f *spokes) site(domain string, leaf server.LeafNodeOpts) *site {
	f.Helper()
	s := &site{T: f.T, options: server.Options{ServerName: domain, Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
		JetStream: true, JetStreamDomain: domain, StoreDir: f.TempDir(), LeafNode: leaf}}
	s.start()
	f.Cleanup(s.stop)
	s.js = s.dial()
	return s
}

// part cuts an edge off, rejoin brings it back.
func (f *spokes) part(domain string)   { f.ways[domain].cut.Store(true); f.ways[domain].Cut() }
func (f *spokes) rejoin(domain string) { f.ways[domain].cut.Store(false) }

// blocks is a pipeline that is learned from summaries.
func blocks() Pipeline {
	p := apprentice()
	p.Lease = 10 * time.Minute // nobody takes over where the machine stands still
	p.Stage.Training.Block, p.Stage.Training.Window.Rows = sharedBlock, 1500
	return p
}

// learning is a trainer at the hub, and what it promoted.
type trainer struct {
	*replica
	metrics *prometheus.Registry

	mu      sync.Mutex
	digests []string
}

// train starts one.
func (f *spokes) train(role Role, domains ...string) *trainer {
	f.Helper()
	g := &trainer{metrics: prometheus.NewRegistry()}
	p := blocks()
	p.Role, p.Edges = role, domains
	p.Stage.Observe = func(o plugin.Outcome) {
		if o.Promoted {
			g.mu.Lock()
			g.digests = append(g.digests, o.Live.Model.Digest())
			g.mu.Unlock()
		}
	}
	e, err := New(Options{Conn: f.hub.dial().Conn(), Pipelines: []Pipeline{p}, Logger: f.hub.log, Registerer: g.metrics,
		Wait: 2 * time.Minute})
	if err != nil {
		f.Fatal(err)
	}
	g.replica = f.hub.run(e)
	return g
}

// sums starts a replica at an edge.
func (f *spokes) sums(domain string) *replica {
	f.Helper()
	p := blocks()
	p.Role, p.Models.Hub, p.Edges = RoleTransform, "hub", []string{domain}
	return f.edges[domain].replica(p)
}

// learned waits until the trainer has had so many rows, and returns what it promoted until then.
func (f *spokes) learned(g *trainer, rows int) []string {
	f.Helper()
	f.hub.until(fmt.Sprintf("%d rows are learned", rows), func() bool {
		all := g.Status()
		return len(all) == 1 && all[0].Stage.Seen == rows && all[0].Stage.Backlog == 0 && !all[0].Stage.Fitting
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.digests)
}

// TestSummariesOfAnEdge: the hub learns from what an edge sums up, and the edge answers with what is learned.
func TestSummariesOfAnEdge(t *testing.T) {
	t.Parallel()
	f := newSpokes(t, "berlin")
	for n := range 12*sharedBlock + 3 {
		f.edges["berlin"].store("in.x", numbered(n+1, sharedRows-1))
	}
	g := f.train(RoleTrain, "berlin")
	edge := f.sums("berlin")
	want := f.learned(g, 12*sharedBlock*sharedRows)
	if len(want) == 0 {
		t.Error("no model was promoted")
	}
	f.hub.until("the edge answers", func() bool { return edge.live() != "" && edge.live() == g.live() })
	f.edges["berlin"].acknowledged("p")
}
