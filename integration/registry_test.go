package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
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

// versions returns the lines of `model ls`, without the rejected candidates.
func versions(t testing.TB, args ...string) (out []version) {
	t.Helper()
	text := succeed(t, append([]string{"model", "ls", "--format", "json"}, args...)...)
	for line := range strings.Lines(text) {
		var v version
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("model ls says %q: %v", line, err)
		}
		if v.State != "rejected" {
			out = append(out, v)
		}
	}
	return out
}

// TestChosenModel: what `model pin`, `unpin` and `rollback` choose reaches a running daemon, which reports it, and so
// does a model that another process stores.
func TestChosenModel(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	config := configFile(t, s.ClientURL(), learning)
	d := startDaemon(t, config)
	g := digits(t)
	for from := 0; from < 1000; from += 50 {
		c.send("features.digits", g.message(t, from, from+50, true))
	}
	c.await("REDUCED", 20)
	at := func(args ...string) []string { return append(args, "--server", s.ClientURL()) }
	store := must(registry.JetStream(t.Context(), c.js))(t)
	models := registry.New(store, "digits", registry.Options{})
	eventually(t, says("all rows are learned"), func() bool {
		return d.metric(`embedd_window_rows{class="all",pipeline="digits"}`) == "1000"
	})
	p := must(models.Pointer(t.Context()))(t)
	first, epoch := p.Live, p.Versions[len(p.Versions)-1].Epoch

	// Another process trains the pipeline too.
	other := must(model.Read(bytes.NewReader(must(os.ReadFile(packedModel(t, "pairacc", 5)))(t))))(t)
	x := make([]float64, 0, 100*64)
	for _, v := range g.x[:100*64] {
		x = append(x, float64(v))
	}
	was := must(models.Model(t.Context(), first))(t)
	c0 := must(model.FitConversion(t.Context(), was, other, model.DenseRows(x, 100, 64)))(t)
	c0.FromEpoch = uint64(epoch)
	other = other.WithNote(model.Note{Epoch: uint64(epoch + 1), Conversion: c0})
	second := must(models.Save(t.Context(),
		&plugin.Release{Model: other, Epoch: epoch + 1, NewEpoch: true, Parent: first, Why: "by hand"}))(t)
	answers := func(model string, epoch int) {
		t.Helper()
		last := ""
		eventually(t, func() string { return "answered by " + model + ", not by " + last },
			func() bool {
				n := c.count("REDUCED")
				c.send("features.digits", g.message(t, 0, 2, false))
				c.await("REDUCED", n+1)
				h := c.last("REDUCED").header
				last = h.Get(wire.HeaderModel)
				return last == model && h.Get(wire.HeaderEpoch) == fmt.Sprint(epoch)
			})
	}
	answers(second, epoch+1)
	// The header names the version that has the map from the epoch before.
	if h := c.last("REDUCED").header; h.Get(wire.HeaderConversion) != second {
		t.Errorf("%s has the map, not %s", h.Get(wire.HeaderConversion), second)
	}
	var converted struct {
		Version   string
		Epoch     int
		FromEpoch int `json:"from_epoch"`
		Matrix    [][]float64
		Shift     []float64
		Residual  *float64
	}
	for _, body := range []string{"", `{"version":"` + second + `"}`} {
		got := c.ask("digits", "model conversion", []byte(body)).Data
		if err := json.Unmarshal(got, &converted); err != nil || converted.Version != second ||
			converted.Epoch != epoch+1 || converted.FromEpoch != epoch || len(converted.Matrix) != 5 ||
			converted.Matrix[4][4] != c0.Matrix[4][4] || len(converted.Shift) != 5 || converted.Residual == nil {
			t.Errorf("the map is %s: %v", got, err)
		}
	}
	if epoch == 1 {
		wantCode(t, c.ask("digits", "model conversion", []byte(`{"version":"`+first+`"}`)), "no_conversion",
			"request the outputs again")
	}
	if text := succeed(t, at("model", "show", second)...); !strings.Contains(text, "5 x 5, residual") {
		t.Errorf("model show:\n%s", text)
	}

	list := versions(t, at()...)
	if n := len(list); n < 2 || list[n-1].Version != second || list[n-1].State != "live" || list[n-1].Parent != first ||
		list[n-2].Version != first || list[n-2].State != "previous" || list[n-2].Method != "lda" ||
		list[n-2].Dim != 5 ||
		list[n-2].Last == 0 || list[n-2].Rows == 0 || list[n-2].Why == "" || list[n-2].Params["ridge"] == "" {
		t.Fatalf("model ls says %+v", list)
	}
	succeed(t, at("model", "rollback", "digits")...)
	answers(first, epoch)
	succeed(t, at("model", "pin", second)...)
	answers(second, epoch+1)
	d.awaitMetric(`embedd_model_pinned{pipeline="digits"}`, "1")
	// The version is still pinned after a restart: training does not promote.
	d.stop()
	d = startDaemon(t, config)
	for from := 0; from < 1500; from += 50 {
		c.send("features.digits", g.message(t, from, from+50, true))
	}
	answers(second, epoch+1)
	if _, stderr, code := run(t, at("model", "rollback", "digits")...); code != 1 ||
		!strings.Contains(stderr, "embedd model unpin digits") {
		t.Errorf("rolling back while pinned: code %d, %s", code, stderr)
	}
	succeed(t, at("model", "unpin", "digits")...)
	eventually(t, says("embedd_model_pinned is 0"),
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
		{"rollback", "unknown"}, {"unpin", "digits"}} {
		_, stderr, code := run(t, at(append([]string{"model"}, bad...)...)...)
		if code != 1 || !strings.Contains(stderr, "digits") {
			t.Errorf("model %v: code %d, %s", bad, code, stderr)
		}
	}
	d.stop()
}

// TestCoreSurvives: on core NATS the model is in a directory, and a restart answers with it at once, in its epoch.
func TestCoreSurvives(t *testing.T) {
	t.Parallel()
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
		eventually(t, says("the daemon listens to the subject"), func() bool {
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
			last = must(out.NextMsg(ample))(t)
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
		must(out.NextMsg(ample))(t)
	}
	eventually(t, says("all is learned and nothing is being fitted"), func() bool {
		var r stream.Report
		text := succeed(t, "status", "core", "--format", "json", "--server", s.ClientURL())
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("status says %q: %v", text, err)
		}
		return r.Learning.Rows == 600 && !r.Learning.Fitting && r.Learning.Backlog == 0
	})
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
	eventually(t, says("embedd_model_pinned is 1"),
		func() bool { return d.metric(`embedd_model_pinned{pipeline="core"}`) == "1" })
	d.stop()
}

// TestServerDiesWhileSaving kills the server repeatedly while models are saved. The pointer always names a model that a
// start can read, and saving continues without intervention.
func TestServerDiesWhileSaving(t *testing.T) {
	t.Parallel()
	s := startServerProcess(t, "")
	c := dial(t, s.url)
	store := must(registry.CreateReplicated(within(t, ample), c.js, 1))(t)
	fitted := []*model.Model{
		must(model.Read(bytes.NewReader(must(os.ReadFile(packedModel(t, "lda", 5)))(t))))(t),
		must(model.Read(bytes.NewReader(must(os.ReadFile(packedModel(t, "pca", 5)))(t))))(t),
	}
	options := registry.Options{Keep: registry.Keep{Versions: 3}}
	ctx, stop := context.WithCancel(t.Context())
	var saved, failed atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := registry.New(store, "digits", options)
		for i := 0; ctx.Err() == nil; i++ {
			once, cancel := context.WithTimeout(ctx, time.Second) // within 1.25 s a write is not repeated
			parent := ""
			p, err := r.Pointer(once)
			if err == nil {
				parent = p.Live
				_, err = r.Save(once, &plugin.Release{Model: fitted[i%2], Epoch: 1, Parent: parent})
			}
			cancel()
			if err != nil {
				failed.Add(1)
			} else {
				saved.Add(1)
			}
		}
	}()
	kills := 6
	if testsize.Soak() {
		kills = 20
	}
	for kill := 0; kill < kills || failed.Load() == 0; kill++ { // until one kill hits the right moment
		if kill == 100 {
			t.Fatal("no kill has cut a saving")
		}
		before := saved.Load()
		eventually(t, says("saving continues"), func() bool { return saved.Load() >= before+3 })
		s.restart(syscall.SIGKILL, 0)
		var chosen *registry.Choice
		eventually(t, says("the store is asked"), func() bool {
			once, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			fresh, err := registry.JetStream(once, dial(t, s.url).js)
			if err != nil {
				return false
			}
			chosen, err = registry.New(fresh, "digits", options).Live(once)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) {
				t.Fatalf("kill %d: %v", kill, err)
			}
			return err == nil
		})
		if chosen == nil {
			t.Fatalf("kill %d: no model is live any more", kill)
		}
	}
	stop()
	<-done
	t.Logf("%d models were saved, %d savings were cut", saved.Load(), failed.Load())
}

// TestModelTooLarge: a model over the limit does not go live, and the pipeline reports the fix; a start with a higher
// limit continues, and one with the lower limit still reads the live model.
func TestModelTooLarge(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	config := func(limit string) string {
		return configFile(t, s.ClientURL(), `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {method: isomap, dim: 5}
  limits: {model: `+limit+`}
  training: {window: {rows: 400}, every: {rows: 300, period: none}}`)
	}
	g := digits(t)
	for from := 0; from < 400; from += 50 {
		c.send("features.digits", g.message(t, from, from+50, true))
	}
	d := startDaemon(t, config("64KiB"))
	eventually(t, func() string {
		_,
			body := d.get("/readyz")
		return "readiness names the limit: " + body
	},
		func() bool {
			code, body := d.get("/readyz")
			return code == 503 && strings.Contains(body, "limits.model allows 0.1 MiB; raise limits.model")
		})
	d.stop()
	d = startDaemon(t, config("16MiB"))
	ready := func() {
		t.Helper()
		eventually(t, func() string { _, body := d.get("/readyz"); return "ready: " + body },
			func() bool { code, _ := d.get("/readyz"); return code == 200 })
	}
	ready()
	d.stop()
	d = startDaemon(t, config("64KiB"))
	ready()
	d.stop()
}

// TestRefusedCandidates: the score of a rejected candidate and the reason are in the store.
func TestRefusedCandidates(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	d := startDaemon(t, configFile(t, s.ClientURL(), learning))
	g := digits(t)
	for from := 0; from < 3*g.n; from += 100 {
		c.send("features.digits", g.message(t, from, from+100, true))
	}
	var refused []map[string]any
	eventually(t, says("a candidate was refused"), func() bool {
		refused = nil
		text := succeed(t, "model", "ls", "digits", "--format", "json", "--server", s.ClientURL())
		for line := range strings.Lines(text) {
			var v map[string]any
			if err := json.Unmarshal([]byte(line), &v); err == nil && v["state"] == "rejected" {
				refused = append(refused, v)
			}
		}
		return len(refused) > 0
	})
	for _, v := range refused {
		if score, _ := v["score"].(float64); score < 0.5 || v["live_score"] == nil || v["parent"] == "" ||
			!strings.Contains(v["why"].(string), "evidence") || v["rows"].(float64) == 0 {
			t.Errorf("refused is %v", v)
		}
	}
	d.stop()
}
