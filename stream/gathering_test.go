package stream

import (
	"encoding/json"
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
	"github.com/embedd/embedd/stream/summaries"
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

// trainer is one at the hub, and what it promoted.
type trainer struct {
	*replica
	metrics *prometheus.Registry

	mu      sync.Mutex
	digests []string
}

// train starts one.
func (f *spokes) train(domains ...string) *trainer {
	f.Helper()
	g := &trainer{metrics: prometheus.NewRegistry()}
	p := blocks()
	p.Role, p.Edges = RoleTrain, domains
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

// reached waits until the trainer has learned all that the edges have summed up: so many blocks of each.
func (f *spokes) reached(g *trainer, blocks map[string]int) {
	f.Helper()
	stands := ""
	f.hub.eventually(func() any { return fmt.Sprintf("all of %v is learned; %s", blocks, stands) }, func() bool {
		if len(g.Status()) == 0 {
			return false
		}
		p := g.running[0]
		ledger, err := p.summaries.Ledger(f.Context(), "p", p.created)
		if err != nil {
			f.Fatal(err)
		}
		s := g.Status()[0].Stage
		stands = fmt.Sprintf("the ledger says %+v, %d rows were seen, %d wait", ledger, s.Seen, s.Backlog)
		for domain, n := range blocks {
			if ledger.Edges[domain].Last != uint64(n*sharedBlock) {
				return false
			}
		}
		// What is entered is handed on before it waits again.
		return p.awaited.Load() != nil && s.Backlog == 0 && !s.Fitting
	})
}

// promoted are the digests of the models that went live.
func (g *trainer) promoted() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.digests)
}

// came is how many summaries of an edge came to something.
func (g *trainer) came(edge, result string) (n float64) {
	families, _ := g.metrics.Gather()
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if family.GetName() == "embedd_edge_summaries_total" && one.GetLabel()[0].GetValue() == edge &&
				one.GetLabel()[2].GetValue() == result {
				n = one.GetCounter().GetValue()
			}
		}
	}
	return n
}

// blocks stores messages until an edge has so many blocks, and a few more.
func (f *spokes) blocks(domain string, blocks int) {
	f.Helper()
	for s := f.edges[domain]; s.state("in").LastSeq < uint64(blocks*sharedBlock+3); {
		s.store("in.x", numbered(int(s.state("in").LastSeq)+1, sharedRows-1))
	}
}

// TestSummariesOfEdges: the hub learns from what two edges sum up, each row once, though one edge sends much once more; and
// the edges answer with what it learns. A trainer that is restarted, and a second one that begins anew, come to the same
// models.
func TestSummariesOfEdges(t *testing.T) {
	t.Parallel()
	f := newSpokes(t, "berlin", "paris")
	berlin := f.edges["berlin"]
	for domain := range f.edges {
		f.blocks(domain, 8)
	}
	first := f.train("berlin", "paris")
	replicas := map[string]*replica{"berlin": f.sums("berlin"), "paris": f.sums("paris")}
	f.reached(first, map[string]int{"berlin": 8, "paris": 8})
	for domain, r := range replicas {
		f.hub.until(domain+" answers", func() bool { return r.live() != "" && r.live() == first.live() })
	}
	sent, err := berlin.js.Stream(t.Context(), summaries.EdgeStream)
	if err != nil {
		t.Fatal(err)
	}
	subject := summaries.EdgeSubjects("p")[0]
	third := berlin.stored(summaries.EdgeStream, subject, 8)[2]
	if _, err := berlin.js.Publish(t.Context(), subject, third.Data); err != nil { // what is behind it is sent once more
		t.Fatal(err)
	}
	f.hub.until("what was sent again is at the end", func() bool {
		var n summaries.Notice
		m, err := sent.GetLastMsgForSubject(t.Context(), subject)
		return err == nil && json.Unmarshal(m.Data, &n) == nil && n.Last == 8*sharedBlock && first.came("berlin", edgeDoubled) == 6
	})
	f.reached(first, map[string]int{"berlin": 8, "paris": 8})
	first.end()

	f.blocks("paris", 14)
	f.blocks("berlin", 12)
	second := f.train("berlin", "paris")
	f.reached(second, map[string]int{"berlin": 12, "paris": 14})
	for domain, r := range replicas {
		f.hub.until(domain+" has the newest", func() bool { return r.live() == second.live() })
		f.edges[domain].acknowledged("p")
		r.end()
	}
	second.end()
	if n := first.came("berlin", edgeRefused) + first.came("paris", edgeDoubled) + second.came("berlin", edgeRefused); n != 0 {
		t.Errorf("%g summaries were refused, or are said to be doubled", n)
	}

	f.hub.forget()
	alone := f.train("berlin", "paris")
	f.reached(alone, map[string]int{"berlin": 12, "paris": 14})
	want := alone.promoted()
	if got := slices.Concat(first.promoted(), second.promoted()); len(want) < 2 || !slices.Equal(got, want) {
		t.Errorf("restarted, the trainer came to %v, one alone to %v", got, want)
	}
	if n := alone.Status()[0].Stage.Seen; n != 26*sharedBlock*sharedRows {
		t.Errorf("%d rows are learned, of %d", n, 26*sharedBlock*sharedRows)
	}
}
