package stream

import (
	"context"
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

	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/registry"
)

// cluster is three real servers in this process.
type cluster struct {
	*testing.T
	options []*server.Options
	servers []*server.Server
}

// newCluster starts the servers and waits until one of them leads and knows the others, which only the leader reports.
func newCluster(t *testing.T) *cluster { return newDistantCluster(t, 0) }

// newDistantCluster is newCluster with a delay of what the servers send to each other.
func newDistantCluster(t *testing.T, delay time.Duration) *cluster {
	t.Helper()
	c := &cluster{T: t}
	var routes []*url.URL
	var ports []int
	for range 3 {
		port := carrier.FreePort(t)
		address := fmt.Sprint("127.0.0.1:", port)
		if delay > 0 {
			later := func([]byte) error { time.Sleep(delay); return nil }
			l, err := carrier.New(address, later, later)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Close)
			address = l.Address()
		}
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: address})
	}
	for i, port := range ports {
		c.options = append(c.options, &server.Options{ServerName: fmt.Sprint("s", i), Host: "127.0.0.1",
			Port: carrier.FreePort(t), NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
			Routes:  slices.Delete(slices.Clone(routes), i, i+1),
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port, NoAdvertise: true}})
		c.servers = append(c.servers, nil)
		c.start(i)
		t.Cleanup(func() { c.stop(i) })
	}
	for end := time.Now().Add(ample); ; time.Sleep(50 * time.Millisecond) {
		if slices.ContainsFunc(c.servers, func(s *server.Server) bool { return len(s.JetStreamClusterPeers()) == 3 }) {
			return c
		}
		if time.Now().After(end) {
			t.Fatal("the servers do not find one another")
		}
	}
}

func (c *cluster) start(i int) {
	c.Helper()
	options := *c.options[i]
	s, err := server.NewServer(&options)
	if err != nil {
		c.Fatal(err)
	}
	c.servers[i] = s
	go s.Start()
	if !s.ReadyForConnections(ample) {
		c.Fatal("a server does not start")
	}
}

func (c *cluster) stop(i int) {
	c.servers[i].Shutdown()
	c.servers[i].WaitForShutdown()
}

// urls are the addresses of the servers, the given one first.
func (c *cluster) urls(first int) string {
	var out []string
	for i := range c.servers {
		out = append(out, c.servers[(first+i)%len(c.servers)].ClientURL())
	}
	return strings.Join(out, ",")
}

// dial connects to one of the servers, and to another where that is gone.
func (c *cluster) dial(first int) jetstream.JetStream {
	c.Helper()
	nc := connect(c.T, c.urls(first), nats.DontRandomize())
	c.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.Fatal(err)
	}
	return js
}

// TestSetupInACluster: resources are created with three replicas on three servers; one with a single replica is
// reported with a fix, and the fix works. Resources that setup did not create are left unchanged.
func TestSetupInACluster(t *testing.T) {
	c := newCluster(t)
	js := c.dial(0)
	ctx, cancel := context.WithTimeout(t.Context(), 2*ample)
	defer cancel()
	created, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead.>"}})
	if err != nil {
		t.Fatal(err)
	}
	one := piped("a", "IN", "in.a", "out.a")
	store := piped("b", "IN", "in.a", "out.a")
	store.Models = Models{}
	replicas := func(name string) int {
		t.Helper()
		s, err := natsx.AwaitStream(ctx, js, name) // a new leader of the cluster may not know yet what was created
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config.Replicas
	}
	begin := time.Now()
	if _, err := (admin.Streams{Replicas: 1}).Setup(ctx, js, []Pipeline{store}, true); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"IN", "OUT", "KV_EMBEDD_MODELS", "OBJ_EMBEDD_MODELS", "KV_EMBEDD_LEASES",
		"KV_EMBEDD_STATE"} {
		if n := replicas(name); n != 1 {
			t.Errorf("stream %s has %d replicas, and one was asked for", name, n)
		}
	}
	plans, err := admin.Streams{Replicas: 3}.Setup(ctx, js, []Pipeline{store}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plans {
		if p.RaisesReplicas == (p.Name == "DEAD") || (p.Warning != "") != (p.Name == "DEAD") {
			t.Errorf("asked for three: %+v", p)
		}
	}
	// Only the streams, as a user does who does not know the store.
	if _, err := (admin.Streams{Replicas: 3}).Setup(ctx, js, []Pipeline{one}, true); err != nil {
		t.Fatal(err)
	}
	if plans, err = admin.Setup(ctx, js, []Pipeline{store}, false); err != nil {
		t.Fatal(err)
	}
	for _, p := range plans {
		raises := strings.Contains(p.Warning, "`embedd setup --apply --replicas 3` raises it")
		if store := p.Name == registry.Bucket || p.Name == lease.BucketName; store && !raises {
			t.Errorf("a store of one replica under streams of three: %+v", p)
		}
	}
	if _, err := (admin.Streams{Replicas: 3}).Setup(ctx, js, []Pipeline{store}, true); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"IN", "OUT", "KV_EMBEDD_MODELS", "OBJ_EMBEDD_MODELS", "KV_EMBEDD_LEASES",
		"KV_EMBEDD_STATE"} {
		if n := replicas(name); n != 3 {
			t.Errorf("stream %s has %d replicas, and three were asked for", name, n)
		}
	}
	if n := replicas("DEAD"); n != created.CachedInfo().Config.Replicas {
		t.Errorf("a stream that setup did not make has %d replicas now", n)
	}
	for _, name := range []string{"IN", "OUT", "KV_EMBEDD_MODELS", "OBJ_EMBEDD_MODELS", "KV_EMBEDD_LEASES",
		"KV_EMBEDD_STATE"} {
		if err := js.DeleteStream(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.Setup(ctx, js, []Pipeline{store}, true); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"IN", "OUT", "KV_EMBEDD_MODELS", "OBJ_EMBEDD_MODELS", "KV_EMBEDD_LEASES",
		"KV_EMBEDD_STATE"} {
		if n := replicas(name); n != 3 {
			t.Errorf("stream %s has %d replicas by itself", name, n)
		}
	}
	t.Logf("after the election it took %v", time.Since(begin).Round(time.Millisecond))
}

// TestColdStarts: replicas that start concurrently on three empty servers, on a busy machine too, all open and answer:
// none ends because a server does not know yet what another replica has created. It is not parallel: with other
// tests on two busy cores, the servers do not answer in the five seconds that a replica waits.
func TestColdStarts(t *testing.T) {
	sizes := []int{4}
	if testsize.Soak() {
		sizes = slices.Repeat([]int{2, 4, 8}, 34)
	}
	var spread []time.Duration
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) { spread = append(spread, coldStart(t, size)) })
	}
	if len(spread) == 0 {
		return // each round has failed
	}
	slices.Sort(spread)
	t.Logf("%d rounds; the last replica opened after the first: %v in the median, %v at most", len(spread),
		spread[len(spread)/2].Round(time.Millisecond), spread[len(spread)-1].Round(time.Millisecond))
}

// coldStart starts replicas on an empty cluster. It returns how long after the first the last one was open.
func coldStart(t *testing.T, size int) time.Duration {
	c := newCluster(t)
	s := &site{T: t, js: slowJetStream(t, c.dial(0).Conn())}
	for _, name := range []string{"in", "out"} {
		s.make(jetstream.StreamConfig{Name: name, Replicas: 3})
	}
	replicas := make([]*runner, size)
	for i := range replicas {
		replicas[i] = s.replicaAt(c.urls(i), holdingPipeline())
	}
	var first, last time.Time
	s.until("all are open", func() bool {
		for _, r := range replicas {
			if len(r.Status()) == 0 {
				return false
			}
			if first.IsZero() {
				first = time.Now()
			}
		}
		last = time.Now()
		return true
	})
	s.send(250)
	s.until("all answer", func() bool {
		return !slices.ContainsFunc(replicas, func(r *runner) bool { return r.live() == "" || !r.Status()[0].Ready })
	})
	s.acknowledged("p")
	s.once(250)
	for _, r := range replicas {
		r.end()
	}
	return last.Sub(first)
}

// TestStopInACluster: replicas that are replaced in turn leave no input to wait for the ack wait. The server that sends
// the inputs is another than the one that receives the end of a pull, and knows of that later.
func TestStopInACluster(t *testing.T) {
	t.Parallel()
	c := newDistantCluster(t, 2*time.Millisecond)
	s := &site{T: t, js: slowJetStream(t, c.dial(0).Conn())}
	for _, name := range []string{"in", "out"} {
		s.make(jetstream.StreamConfig{Name: name, Replicas: 1})
	}
	in, err := s.js.Stream(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	leader := slices.IndexFunc(c.servers, func(one *server.Server) bool {
		return one.Name() == in.CachedInfo().Cluster.Leader
	})
	s.js = slowJetStream(t, c.dial(leader).Conn())
	var released atomic.Int64 // inputs that a replica gave back as it stopped
	_, err = s.js.Conn().Subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.in.>", func(*nats.Msg) { released.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	var last *runner
	for range testsize.Of(3, 10) {
		next := s.replicaAt(c.urls(leader+1), answerer(t))
		s.until("a replica has opened", func() bool { return len(next.Status()) > 0 && next.Status()[0].Ready })
		s.send(20)
		if last != nil {
			var wg sync.WaitGroup
			wg.Go(last.end)
			s.send(300)
			wg.Wait()
		}
		last = next
	}
	s.send(20)
	s.acknowledged("p")
	s.once(s.sent)
	last.end()
	s.until("every delivery is the first of an input, or follows a release", func() bool {
		c, err := s.js.Consumer(t.Context(), "in", needs.ConsumerName("p", ""))
		if err != nil {
			t.Fatal(err)
		}
		return int64(c.CachedInfo().Delivered.Consumer)-released.Load() == int64(s.sent)
	})
}

// TestStartWaitsForALeader: a daemon that starts while the cluster has no leader opens its pipelines once it has one.
func TestStartWaitsForALeader(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("a cluster that lost its leader elects one after four to nine seconds; EMBEDD_SOAK=1 runs it")
	}
	c := newCluster(t)
	js := c.dial(0)
	p := answerer(t)
	if _, err := admin.Setup(t.Context(), js, []Pipeline{p}, true); err != nil {
		t.Fatal(err)
	}
	c.stop(1)
	c.stop(2)
	for _, slowJetStream := range []bool{false, true} {
		o := Options{Conn: c.dial(0).Conn(), Pipelines: []Pipeline{p}}
		ctx, cancel := context.WithCancel(t.Context())
		if slowJetStream {
			o.Wait = 2 * time.Minute
			time.AfterFunc(7*time.Second, func() { c.start(1) })
		}
		o.Opened = cancel
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Run(ctx); (err == nil) != slowJetStream {
			t.Errorf("slowJetStream %v: %v", slowJetStream, err)
		}
		cancel()
	}
	c.start(2)
}

// TestLeaderOfTheLeasesDies: three replicas on three servers; the server that leads the bucket of leases is stopped and
// restarted repeatedly. One replica continues to train each time, every input is answered once, and each pointer
// follows the one before.
func TestLeaderOfTheLeasesDies(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("elections take seconds each; EMBEDD_SOAK=1 runs it")
	}
	c := newCluster(t)
	s := &site{T: t, js: c.dial(0)}
	for _, name := range []string{"in", "out"} {
		s.make(jetstream.StreamConfig{Name: name, Replicas: 3})
	}
	var replicas []*runner
	for i := range 3 {
		p := holdingPipeline()
		p.Lease = lease.MinTTL
		replicas = append(replicas, s.replicaAt(c.urls(i), p))
	}
	one := func() bool { return len(holders(replicas)) == 1 }
	s.until("one learns", one)
	s.send(300)
	s.until("it stores a model", func() bool { return replicas[0].live() != "" })
	h := s.history()
	for range 3 {
		leases, err := s.js.Stream(t.Context(), lease.Stream)
		if err != nil {
			t.Fatal(err)
		}
		leader := slices.IndexFunc(c.servers, func(one *server.Server) bool {
			return one.Name() == leases.CachedInfo().Cluster.Leader
		})
		begin := time.Now()
		c.stop(leader)
		s.until("no replica trains, or another one does", func() bool {
			info, err := leases.Info(t.Context())
			return err == nil && info.Cluster.Leader != "" && info.Cluster.Leader != c.options[leader].ServerName && one()
		})
		took := time.Since(begin)
		s.send(100)
		s.acknowledged("p")
		t.Logf("one learns again after %v", took.Round(time.Millisecond))
		if took > 40*time.Second {
			t.Errorf("no replica trained for %v", took)
		}
		c.start(leader)
		s.until("the servers are one cluster again", func() bool {
			info, err := leases.Info(t.Context())
			return err == nil && len(info.Cluster.Replicas) == 2 && info.Cluster.Replicas[0].Current &&
				info.Cluster.Replicas[1].Current
		})
	}
	s.once(s.sent)
	if v := h.violations(); v != nil {
		t.Errorf("of %d pointers: %q", h.read(), v)
	}
}
