package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/stream/registry"
)

// TestEdgesKilled: two edges with two replicas each summarise what their hub learns. Meanwhile replicas of the edges
// and the trainer are killed (-9), and each edge is cut off for a while. Each block is learned once, the link to the
// hub carries a small part of the rows' bytes, and a trainer that starts afterwards learns the same models.
func TestEdgesKilled(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it")
	}
	const rows, block, blocks = 256, 32, 10
	port := link.FreePort(t)
	hub := startServer(t, func(o *server.Options) {
		o.ServerName, o.JetStreamDomain = "hub", "hub"
		o.LeafNode = server.LeafNodeOpts{Host: "127.0.0.1", Port: port, NoAdvertise: true}
	})
	h := dial(t, hub.ClientURL())
	js := must(jetstream.New(h.nc))(t)
	start := func(url, keys, role string) *daemon {
		path := filepath.Join(t.TempDir(), "embedd.yaml")
		write(t, path, fmt.Sprintf(`daemon: {role: %s}
nats: {url: %q, wait: 30s, lease: 2s, %s}
http: {listen: 127.0.0.1:0}
pipelines:
  p:
    input: {stream: FEATURES, subject: features.p}
    schema: {features: [pixels], label: label}
    output: {subject: reduced.p, dead: dead.p}
    model: {method: lda, dim: 9}
    training: {block: %d, window: {rows: 60000}, every: {rows: 10000, period: none}}
`, role, url, keys, block))
		return startDaemon(t, path)
	}
	train := func() *daemon { return start(hub.ClientURL(), "edges: [berlin, paris]", "train") }

	type edge struct {
		c       *client
		cut     atomic.Bool
		carried atomic.Int64
		way     *link.Link
		sums    [2]*daemon
		start   func() *daemon
	}
	edges := map[string]*edge{}
	for _, domain := range []string{"berlin", "paris"} {
		e := &edge{}
		pass := func([]byte) error {
			if e.cut.Load() {
				return errors.New("the way is cut")
			}
			return nil
		}
		up := func(b []byte) error {
			e.carried.Add(int64(len(b)))
			return pass(b)
		}
		e.way = must(link.New(fmt.Sprint("127.0.0.1:", port), up, pass))(t)
		t.Cleanup(e.way.Close)
		leaf := startServer(t, func(o *server.Options) {
			o.ServerName, o.JetStreamDomain = domain, domain
			o.LeafNode = server.LeafNodeOpts{Remotes: []*server.RemoteLeafOpts{{
				URLs:        []*url.URL{{Scheme: "nats", Host: e.way.Address()}},
				DenyExports: []string{"features.>", "reduced.>", "dead.>"}}}}
		})
		e.c = dial(t, leaf.ClientURL())
		e.c.streams()
		e.start = func() *daemon { return start(leaf.ClientURL(), "hub: hub, edges: ["+domain+"]", "transform") }
		e.sums = [2]*daemon{e.start(), e.start()}
		edges[domain] = e
	}
	trainer := train()
	g := digits(t)
	bytes, kills := map[string]int{}, 0
	for n := range block * blocks {
		for domain, e := range edges {
			from := n * rows % (g.n - rows)
			m := g.message(t, from, from+rows, true)
			bytes[domain] += len(m)
			e.c.send("features.p", m)
		}
		switch berlin, paris := edges["berlin"], edges["paris"]; {
		case n%40 == 10:
			berlin.sums[kills%2].kill()
			berlin.sums[kills%2] = berlin.start()
			kills++
		case n%40 == 20:
			paris.sums[kills%2].kill()
			paris.sums[kills%2] = paris.start()
			kills++
		case n%60 == 30:
			trainer.kill()
			trainer = train()
			kills++
		case n == 100:
			paris.cut.Store(true)
			paris.way.Cut()
		case n == 150:
			paris.cut.Store(false)
			berlin.cut.Store(true)
			berlin.way.Cut()
		case n == 200:
			berlin.cut.Store(false)
		}
		time.Sleep(50 * time.Millisecond)
	}
	// learned waits until the trainer has learned all blocks, and returns the digests of the promoted models.
	learned := func(d *daemon) (digests []string) {
		t.Helper()
		in := must(js.Stream(t.Context(), hubStream))(t)
		ledgers := must(js.Stream(t.Context(), summaryStream))(t)
		key := "$KV.EMBEDD_SUMMARIES.p.edges." + strconv.FormatInt(in.CachedInfo().Created.UnixNano(), 36)
		progress := ""
		eventually(t, func() string { return "all blocks are learned; " + progress }, func() bool {
			m, err := ledgers.GetLastMsgForSubject(t.Context(), key)
			var ledger struct {
				Edges map[string][]struct{ Last uint64 }
			}
			if err != nil || json.Unmarshal(m.Data, &ledger) != nil {
				return false
			}
			progress = fmt.Sprintf("%+v", ledger)
			for domain := range edges {
				if all := ledger.Edges[domain]; len(all) != 1 || all[0].Last != block*blocks {
					return false
				}
			}
			return d.metric(`embedd_training_backlog_rows{pipeline="p"}`) == "0"
		})
		time.Sleep(5 * time.Second) // the last fit
		store := must(registry.JetStream(t.Context(), js))(t)
		for _, v := range must(registry.New(store, "p", registry.Options{}).Pointer(t.Context()))(t).Versions {
			digests = append(digests, v.Digest)
		}
		return digests
	}
	together := learned(trainer)
	for domain, e := range edges {
		share := float64(bytes[domain]) / float64(e.carried.Load())
		t.Logf("%s: %d messages with %d bytes, %d bytes on the way to the hub: one of %.1f",
			domain, block*blocks, bytes[domain],
			e.carried.Load(), share)
		if share < 15 {
			t.Errorf("the way from %s carries one byte of %.1f", domain, share)
		}
		e.c.settled("FEATURES", "p@"+domain)
		if a := e.c.answers("REDUCED"); len(a.sources) != block*blocks || len(a.bySource) != block*blocks {
			t.Errorf("%s: %d outputs of %d inputs, and %d were sent", domain, len(a.sources), len(a.bySource), block*blocks)
		}
		for _, d := range e.sums {
			d.end(syscall.SIGTERM)
		}
	}
	trainer.end(syscall.SIGTERM)
	t.Logf("%d processes killed, %d models", kills, len(together))
	for _, name := range append(registry.Streams(), leaseStream, summaryStream) {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	alone := train()
	if got := learned(alone); len(got) < 2 || !slices.Equal(got, together) {
		t.Errorf("alone\n%v\ntogether\n%v", got, together)
	}
	for domain := range edges {
		series := `embedd_edge_summaries_total{edge="` + domain + `",pipeline="p",result=%q}`
		alone.awaitMetric(fmt.Sprintf(series, "learned"), fmt.Sprint(blocks))
		if n := alone.metric(fmt.Sprintf(series, "rejected")); n != "" && n != "0" {
			t.Errorf("of %s %s blocks are refused", domain, n)
		}
	}
}
