package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	carried "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/internal/summaries"
)

// hubAndEdges is a hub and its edges, with the link of each.
type hubAndEdges struct {
	*testing.T
	hub   *site
	edges map[string]*site
	ways  map[string]*way
}

// way is the link of an edge to its hub.
type way struct {
	*carried.Link
	cut   atomic.Bool
	bytes atomic.Int64 // to the hub
}

// newHubAndEdges starts a hub and edges with these domains.
func newHubAndEdges(t *testing.T, domains ...string) *hubAndEdges {
	t.Helper()
	port := carried.FreePort(t)
	f := &hubAndEdges{T: t, edges: map[string]*site{}, ways: map[string]*way{}}
	f.hub = f.site("hub", server.LeafNodeOpts{Host: "127.0.0.1", Port: port, NoAdvertise: true})
	for _, domain := range domains {
		w := &way{}
		up := func(b []byte) error {
			w.bytes.Add(int64(len(b)))
			return w.passes()
		}
		var err error
		if w.Link, err = carried.New(fmt.Sprint("127.0.0.1:", port), up,
			func([]byte) error { return w.passes() }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		f.ways[domain] = w
		f.edges[domain] = f.site(domain, server.LeafNodeOpts{ReconnectInterval: 100 * time.Millisecond,
			Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: w.Address()}},
				DenyExports: []string{"in.>", "out.>"}}}})
		f.edges[domain].reaches("hub")
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

func (f *hubAndEdges) site(domain string, leaf server.LeafNodeOpts) *site {
	f.Helper()
	s := &site{T: f.T, options: server.Options{ServerName: domain, Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
		JetStream: true, JetStreamDomain: domain, StoreDir: f.TempDir(), LeafNode: leaf, NoAuthUser: "test",
		Users: users(nil), AuthTimeout: ample.Seconds()}}
	p := blockPipeline()
	p.Role, p.Edges = RoleTrain, []string{"berlin"}
	if domain != "hub" {
		p = edgePipeline(domain)
	}
	least := admin.PermissionsOf([]Pipeline{p}, []admin.Plan{{Name: "in", Subjects: []string{"in.>"}},
		{Name: "out", Subjects: []string{"out.>"}}}, admin.Account{})[0]
	s.options.Users = users(&server.Permissions{Publish: &server.SubjectPermission{Allow: least.Publish},
		Subscribe: &server.SubjectPermission{Allow: least.Subscribe}})
	s.begin()
	return s
}

// part cuts an edge off, rejoin brings it back.
func (f *hubAndEdges) part(domain string)   { f.ways[domain].cut.Store(true); f.ways[domain].Cut() }
func (f *hubAndEdges) rejoin(domain string) { f.ways[domain].cut.Store(false) }

// blockPipeline is a pipeline that is learned from summaries.
func blockPipeline() Pipeline {
	p := holdingPipeline()
	p.Lease = longLease
	p.Stage.Training.Block, p.Stage.Training.Window.Rows = sharedBlock, 1500
	p.Stage.Training.Gate.MoreRows = 1.15 // the rows of a message are alike, and count as few
	return p
}

// trainer is a trainer at the hub, and what it promoted.
type trainer struct {
	*runner
	metrics *prometheus.Registry

	mu      sync.Mutex
	digests []string
}

// train starts a trainer with the minimum of permissions, after setup has created what it needs.
func (f *hubAndEdges) train(domains ...string) *trainer {
	f.Helper()
	return f.trainAs(nats.UserInfo("embedd", "secret"), domains...)
}

func (f *hubAndEdges) trainAs(login nats.Option, domains ...string) *trainer {
	f.Helper()
	g := &trainer{metrics: prometheus.NewRegistry()}
	p := blockPipeline()
	p.Role, p.Edges = RoleTrain, domains
	p.Stage.Observe = func(o plugin.Outcome) {
		if o.Promoted {
			g.mu.Lock()
			g.digests = append(g.digests, o.Live.Model.Digest())
			g.mu.Unlock()
		}
	}
	if _, err := admin.Setup(f.Context(), f.hub.js, []Pipeline{p}, true); err != nil {
		f.Fatal(err)
	}
	nc := connect(f.T, f.hub.server.ClientURL(), login, nats.CustomInboxPrefix(admin.InboxPrefix("", "daemon")),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { f.Errorf("the hub says: %v", err) }))
	e, err := New(Options{Conn: nc, Pipelines: []Pipeline{p}, Logger: f.hub.log, Registerer: g.metrics, Wait: ample})
	if err != nil {
		f.Fatal(err)
	}
	g.runner = f.hub.run(e)
	return g
}

// sums starts a replica at an edge with the least rights, after setup has made what it needs.
func (f *hubAndEdges) sums(domain string) *runner {
	f.Helper()
	p, s := edgePipeline(domain), f.edges[domain]
	if _, err := admin.Setup(f.Context(), s.js, []Pipeline{p}, true); err != nil {
		f.Fatal(err)
	}
	return f.opened(domain, s.replicaAt("nats://embedd:secret@"+strings.TrimPrefix(s.url(), "nats://"), p,
		nats.CustomInboxPrefix(admin.InboxPrefix("", "daemon"))))
}

// edgePipeline is a pipeline of an edge whose hub learns from its summaries.
func edgePipeline(domain string) Pipeline {
	p := blockPipeline()
	p.Role, p.Models.Hub, p.Edges = RoleTransform, "hub", []string{domain}
	return p
}

// summing starts a replica at an edge, and waits until it has created the stream to which it sends.
func (f *hubAndEdges) summing(domain string, p Pipeline) *runner {
	f.Helper()
	return f.opened(domain, f.edges[domain].replica(p))
}

// opened waits until a replica of an edge is open.
func (f *hubAndEdges) opened(domain string, r *runner) *runner {
	f.Helper()
	f.edges[domain].until("the replica of "+domain+" is open", func() bool {
		_, err := f.edges[domain].js.Stream(f.Context(), summaries.EdgeStream)
		return err == nil && len(r.Status()) > 0
	})
	return r
}

// reached waits until the trainer has learned the given number of blocks of each edge.
func (f *hubAndEdges) reached(g *trainer, blocks map[string]int) {
	f.Helper()
	progress := ""
	stored, err := summaries.Open(f.Context(), f.hub.js, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.hub.eventually(func() any { return fmt.Sprintf("all of %v is learned; %s", blocks, progress) }, func() bool {
		if len(g.Status()) == 0 {
			return false
		}
		p := g.running[0]
		ledger, err := stored.LoadLedger(f.Context(), "p", p.Created)
		if err != nil {
			f.Fatal(err)
		}
		s := g.Status()[0].Stage
		progress = fmt.Sprintf("the ledger says %+v, %d rows were seen, %d wait", ledger, s.Received, s.Backlog)
		for domain, n := range blocks {
			if lives := ledger.Edges[domain]; len(lives) == 0 || lives[len(lives)-1].Last != uint64(n*sharedBlock) {
				return false
			}
		}
		// What is entered is handed on before it waits again.
		return p.blocks.Waiting() != "" && s.Backlog == 0 && !s.Fitting
	})
}

// promoted are the digests of the models that went live.
func (g *trainer) promoted() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.digests)
}

// came is the number of summaries of an edge with the given result.
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

// blocks stores messages until an edge has the given number of blocks, and a few messages more.
func (f *hubAndEdges) blocks(domain string, blocks int) {
	f.Helper()
	for s := f.edges[domain]; s.state("in").LastSeq < uint64(blocks*sharedBlock+3); {
		s.store("in.x", numbered(int(s.state("in").LastSeq)+1, sharedRows-1))
	}
}

// TestSummariesOfEdges: the hub learns from the summaries of two edges, each row once, although one edge sends many of
// them twice. The edges answer with its models. A trainer that is restarted, and a second one that starts again, train
// the same models.
func TestSummariesOfEdges(t *testing.T) {
	t.Parallel()
	f := newHubAndEdges(t, "berlin", "paris")
	berlin := f.edges["berlin"]
	for domain := range f.edges {
		f.blocks(domain, 8)
	}
	// The edges first: a server that does not find a source asks again after up to a minute.
	replicas := map[string]*runner{"berlin": f.sums("berlin"), "paris": f.sums("paris")}
	first := f.train("berlin", "paris")
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
		return err == nil && json.Unmarshal(m.Data, &n) == nil && n.Last == 8*sharedBlock &&
			first.came("berlin", "duplicate") == 6
	})
	f.reached(first, map[string]int{"berlin": 8, "paris": 8})
	first.end()

	f.blocks("paris", 14)
	f.blocks("berlin", 12)
	second := f.train("berlin", "paris")
	f.reached(second, map[string]int{"berlin": 12, "paris": 14})
	for domain, r := range replicas {
		f.hub.until(domain+" has the newest", func() bool { return r.live() == second.live() })
		f.edges[domain].acknowledged("p@" + domain)
		r.end()
	}
	second.end()
	if n := first.came("berlin", "rejected") + first.came("paris", "duplicate") +
		second.came("berlin", "rejected"); n != 0 {
		t.Errorf("%g summaries were refused, or are said to be doubled", n)
	}

	f.hub.forget()
	alone := f.train("berlin", "paris")
	f.reached(alone, map[string]int{"berlin": 12, "paris": 14})
	arrived, err := f.hub.js.Stream(t.Context(), summaries.HubStream)
	if err != nil {
		t.Fatal(err)
	}
	p := blockPipeline()
	p.Role, p.Edges = RoleTrain, []string{"berlin", "paris"}
	const outlived = "begins with message"
	if _, all := f.hub.examined(p); strings.Contains(all, outlived) {
		t.Errorf("nothing has left the stream, and check says %s", all)
	}
	alone.end()
	if err := arrived.Purge(t.Context(), jetstream.WithPurgeKeep(2)); err != nil {
		t.Fatal(err)
	}
	if _, all := f.hub.examined(p); !strings.Contains(all, outlived) {
		t.Errorf("what the window has left the stream, and check says %s", all)
	}
	want := alone.promoted()
	if got := slices.Concat(first.promoted(), second.promoted()); len(want) < 2 || !slices.Equal(got, want) {
		t.Errorf("restarted, the trainer promoted %v, one alone %v", got, want)
	}
	if n := alone.Status()[0].Stage.Received; n != 26*sharedBlock*sharedRows {
		t.Errorf("%d rows are learned, of %d", n, 26*sharedBlock*sharedRows)
	}
}

// planned is what setup reports of one of our streams at a site.
func (s *site) planned(p Pipeline, name string, apply bool) admin.Plan {
	s.Helper()
	plans, err := admin.Setup(s.Context(), s.js, []Pipeline{p}, apply)
	if err != nil {
		s.Fatal(err)
	}
	for _, one := range plans {
		if one.Name == name {
			return one
		}
	}
	s.Fatalf("the plans %+v have no %s", plans, name)
	return admin.Plan{}
}

// TestSetupOfEdges: setup shows and creates what edges and hub need, and reports settings that do not match. Summaries
// with other settings are refused, counted and reported, and training continues with those that match.
func TestSetupOfEdges(t *testing.T) {
	t.Parallel()
	f := newHubAndEdges(t, "berlin")
	berlin := f.edges["berlin"]
	at := blockPipeline()
	at.Role, at.Models.Hub, at.Edges = RoleTransform, "hub", []string{"rome"}
	if text := berlin.planned(at, summaries.EdgeStream, true).Problem; !strings.Contains(text,
		`the JetStream domain of this server is "berlin"`) {
		t.Errorf("of a domain that is not named the plan says %q", text)
	}
	at.Edges = []string{"berlin"}
	if one := berlin.planned(at, summaries.EdgeStream, false); one.Exists {
		t.Errorf("before it is made the plan of an edge is %+v", one)
	}
	if one := berlin.planned(at, summaries.EdgeStream, true); !one.Exists {
		t.Errorf("the plan of the edge is %+v", one)
	}
	berlin.until("the edge reports that the hub does not know it", func() bool { // once the way is there
		return strings.Contains(berlin.planned(at, summaries.EdgeStream, false).Warning, "the hub (domain hub) does not "+
			"take the summaries of berlin")
	})
	hub := blockPipeline()
	hub.Role, hub.Edges = RoleTrain, []string{"berlin"}
	if one := f.hub.planned(hub, summaries.HubStream, true); !one.Exists || one.Outdated {
		t.Errorf("the plan of the hub is %+v", one)
	}
	if one := berlin.planned(at, summaries.EdgeStream, false); one.Warning != "" {
		t.Errorf("the plan of the edge is %+v", one)
	}
	hub.Edges = []string{"berlin", "moon"}
	if one := f.hub.planned(hub, summaries.HubStream, false); one.Exists || !slices.Equal(one.Subjects, []string{"moon"}) {
		t.Errorf("with one edge more the plan of the hub is %+v", one)
	}
	if one := f.hub.planned(hub, summaries.HubStream, true); !one.Exists {
		t.Errorf("with one edge more the plan of the hub is %+v", one)
	}
	f.hub.until("the missing edge is reported", func() bool {
		return strings.Contains(f.hub.planned(hub, summaries.HubStream, false).Warning, "no message from edge moon")
	})
	hub.Role = RoleAll
	if _, err := hub.WithDefaults(); err == nil || !strings.Contains(err.Error(), "give this replica role train") {
		t.Errorf("a replica of the hub that would answer: %v", err)
	}

	f.blocks("berlin", 2)
	g := f.train("berlin", "moon")
	at.Stage.Training.Holdout = 0.3
	other := f.summing("berlin", at)
	f.hub.until("what has other settings is refused", func() bool {
		return g.came("berlin", "rejected") == 2 && g.running[0].blocks.Waiting() != ""
	})
	if s := g.Status()[0]; s.Stage.Received != 0 || !strings.Contains(s.InputEvent, "its summaries have other settings") {
		t.Errorf("refused, %d rows are learned, and the status says %q", s.Stage.Received, s.InputEvent)
	}
	if n := dropped(t, g.metrics); n != 2*sharedBlock {
		t.Errorf("%g messages are counted as not learned from, of %d", n, 2*sharedBlock)
	}
	other.end()
	f.blocks("berlin", 6)
	f.sums("berlin")
	f.reached(g, map[string]int{"berlin": 6})
	if n := g.Status()[0].Stage.Received; n != 4*sharedBlock*sharedRows {
		t.Errorf("%d rows are learned, of %d", n, 4*sharedBlock*sharedRows)
	}
}

// TestEdgesAgreeOnTheSchema: the hub adds up what its edges counted, and the schema of most messages becomes that of
// all. An edge whose own messages mostly have another schema makes no summary before it knows the result.
func TestEdgesAgreeOnTheSchema(t *testing.T) {
	t.Parallel()
	f := newHubAndEdges(t, "berlin", "paris")
	const odd = 25
	for n := range odd {
		f.edges["berlin"].store("in.x", arrowRows(n+1, 0, 2)) // too few rows for a model
	}
	f.blocks("berlin", 4) // 18 others
	f.sums("berlin")
	f.blocks("paris", 3)
	f.sums("paris")
	g := f.train("berlin", "paris")
	f.reached(g, map[string]int{"berlin": 4, "paris": 3})
	f.hub.until("a model is live", func() bool { return g.live() != "" })
	if m := g.Status()[0].Stage.Live.Model; m.M() != 4 {
		t.Errorf("the model has %d features", m.M())
	}
	if n := g.came("berlin", "rejected") + g.came("paris", "rejected"); n != 0 {
		t.Errorf("%g summaries are refused", n)
	}
	if n := dropped(t, g.metrics); n != odd {
		t.Errorf("%g messages are counted as not learned, of %d", n, odd)
	}
	p := blockPipeline()
	p.Role, p.Edges = RoleTrain, []string{"berlin", "paris"}
	stored, err := admin.ReadSchema(t.Context(), f.hub.js, p)
	if err != nil || !stored.Contract.Equal(g.Status()[0].Contract) {
		t.Errorf("the stored schema is %v: %v", stored.Contract, err)
	}
}

// TestEdgesComeAndGo: an edge that was cut off sends the summaries that it made meanwhile, and one that has lost its
// disk starts again.
func TestEdgesComeAndGo(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("a server asks again for a source that was away after up to a minute; EMBEDD_SOAK=1 runs it")
	}
	t.Parallel()
	f := newHubAndEdges(t, "berlin")
	berlin := f.edges["berlin"]
	f.blocks("berlin", 4)
	edge := f.sums("berlin")
	g := f.train("berlin")
	f.reached(g, map[string]int{"berlin": 4})
	f.part("berlin")
	f.blocks("berlin", 6)
	berlin.until("the edge sums up, cut off", func() bool {
		var n summaries.Notice
		s, err := berlin.js.Stream(t.Context(), summaries.EdgeStream)
		if err != nil {
			return false
		}
		m, err := s.GetLastMsgForSubject(t.Context(), summaries.EdgeSubjects("p")[0])
		return err == nil && json.Unmarshal(m.Data, &n) == nil && n.Last == 6*sharedBlock
	})
	f.rejoin("berlin")
	f.reached(g, map[string]int{"berlin": 6})
	edge.end()
	for _, name := range []string{"in", summaries.EdgeStream, summaries.Stream} { // the mirrors of the models stay
		if err := berlin.js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	berlin.make(jetstream.StreamConfig{Name: "in"})
	f.blocks("berlin", 5)
	f.sums("berlin")
	f.reached(g, map[string]int{"berlin": 5})
	if n := g.Status()[0].Stage.Received; n != 11*sharedBlock*sharedRows || g.came("berlin", "learned") != 11 {
		t.Errorf("%d rows of %g summaries are learned, of %d", n, g.came("berlin", "learned"), 11*sharedBlock*sharedRows)
	}
}
