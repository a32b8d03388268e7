package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	carried "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/registry"
)

// leafNode is a site whose server is a leaf node of a hub, each in a separate JetStream domain, and the link between
// them.
type leafNode struct {
	*site
	hub *site
	way *carried.Link
	cut atomic.Bool
}

// newLeafNode starts a hub and a leaf node where the daemon's user has the granted permissions; nil: all.
func newLeafNode(t *testing.T, granted *server.Permissions) *leafNode {
	t.Helper()
	port := carried.FreePort(t)
	l := &leafNode{}
	site := func(domain string, leaf server.LeafNodeOpts) *site {
		who := users(nil)
		if domain == "edge" {
			who = users(granted)
		}
		s := &site{T: t, options: server.Options{ServerName: domain, Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
			JetStream: true, JetStreamDomain: domain, StoreDir: t.TempDir(), LeafNode: leaf,
			NoAuthUser: "test", Users: who, AuthTimeout: ample.Seconds()}}
		s.begin()
		return s
	}
	l.hub = site("hub", server.LeafNodeOpts{Host: "127.0.0.1", Port: port, NoAdvertise: true})
	pass := func([]byte) error {
		if l.cut.Load() {
			return errors.New("the way is cut")
		}
		return nil
	}
	var err error
	if l.way, err = carried.New(fmt.Sprint("127.0.0.1:", port), pass, pass); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.way.Close)
	l.site = site("edge", server.LeafNodeOpts{ReconnectInterval: 100 * time.Millisecond,
		Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: l.way.Address()}}}}})
	l.reaches("hub")
	l.make(jetstream.StreamConfig{Name: "in"})
	l.make(jetstream.StreamConfig{Name: "out"})
	l.hub.make(jetstream.StreamConfig{Name: "out"}) // what the edge answers comes here too
	_, err = l.hub.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "in",
		Sources: []*jetstream.StreamSource{{Name: "in", External: &jetstream.ExternalStream{APIPrefix: "$JS.edge.API"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// reaches waits until the site reaches JetStream of a domain.
func (s *site) reaches(domain string) {
	s.Helper()
	js, err := jetstream.NewWithDomain(s.js.Conn(), domain)
	if err != nil {
		s.Fatal(err)
	}
	s.until("JetStream of "+domain+" answers", func() bool {
		_, err := js.AccountInfo(s.Context())
		return err == nil
	})
}

func (l *leafNode) part() { l.cut.Store(true); l.way.Cut() }
func (l *leafNode) join() { l.cut.Store(false) }

// edge is a pipeline whose models come from the hub, and may be stale.
func edge() Pipeline {
	p := holdingPipeline()
	p.Role, p.Models.Hub = RoleTransform, "hub"
	return p
}

// TestEdge: a replica at a leaf node answers with the models of its hub, which learns from its rows. When it is cut
// off, it continues to answer and reports since when. A replica that starts meanwhile answers too. When the hub is
// back, its live model is adopted at once, long before the mirror resumes, and a version that is pinned at the edge is
// pinned at the hub.
func TestEdge(t *testing.T) {
	t.Parallel()
	l := newLeafNode(t, nil)
	p := holdingPipeline()
	p.Role = RoleTrain
	p.Stage.Training.Every.Rows = 1000 // no second model until the hub is cut off
	trainer := l.hub.replica(p)
	first := l.replica(edge())
	l.send(300)
	l.until("the edge answers", func() bool { return first.live() != "" })
	l.acknowledged("p@edge")
	l.once(300)
	l.eventually(func() any { return first.Status() }, func() bool {
		return first.Status()[0].Trainer == "the hub (domain hub) is the trainer"
	})
	l.until("the mirror has the pointer and its model", func() bool { // all that the edge needs to start without its hub
		store, err := registry.JetStream(t.Context(), l.js)
		if err != nil {
			return false
		}
		mirror := registry.New(store, "p", registry.Options{})
		at, err := mirror.Pointer(t.Context())
		if err != nil || at.Live != first.live() {
			return false
		}
		_, err = mirror.Model(t.Context(), at.Live)
		return err == nil
	})

	l.part()
	cutAt := time.Now()
	before := first.live()
	l.send(100)
	l.acknowledged("p@edge")
	hub := l.atHub()
	l.another(hub)
	second := l.replica(edge())
	l.until("one that starts cut off answers with what the mirror has", func() bool { return second.live() == before })
	l.send(50)
	l.acknowledged("p@edge")
	l.once(450)
	for _, r := range []*runner{first, second} {
		l.eventually(func() any { return r.Status() }, func() bool { return r.Status()[0].Ready })
		if s := r.Status()[0]; s.LastHeard.After(cutAt) || r.live() != before {
			t.Errorf("cut off at %v, %s is live, and the hub was heard at %v", cutAt, r.live(), s.LastHeard)
		}
	}
	l.until("the edge says that the hub is away", func() bool {
		return strings.Contains(second.Status()[0].Trainer, "has not answered yet")
	})

	l.join()
	l.until("the newest model is taken", func() bool {
		at, err := hub.Pointer(t.Context())
		return err == nil && at.Live != before && first.live() == at.Live && second.live() == at.Live
	})
	l.pin(first, before)
	l.until("the pin is at the hub, and holds at all", func() bool {
		at, err := hub.Pointer(t.Context())
		return err == nil && at.Pin == before && first.live() == before && second.live() == before &&
			trainer.live() == before
	})
	l.send(50)
	l.acknowledged("p@edge")
	l.once(500)
}

// TestAdoptWithoutRequest: a replica at an edge adopts a model without a request, and cleans the mirror afterwards: the
// registry holds its lock meanwhile.
func TestAdoptWithoutRequest(t *testing.T) {
	t.Parallel()
	l := newLeafNode(t, nil)
	const inbox = "_INBOX_of_the_pipeline" // the hub too sends requests, to read the input
	js, err := jetstream.New(connect(t, l.url(), nats.CustomInboxPrefix(inbox)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(js.Conn().Close)
	e, err := New(Options{Conn: js.Conn(), Pipelines: []Pipeline{edge()}})
	if err != nil {
		t.Fatal(err)
	}
	p := l.open(e, js)
	defer p.close()
	m, err := pair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().FlushTimeout(ample); err != nil { // the server has the requests of opening it
		t.Fatal(err)
	}
	other, requests := l.dial().Conn(), make(chan *nats.Msg, 1<<12)
	if _, err := other.ChanSubscribe("$JS.API.>", requests); err != nil {
		t.Fatal(err)
	}
	asked := func(what string) (n int) { // since the last call
		for _, nc := range []*nats.Conn{js.Conn(), other} {
			if err := nc.FlushTimeout(ample); err != nil {
				t.Fatal(err)
			}
		}
		for range len(requests) {
			if m := <-requests; strings.HasPrefix(m.Reply, inbox) && strings.Contains(m.Subject, what) {
				n++
			}
		}
		return n
	}
	asked("")
	err = p.replica.Adopt(&registry.Choice{Live: &plugin.Live{Model: m, Version: m.Digest()[:16], Epoch: 1}})
	if n := asked(""); n > 0 || err != nil {
		t.Errorf("adopting asks %d times: %v", n, err)
	}
	ctx, end := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	p.replica.Start(ctx, &wg)
	l.until("the mirror is cleaned", func() bool { return asked("OBJ_"+registry.Bucket) > 0 })
}

// TestDoctorAtALeafNode: the schema is the hub's to decide, so doctor reports it there and not at the leaf node, whose
// consumer has another name.
func TestDoctorAtALeafNode(t *testing.T) {
	t.Parallel()
	l := newLeafNode(t, nil)
	hub := holdingPipeline()
	hub.Role = RoleTrain
	l.hub.replica(hub)
	first := l.replica(edge())
	l.send(300)
	l.until("the edge answers", func() bool { return first.live() != "" })
	l.acknowledged("p@edge")
	findings := func(s *site, p Pipeline) (schemas []admin.Finding, faults []admin.Finding) {
		found, err := admin.Diagnose(t.Context(), admin.Options{Conn: s.js.Conn(), Pipelines: []Pipeline{p}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.Check == "schema" {
				schemas = append(schemas, f)
			}
			if f.Level == admin.LevelFault {
				faults = append(faults, f)
			}
		}
		return schemas, faults
	}
	l.until("doctor finds no fault at the leaf node, once the mirror has what the edge read from the hub", func() bool {
		schemas, faults := findings(l.site, edge())
		return len(schemas)+len(faults) == 0
	})
	var schemas []admin.Finding
	l.eventually(func() any { return schemas }, func() bool {
		schemas, _ = findings(l.hub, hub)
		return len(schemas) == 1 && schemas[0].Level == admin.LevelOK &&
			strings.Contains(schemas[0].Text, "the schema is ")
	})
}

// TestHubPermissions: the hub too answers a leaf node's request for the permissions of a user, with those of the leaf
// node connection, which include nothing of JetStream.
func TestHubPermissions(t *testing.T) {
	t.Parallel()
	l := newLeafNode(t, nil)
	a := natsx.MonitorPermissions(l.js.Conn())
	defer a.Stop()
	answers, err := l.js.Conn().SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	asks := natsx.Permission{Action: natsx.Publish, Subject: "$JS.API.INFO"}
	own, hubs := 0, 0
	l.until("both answer", func() bool {
		if err := l.js.Conn().PublishRequest(natsx.UserInfoSubject, answers.Subject, nil); err != nil {
			t.Fatal(err)
		}
		for {
			msg, err := answers.NextMsg(100 * time.Millisecond)
			if err != nil {
				return own > 0 && hubs > 0
			}
			if bytes.Contains(msg.Data, []byte(l.js.Conn().ConnectedServerId())) {
				own++
			} else {
				hubs++
			}
		}
	})
	for range 100 {
		if a.Refresh(t.Context()); !a.IsKnown() || a.IsDenied(asks) {
			t.Fatalf("known: %t, denied: %t", a.IsKnown(), a.IsDenied(asks))
		}
	}
}

// TestEdgePermissions: the permissions that setup prints for a replica at an edge are enough for it.
func TestEdgePermissions(t *testing.T) {
	t.Parallel()
	var rights admin.Permissions
	for _, r := range admin.PermissionsOf([]Pipeline{edge()}, []admin.Plan{{Name: "in", Subjects: []string{"in.>"}},
		{Name: "out", Subjects: []string{"out.>"}}}, admin.Account{}) {
		if r.Role == "daemon" {
			rights = r
		}
	}
	l := newLeafNode(t, &server.Permissions{Publish: &server.SubjectPermission{Allow: rights.Publish},
		Subscribe: &server.SubjectPermission{Allow: rights.Subscribe}})
	if _, err := admin.Setup(t.Context(), l.js, []Pipeline{edge()}, true); err != nil {
		t.Fatal(err)
	}
	p := holdingPipeline()
	p.Role = RoleTrain
	l.hub.replica(p)
	var refused atomic.Pointer[error]
	nc := connect(t, l.server.ClientURL(), nats.UserInfo("embedd", "secret"),
		nats.CustomInboxPrefix(admin.InboxPrefix("", "daemon")),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused.Store(&err) }))
	e, err := New(Options{Conn: nc, Pipelines: []Pipeline{edge()}, Wait: ample})
	if err != nil {
		t.Fatal(err)
	}
	first := l.run(e)
	l.send(300)
	l.until("the edge answers", func() bool { return first.live() != "" })
	l.acknowledged("p@edge")
	l.once(300)
	before := first.live()
	l.another(l.atHub())
	l.until("the newest is taken", func() bool { return first.live() != before })
	l.pin(first, before)
	l.until("what was pinned is taken", func() bool { return first.live() == before })
	if err := refused.Load(); err != nil {
		t.Errorf("the server says: %v", *err)
	}
}

// TestEdgeSetup: setup shows and creates the mirror, and reports a model store in its place or a stream of the hub that
// has the subjects of the edge.
func TestEdgeSetup(t *testing.T) {
	t.Parallel()
	l := newLeafNode(t, nil)
	p := edge()
	plan := func(apply bool) admin.Plan {
		t.Helper()
		plans, err := admin.Setup(t.Context(), l.js, []Pipeline{p}, apply)
		if err != nil {
			t.Fatal(err)
		}
		if len(plans) != 4 || plans[2].Name != registry.Bucket {
			t.Fatalf("the plans are %+v", plans)
		}
		if text := plans[1].Warning; !strings.Contains(text, "stream out of domain hub takes out.x too") {
			t.Errorf("of the hub's stream for out.x the plan says %q", text)
		}
		return plans[2]
	}
	if one := plan(false); one.Exists || one.Problem != "" {
		t.Errorf("without the mirror the plan is %+v", one)
	}
	for range 2 {
		if one := plan(true); !one.Exists {
			t.Errorf("with the mirror the plan is %+v", one)
		}
	}
	if err := l.js.DeleteStream(t.Context(), "KV_"+registry.Bucket); err != nil {
		t.Fatal(err)
	}
	if _, err := l.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: registry.Bucket}); err != nil {
		t.Fatal(err)
	}
	const want = "the model store is not a mirror of domain hub: stream KV_EMBEDD_MODELS exists and holds other models"
	if one := plan(true); one.Exists || !strings.Contains(one.Problem, want) {
		t.Errorf("with a store in its place the plan is %+v", one)
	}
	e, err := New(Options{Conn: l.js.Conn(), Pipelines: []Pipeline{p}, Wait: ample})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("with a store in its place a replica says: %v", err)
	}
	p.Role = RoleAll
	if _, err := New(Options{Conn: l.js.Conn(), Pipelines: []Pipeline{p}}); err == nil || !strings.Contains(err.Error(),
		"give this replica role transform") {
		t.Errorf("a replica that would learn at an edge: %v", err)
	}
}

// atHub is the hub's model store.
func (l *leafNode) atHub() *registry.Registry { return l.hub.atHome() }

// atHome is the model store of the site.
func (s *site) atHome() *registry.Registry {
	s.Helper()
	store, err := registry.JetStream(s.Context(), s.js)
	if err != nil {
		s.Fatal(err)
	}
	return registry.New(store, "p", registry.Options{})
}

// models is the replica's registry.
func (r *runner) models() *registry.Registry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[0].replica.Models
}

// pin pins a version, again while the hub of a busy machine answers too late.
func (l *leafNode) pin(r *runner, version string) {
	l.Helper()
	var err error
	l.eventually(func() any { return err }, func() bool {
		_, err = r.models().Pin(l.Context(), registry.Request{Version: version})
		return err == nil
	})
}

// another stores one more version of the same epoch at the hub.
func (l *leafNode) another(hub *registry.Registry) {
	l.Helper()
	var err error
	save := func() error {
		p, err := hub.Pointer(l.Context())
		if err != nil {
			return err
		}
		m, err := hub.Model(l.Context(), p.Live)
		if err != nil {
			return err
		}
		_, err = hub.Save(l.Context(), &plugin.Release{Model: m, Epoch: p.Find(p.Live).Epoch, Parent: p.Live})
		return err
	}
	l.eventually(func() any { return err }, func() bool {
		err = save()
		return err == nil
	})
}

// TestEdgeAcknowledgesItsOwn: a leaf node keeps JetStream API requests within its domain and forwards acknowledgements,
// which name a stream and a consumer but no domain. A pipeline of the same names behind the hub does not lose its
// pending messages.
func TestEdgeAcknowledgesItsOwn(t *testing.T) {
	t.Parallel()
	l := newLeafNode(t, nil)
	p := holdingPipeline()
	p.Role = RoleTrain
	trainer := l.hub.replica(p)
	e := l.replica(edge())
	l.send(100)
	l.until("the edge answers", func() bool { return e.live() != "" })
	l.acknowledged("p@edge")
	e.end()
	l.send(100)

	ctx := t.Context()
	trainer.end()
	if err := l.hub.js.DeleteConsumer(ctx, "in", needs.ConsumerName("p", "")); err != nil {
		t.Fatal(err)
	}
	hubConsumer, err := l.hub.js.CreateConsumer(ctx, "in", jetstream.ConsumerConfig{Durable: needs.ConsumerName("p", ""),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	l.until("all is at the hub, and held there", func() bool {
		batch, err := hubConsumer.Fetch(200-held, jetstream.FetchMaxWait(time.Second))
		if err == nil {
			for range batch.Messages() {
				held++
			}
		}
		return held == 200
	})
	l.replica(edge())
	l.acknowledged("p@edge")
	info, err := hubConsumer.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if info.NumAckPending != 200 {
		t.Errorf("%d of 200 messages are held at the hub: the edge has acknowledged the others", info.NumAckPending)
	}
}
