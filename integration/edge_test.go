package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/testsize"
)

// at returns a daemon's configuration for a server, with more keys of the nats section.
func at(t testing.TB, url, keys, role string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "embedd.yaml")
	write(t, path, fmt.Sprintf("nats: {url: %q, wait: 30s%s}\nhttp: {listen: 127.0.0.1:0}\ndaemon: {role: "+
		"%s}\npipelines:\n", url,
		keys, role)+indent(`
p:
  input: {stream: FEATURES, subject: features.p}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.p, dead: dead.p}
  model: {method: lda, dim: 4}
  training: {until_ready: pca, every: {rows: 600, period: none}}`))
	return path
}

// TestEdgeCutOff: a leaf node is cut off from its hub for a minute, under load. No output is missing, duplicated or
// delayed, the age of the model is reported, and the model chosen at the hub in the meantime is live within 5 s after
// the link is restored. stream.TestEdge is the short form.
func TestEdgeCutOff(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it cuts a leaf node off for a minute; EMBEDD_SOAK=1 runs it")
	}
	port := link.FreePort(t)
	hub := startServer(t, func(o *server.Options) {
		o.ServerName, o.JetStreamDomain = "hub", "hub"
		o.LeafNode = server.LeafNodeOpts{Host: "127.0.0.1", Port: port, NoAdvertise: true}
	})
	var cut atomic.Bool
	pass := func([]byte) error {
		if cut.Load() {
			return errors.New("the way is cut")
		}
		return nil
	}
	way := must(link.New(fmt.Sprint("127.0.0.1:", port), pass, pass))(t)
	t.Cleanup(way.Close)
	leaf := startServer(t, func(o *server.Options) {
		o.ServerName, o.JetStreamDomain = "edge", "edge"
		o.LeafNode = server.LeafNodeOpts{Remotes: []*server.RemoteLeafOpts{{
			URLs:        []*url.URL{{Scheme: "nats", Host: way.Address()}},
			DenyExports: []string{"features.>", "reduced.>", "dead.>"}}}}
	})
	c, h := dial(t, leaf.ClientURL()), dial(t, hub.ClientURL())
	c.streams()
	h.stream("REDUCED", nil, "reduced.>")
	h.stream("DEAD", nil, "dead.>")
	h.stream("FEATURES", func(s *jetstream.StreamConfig) {
		s.Sources = []*jetstream.StreamSource{{Name: "FEATURES",
			External: &jetstream.ExternalStream{APIPrefix: "$JS.edge.API"}}}
	})
	trainer := startDaemon(t, at(t, hub.ClientURL(), "", "train"))
	edge := startDaemon(t, at(t, leaf.ClientURL(), ", hub: hub", "transform"))

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	sent := make(chan int)
	g := digits(t)
	go func() {
		n := 0
		for tick := time.Tick(10 * time.Millisecond); ctx.Err() == nil; n++ {
			from := n * 8 % (g.n - 8)
			c.send("features.p", g.message(t, from, from+8, true))
			<-tick
		}
		sent <- n
	}()
	live := func(d *daemon) (version string) {
		_, body := d.get("/metrics")
		for _, line := range strings.Split(body, "\n") {
			if rest, ok := strings.CutPrefix(line, "embedd_model_info{"); ok && strings.HasSuffix(line, " 1") {
				_, version, _ = strings.Cut(rest, `version="`)
				version, _, _ = strings.Cut(version, `"`)
			}
		}
		return version
	}
	// versions returns the models of the hub with as many dimensions, oldest first.
	versions := func() (out []string) {
		for _, line := range strings.Split(strings.TrimSpace(succeed(t, "model", "ls", "p", "--server", hub.ClientURL(),
			"--format", "json")), "\n") {
			var v struct{ Version string }
			if json.Unmarshal([]byte(line), &v) == nil && v.Version != "" {
				out = append(out, v.Version)
			}
		}
		return out
	}
	eventually(t, func() string {
		return fmt.Sprintf("the edge follows: live is %s, at the hub %s", live(edge), live(trainer))
	},
		func() bool { return promotedHere(trainer) >= 2 && live(edge) != "" && live(edge) == live(trainer) })
	eventually(t, says("the mirror has what is live"), func() bool {
		_, _, code := run(t, "model", "show", live(edge), "--server", leaf.ClientURL())
		return code == 0
	})

	cut.Store(true)
	way.Cut()
	begin := time.Now()
	before := live(edge)
	age := func(name string) (v float64) {
		_, _ = fmt.Sscan(edge.metric(name+`{pipeline="p"}`), &v)
		return v
	}
	time.Sleep(45 * time.Second)
	var chosen string
	for _, v := range versions() {
		if v != before {
			chosen = v
		}
	}
	succeed(t, "model", "pin", chosen, "--server", hub.ClientURL())
	time.Sleep(time.Until(begin.Add(time.Minute)))
	silence, old := age("embedd_hub_silence_seconds"), age("embedd_model_age_seconds")
	text := succeed(t, "status", "p", "--server", leaf.ClientURL())
	code, body := edge.get("/readyz")
	t.Logf("cut off for %v: the hub says nothing since %.0f s, the model is %.0f s old, readyz %d %s\n%s",
		time.Since(begin).Round(time.Second), silence, old, code, strings.TrimSpace(body), text)
	if silence < 50 || old < 50 || code != 200 || live(edge) != before ||
		!strings.Contains(text, "has been unreachable since") {
		t.Errorf("cut off it says: hub silent for %.0f s, model of %.0f s, %d, live %s of %s:\n%s",
			silence, old, code, live(edge),
			before, text)
	}
	end := time.Now()
	cut.Store(false)
	eventually(t, says("the edge has what the hub chose"), func() bool { return live(edge) == chosen })
	took := time.Since(end)
	t.Logf("what the hub chose is live %.1f s after its return", took.Seconds())
	if took > 5*time.Second {
		t.Errorf("what the hub chose is live %v after its return, want 5 s", took)
	}
	time.Sleep(2 * time.Second)
	stop()
	n := <-sent
	c.settled("FEATURES", "p@edge")
	a, in := c.answers("REDUCED"), c.answers("FEATURES")
	silent, none := a.silence(begin, end), in.silence(begin, end)
	twice := 0
	for _, k := range a.bySource {
		twice += k - 1
	}
	t.Logf("%d inputs, %d lost, %d answered twice, no output for %.1f s at most, no input for %.1f s; the hub has %d "+
		"messages of the edge, and %d of its outputs",
		n, n-len(a.bySource), twice, silent.Seconds(), none.Seconds(), h.count("FEATURES"), h.count("REDUCED"))
	if len(a.bySource) != n || twice > 0 || c.count("DEAD") > 0 || silent > none+2*time.Second || h.count("REDUCED") > 0 {
		t.Errorf("%d inputs, %d answered, %d twice, %d dead letters, no output for %v and no input for %v",
			n, len(a.bySource), twice,
			c.count("DEAD"), silent, none)
	}
	eventually(t, func() string { return fmt.Sprintf("the hub has %d of %d inputs", h.count("FEATURES"), n) },
		func() bool { return h.count("FEATURES") == n })
}

// promotedHere returns how many models of pipeline p a daemon has promoted.
func promotedHere(d *daemon) (n float64) {
	_, _ = fmt.Sscan(d.metric(`embedd_candidates_total{pipeline="p",result="promoted"}`), &n)
	return n
}
