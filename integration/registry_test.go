package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/registry"
)

// version is a line of `model ls --format json`.
type version struct {
	Pipeline, State, Version, Digest, Parent, Method, Why string
	Pinned                                                bool
	Epoch, Dim, Rows                                      int
	First, Last                                           uint64
	Params                                                map[string]string
}

// versions are the lines of `model ls`, without the refused candidates.
func versions(t testing.TB, args ...string) (out []version) {
	t.Helper()
	text := succeed(t, append([]string{"model", "ls", "--format", "json"}, args...)...)
	for line := range strings.Lines(text) {
		var v version
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("model ls says %q: %v", line, err)
		}
		if v.State != "refused" {
			out = append(out, v)
		}
	}
	return out
}

// TestChosenModel: what `model pin`, `unpin` and `rollback` choose reaches a running daemon, which says so, and
// a model that another process stores reaches it too.
func TestChosenModel(t *testing.T) {
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	config := configFile(t, s.ClientURL(), learning)
	d := startDaemon(t, config)
	g := digits(t)
	for from := 0; from < 1000; from += 50 {
		c.send("features.digits", g.message(t, from, from+50, true))
	}
	c.await("REDUCED", 20, time.Minute)
	at := func(args ...string) []string { return append(args, "--server", s.ClientURL()) }
	store := must(registry.JetStream(t.Context(), c.js))(t)
	models := registry.Of(store, "digits", registry.Options{})
	first := must(models.Pointer(t.Context()))(t).Live

	// Another process trains the pipeline too.
	other := must(model.Read(bytes.NewReader(must(os.ReadFile(packedModel(t, "pairacc", 5)))(t))))(t)
	second := must(models.Save(t.Context(), &plugin.Release{Model: other, Epoch: 2, Parent: first, Why: "by hand"}))(t)
	answers := func(model, epoch string) {
		t.Helper()
		last := ""
		eventually(t, 20*time.Second, func() string { return "answered by " + model + ", not by " + last },
			func() bool {
				n := c.count("REDUCED")
				c.send("features.digits", g.message(t, 0, 2, false))
				c.await("REDUCED", n+1, 20*time.Second)
				h := c.last("REDUCED").header
				last = h.Get(wire.HeaderModel)
				return last == model && h.Get(wire.HeaderEpoch) == epoch
			})
	}
	answers(second, "2")

	list := versions(t, at()...)
	if n := len(list); n < 2 || list[n-1].Version != second || list[n-1].State != "live" || list[n-1].Parent != first ||
		list[n-2].Version != first || list[n-2].State != "previous" || list[n-2].Method != "lda" || list[n-2].Dim != 5 ||
		list[n-2].Last == 0 || list[n-2].Rows == 0 || list[n-2].Why == "" || list[n-2].Params["ridge"] == "" {
		t.Fatalf("model ls says %+v", list)
	}
	succeed(t, at("model", "rollback", "digits")...)
	answers(first, "1")
	succeed(t, at("model", "pin", second)...)
	answers(second, "2")
	if v := d.metric(`embedd_model_pinned{pipeline="digits"}`); v != "1" {
		t.Errorf("embedd_model_pinned is %q, want 1", v)
	}
	// A restart is pinned too: nothing that is learned goes live.
	d.stop()
	d = startDaemon(t, config)
	for from := 0; from < 1500; from += 50 {
		c.send("features.digits", g.message(t, from, from+50, true))
	}
	answers(second, "2")
	if _, stderr, code := run(t, at("model", "rollback", "digits")...); code != 1 ||
		!strings.Contains(stderr, "embedd model unpin digits") {
		t.Errorf("rolling back while pinned: code %d, %s", code, stderr)
	}
	succeed(t, at("model", "unpin", "digits")...)
	eventually(t, 20*time.Second, says("embedd_model_pinned is 0"),
		func() bool { return d.metric(`embedd_model_pinned{pipeline="digits"}`) == "0" })

	var diff struct {
		Same    bool
		Changes []struct{ What, A, B string }
		Cosines []float64
	}
	text := succeed(t, at("model", "diff", first, second, "--format", "json")...)
	if err := json.Unmarshal([]byte(text), &diff); err != nil || diff.Same || len(diff.Cosines) != 5 ||
		!strings.Contains(text, `{"what":"method","a":"lda","b":"pairacc"}`) {
		t.Errorf("model diff says %s: %v", text, err)
	}
	for _, bad := range [][]string{{"ls", "digit"}, {"pin", "digits-99-00000000"},
		{"rollback", "nobody"}, {"unpin", "digits"}} {
		_, stderr, code := run(t, at(append([]string{"model"}, bad...)...)...)
		if code != 1 || !strings.Contains(stderr, "digits") {
			t.Errorf("model %v: code %d, %s", bad, code, stderr)
		}
	}
	d.stop()
}

// TestCoreSurvives: on core NATS the model is in a directory, and a restart answers with it, in its epoch, at once.
func TestCoreSurvives(t *testing.T) {
	s := startServer(t, func(o *server.Options) { o.JetStream = false })
	c := dial(t, s.ClientURL())
	out := must(c.nc.SubscribeSync("reduced.core"))(t)
	config := configFile(t, s.ClientURL(), `
core:
  input: {subject: features.core}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.core, dead: dead.core}
  model: {method: lda, dim: 5}
  training: {window: {rows: 3000}, every: {rows: 300, period: none}}`)
	listening := func() {
		t.Helper()
		eventually(t, 20*time.Second, says("the daemon listens to the subject"), func() bool {
			z, err := s.Subsz(&server.SubszOptions{Subscriptions: true, Test: "features.core"})
			return err == nil && len(z.Subs) > 0
		})
	}
	g := digits(t)
	var last *nats.Msg
	send := func(from, to int, labelled bool) {
		t.Helper()
		for ; from < to; from += 50 {
			if err := c.nc.Publish("features.core", g.message(t, from, from+50, labelled)); err != nil {
				t.Fatal(err)
			}
			last = must(out.NextMsg(time.Minute))(t)
		}
	}
	d := startDaemon(t, config)
	listening()
	for from := 0; from < 600; from += 50 {
		if err := c.nc.Publish("features.core", g.message(t, from, from+50, true)); err != nil {
			t.Fatal(err)
		}
	}
	for range 12 {
		must(out.NextMsg(time.Minute))(t)
	}
	time.Sleep(time.Second) // what is being fitted ends
	send(0, 50, false)
	before := last
	d.kill()
	d = startDaemon(t, config)
	listening()
	send(0, 50, false)
	for _, k := range []string{wire.HeaderModel, wire.HeaderEpoch, wire.HeaderMethod} {
		if before.Header.Get(k) != last.Header.Get(k) || last.Header.Get(k) == "" {
			t.Errorf("%s is %q before the restart and %q after it", k, before.Header.Get(k), last.Header.Get(k))
		}
	}
	if string(before.Data) != string(last.Data) {
		t.Error("the same rows came out otherwise")
	}
	dir := filepath.Join(d.dir, "embedd-data", "models")
	list := versions(t, "--store", dir)
	if n := len(list); n == 0 || list[n-1].Version != last.Header.Get(wire.HeaderModel) || list[n-1].State != "live" {
		t.Errorf("model ls says %+v, live is %s", list, last.Header.Get(wire.HeaderModel))
	}
	succeed(t, "model", "pin", "core", "--store", dir)
	eventually(t, 20*time.Second, says("embedd_model_pinned is 1"),
		func() bool { return d.metric(`embedd_model_pinned{pipeline="core"}`) == "1" })
	d.stop()
}
