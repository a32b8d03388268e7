package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
)

// engine is an engine in this process, as in a host.
type engine struct {
	t testing.TB
	*stream.Engine
	registry *prometheus.Registry
	cancel   context.CancelFunc
	done     chan error
}

func startEngine(t testing.TB, c *client, pipelines ...stream.Pipeline) *engine {
	t.Helper()
	e := &engine{t: t, registry: prometheus.NewRegistry(), done: make(chan error, 1)}
	e.Engine = must(stream.New(stream.Options{Conn: c.nc, Pipelines: pipelines, Registerer: e.registry}))(t)
	var ctx context.Context
	ctx, e.cancel = context.WithCancel(context.Background())
	go func() { e.done <- e.Run(ctx) }()
	t.Cleanup(e.cancel)
	return e
}

// stop stops the engine and checks that it has drained.
func (e *engine) stop() {
	e.t.Helper()
	e.cancel()
	select {
	case err := <-e.done:
		if err != nil {
			e.t.Errorf("the engine ended with: %v", err)
		}
	case <-time.After(ample):
		e.t.Fatalf("the engine does not end within %v", ample)
	}
}

// counted returns a counter by pipeline and result.
func (e *engine) counted(name string) map[string]float64 {
	e.t.Helper()
	out := map[string]float64{}
	for _, family := range must(e.registry.Gather())(e.t) {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				label := map[string]string{}
				for _, l := range m.GetLabel() {
					label[l.GetName()] = l.GetValue()
				}
				out[label["pipeline"]+" "+label["result"]] = m.GetCounter().GetValue()
			}
		}
	}
	return out
}

func digitsPipeline(name, method string) stream.Pipeline {
	return stream.Pipeline{
		Name: name, Stream: "FEATURES", Subject: "features.digits", Output: "reduced." + name, Dead: "dead." + name,
		Stage: plugin.Config{
			Spec: arrowio.Spec{Features: []string{"pixels"}, Label: "label"},
			Fit:  fit.Config{Method: method, Dim: 5},
			Training: plugin.Training{
				Window: plugin.Window{Rows: 3000}, Every: plugin.Every{Rows: 500},
			},
		},
	}
}

// TestTwoEngines runs two engines with two pipelines each in this process, on one input: each answers everything,
// counts its own messages, and leaves no goroutine behind on the caller's connection.
func TestTwoEngines(t *testing.T) { // not parallel: it checks for leaked goroutines
	s := startServerProcess(t, "")
	c := dial(t, s.url)
	c.streams()
	hosts := []*client{dial(t, s.url), dial(t, s.url)}
	g := digits(t)
	for _, host := range hosts {
		host.count("FEATURES") // the first request of a connection starts the goroutines that serve all requests
	}
	before := goleak.IgnoreCurrent()
	engines := []*engine{
		startEngine(t, hosts[0], digitsPipeline("a", "lda"), digitsPipeline("b", "pca")),
		startEngine(t, hosts[1], digitsPipeline("c", "srda"), digitsPipeline("d", "pairacc")),
	}
	n := 0
	for from := 0; from < 1500; from += 25 {
		c.send("features.digits", g.message(t, from, from+25, true))
		n++
	}
	c.await("REDUCED", 4*n)
	for _, name := range []string{"a", "b", "c", "d"} {
		c.settled("FEATURES", name)
	}
	by := map[string][]stored{}
	for _, msg := range c.read("REDUCED") {
		by[msg.subject] = append(by[msg.subject], msg)
	}
	for subject, method := range map[string]string{"reduced.a": "lda", "reduced.b": "pca", "reduced.c": "srda",
		"reduced.d": "pairacc"} {
		once(t, "FEATURES", 1, n, by[subject])
		for _, msg := range by[subject] {
			if got := msg.header.Get(wire.HeaderMethod); got != method {
				t.Fatalf("%s answered on %s, want %s", got, subject, method)
			}
		}
	}
	for i, e := range engines {
		e.stop()
		counts := e.counted("embedd_messages_total")
		names := [][2]string{{"a", "b"}, {"c", "d"}}[i]
		sum := 0.0
		for _, v := range counts {
			sum += v
		}
		if sum != float64(2*n) || counts[names[0]+" out"] != float64(n) || counts[names[1]+" out"] != float64(n) {
			t.Errorf("engine %d counted %v, want %d outputs of each of its pipelines %v and nothing else", i, counts,
				n, names)
		}
	}
	// The object store of nats.go creates a publisher for each model that it writes. Its watcher can stay behind if it
	// is scheduled too late. Goroutines of an engine are checked separately.
	theirs := goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
	var leaked error
	eventually(t, func() string { return fmt.Sprint("no goroutine is left after both engines have ended: ", leaked) },
		func() bool { leaked = goleak.Find(before, theirs); return leaked == nil })
	// The connections still work for their owner.
	for i, host := range hosts {
		if err := host.nc.FlushTimeout(ample); err != nil {
			t.Errorf("the connection of engine %d: %v", i, err)
		}
	}
}

// TestPipelineOfFile runs an engine with a fixed model and compares its bytes with those of the stage without NATS.
func TestPipelineOfFile(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	fixed := must(model.Read(bytes.NewReader(must(os.ReadFile(packedModel(t, "pairacc", 4)))(t))))(t)
	p := digitsPipeline("digits", "")
	p.Stage.Fixed = fixed
	e := startEngine(t, c, p)
	stage := must(plugin.New(p.Stage))(t)
	defer stage.Close()
	g := digits(t)
	var want reduced
	for from := 0; from < 500; from += 100 {
		body := g.message(t, from, from+100, true)
		c.send("features.digits", body)
		m := must(stage.Decode(body))(t)
		r := must(stage.Transform(t.Context(), m))(t)
		want.add(t, must(stage.Encode(r))(t))
	}
	c.await("REDUCED", 5)
	e.stop()
	var got reduced
	for _, msg := range c.read("REDUCED") {
		got.add(t, msg.data)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error("the engine's rows differ from the stage's")
	}
}

// forgetful is a stream with a duplicate window of one second.
func forgetful(o *jetstream.StreamConfig) { o.Duplicates = time.Second }

// TestLostAcknowledgements drops every acknowledgement, so that each input is redelivered repeatedly, long after the
// duplicate window of the output: there is still one output.
func TestLostAcknowledgements(t *testing.T) {
	t.Parallel()
	s := startServerProcess(t, `
authorization: {users: [
  {user: all, password: x}
  {user: deaf, password: x, permissions: {publish: {deny: ["$JS.ACK.>"]}}}
]}`)
	c := dial(t, "nats://all:x@"+hostOf(t, s.url))
	c.stream("FEATURES", nil, "features.>")
	c.stream("REDUCED", forgetful, "reduced.>")
	c.stream("DEAD", forgetful, "dead.>")
	pipeline := `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {file: ` + packedModel(t, "lda", 3) + `}`
	config := func(user string) string {
		path := configFile(t, "nats://"+user+":x@"+hostOf(t, s.url), pipeline)
		setAckWait(t, path, "1s")
		return path
	}
	g := digits(t)
	const n = 40
	for i := range n {
		if i%10 == 3 {
			c.send("features.digits", []byte("not Arrow"))
		} else {
			c.send("features.digits", g.message(t, i*10, i*10+10, true))
		}
	}
	d := startDaemon(t, config("deaf"))
	c.await("REDUCED", n-n/10)
	var info *jetstream.ConsumerInfo
	eventually(t, func() string {
		return fmt.Sprintf("all %d inputs are delivered again and again: %+v",
			n, info)
	}, func() bool {
		info = must(c.js.Consumer(within(t, ample), "FEATURES", "embedd_digits"))(t).CachedInfo()
		return info.NumRedelivered == n && info.NumAckPending == n && info.Delivered.Consumer >= 4*n
	})
	d.end(syscall.SIGTERM)
	d = startDaemon(t, config("all"))
	c.settled("FEATURES", "digits")
	once(t, "FEATURES", 1, n, append(c.read("REDUCED"), c.read("DEAD")...))
	d.stop()
}
