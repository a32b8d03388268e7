package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream"
)

// ask sends a request to an endpoint of a pipeline.
func (c *client) ask(pipeline, endpoint string, data []byte) *nats.Msg {
	c.t.Helper()
	return must(c.nc.Request(stream.ServiceSubject(pipeline, endpoint), data, ample))(c.t)
}

// wantCode checks that a reply is an error with a code, in the headers of NATS services and in ours.
func wantCode(t testing.TB, msg *nats.Msg, code, says string) {
	t.Helper()
	h := msg.Header
	if h.Get(micro.ErrorCodeHeader) != code || h.Get(wire.HeaderCode) != code ||
		!strings.Contains(h.Get(micro.ErrorHeader), says) || h.Get(wire.HeaderError) != h.Get(micro.ErrorHeader) {
		t.Errorf("the answer is %v %.100q, want code %s and %q", h, msg.Data, code, says)
	}
}

// TestService: a running pipeline follows the conventions of NATS services, and transforms a requested message to the
// same bits as the stream.
func TestService(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	config := configFile(t, s.ClientURL(), learning+"\nfixed:\n  input: {stream: FEATURES, subject: features.fixed}\n"+
		"  schema: {features: [pixels], label: label}\n  output: {subject: reduced.fixed, dead: dead.fixed}\n"+
		"  model: {file: "+packedModel(t, "lda", 3)+"}")
	d := startDaemon(t, config)
	g := digits(t)
	eventually(t, says("the service answers"),
		func() bool { return c.heard(stream.ServiceSubject("digits", "status")) })

	wantCode(t, c.ask("digits", "transform", g.message(t, 0, 3, false)), "no_model", "labelled rows")
	wantCode(t, c.ask("digits", "retrain", nil), "few_rows", "learn more rows")
	wantCode(t, c.ask("digits", "model pin", nil), "no_model", "has no model yet")
	wantCode(t, c.ask("digits", "model show", nil), "no_model", "no model is live")
	wantCode(t, c.ask("fixed", "retrain", nil), "fixed", "learns nothing")
	for from := 0; from < 1000; from += 50 {
		c.send("features.digits", g.message(t, from, from+50, true))
	}
	c.await("REDUCED", 20)
	report := func() (r stream.Report) {
		t.Helper()
		text := succeed(t, "status", "digits", "--format", "json", "--server", s.ClientURL())
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("status says %q: %v", text, err)
		}
		return r
	}
	eventually(t, says("all is learned"), func() bool {
		l := report().Learning
		return l.Rows == 1000 && !l.Fitting && l.Backlog == 0
	})

	// A daemon is found by name and by metadata.
	var info micro.Info
	msg := must(c.nc.Request("$SRV.INFO."+stream.ServiceName("digits"), nil, ample))(t)
	if err := json.Unmarshal(msg.Data, &info); err != nil || info.Metadata["pipeline"] != "digits" ||
		len(info.Endpoints) != 14 {
		t.Errorf("the service says %s: %v", msg.Data, err)
	}

	// A request is transformed as an input of the stream is.
	body := g.message(t, 40, 60, false)
	c.send("features.digits", body)
	c.await("REDUCED", 21)
	streamed := c.last("REDUCED")
	msg = c.ask("digits", "transform", body)
	var got, want reduced
	got.add(t, msg.Data)
	want.add(t, streamed.data)
	if fmt.Sprint(got) != fmt.Sprint(want) ||
		msg.Header.Get(wire.HeaderModel) != streamed.header.Get(wire.HeaderModel) ||
		msg.Header.Get(wire.HeaderContentType) != wire.ContentType ||
		msg.Header.Get(wire.HeaderEpoch) != streamed.header.Get(wire.HeaderEpoch) {
		t.Errorf("asked for, %d rows with %v; streamed, %d rows", len(got.id), msg.Header, len(want.id))
	}
	wantCode(t, c.ask("digits", "transform", []byte("no Arrow")), "not_arrow", "")
	wantCode(t, c.ask("digits", "transform", nil), "not_arrow", "")
	wantCode(t, c.ask("digits", "model pin", []byte("{")), "bad_request", "JSON")
	wantCode(t, c.ask("digits", "model pin", []byte(`{"version":"digits-9-00000000"}`)), "no_model", "it has digits-1-")
	wantCode(t, c.ask("digits", "model unpin", nil), "not_pinned", "")

	// Many concurrent requests.
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			msg, err := c.nc.Request(stream.ServiceSubject("digits", "transform"), body, ample)
			if err != nil || msg.Header.Get(micro.ErrorCodeHeader) != "" {
				t.Errorf("request %d: %v", i, err)
			}
		})
	}
	wg.Wait()

	// The models.
	var listed struct{ Models []version }
	if err := json.Unmarshal(c.ask("digits", "model ls", nil).Data, &listed); err != nil || len(listed.Models) == 0 {
		t.Fatalf("%v: %+v", err, listed)
	}
	live := streamed.header.Get(wire.HeaderModel)
	if i := slices.IndexFunc(listed.Models,
		func(v version) bool { return v.State == "live" }); listed.Models[i].Version != live {
		t.Errorf("%s answers, and model ls says %+v", live, listed.Models)
	}
	var shown struct {
		Version, Method string
		Dim             int
		Components      [][]float64
	}
	if err := json.Unmarshal(c.ask("digits", "model show", nil).Data, &shown); err != nil || shown.Version != live ||
		shown.Method != "lda" || len(shown.Components) != 64 {
		t.Errorf("shown is %s: %v", shown.Version, err)
	}
	var chosen struct {
		Live   string
		Pinned bool
	}
	msg = c.ask("digits", "model pin", []byte(`{"version":"`+live+`"}`))
	if err := json.Unmarshal(msg.Data, &chosen); err != nil || chosen.Live != live || !chosen.Pinned {
		t.Errorf("pinned: %s, %v", msg.Data, err)
	}
	eventually(t, says("status says pinned"), func() bool { return report().Model.Pinned })
	wantCode(t, c.ask("digits", "retrain", nil), "pinned", "embedd model unpin digits")
	if _, stderr, code := run(t, "retrain", "digits", "--server", s.ClientURL()); code != 1 ||
		!strings.Contains(stderr, "embedd model unpin digits") {
		t.Errorf("retrain while pinned: code %d, %s", code, stderr)
	}
	wantCode(t, c.ask("digits", "model rollback", nil), "pinned", "")
	c.ask("digits", "model unpin", nil)
	eventually(t, says("status says not pinned"), func() bool { return !report().Model.Pinned })

	// The verbs.
	r := report()
	if !r.Ready || r.Model.Version != live || r.Model.Dim != 5 || r.Model.Epoch < 1 || r.Learning.Rows != 1000 ||
		r.Learning.Classes != 10 || r.Instance == "" {
		t.Errorf("status says %+v, %+v", r, r.Model)
	}
	table := succeed(t, "status", "--wide", "--server", s.ClientURL())
	if lines := strings.Count(table, "\n"); lines != 3 || !strings.Contains(table, "window: 1000 rows") {
		t.Errorf("status of all has a table of %d lines, want a header and two pipelines:\n%s", lines, table)
	}
	fits := report().Learning.Fits
	succeed(t, "retrain", "digits", "--server", s.ClientURL())
	eventually(t, says("a fit that was asked for"),
		func() bool { return report().Learning.Fits > fits })
	for _, args := range [][]string{{"status", "digit"}, {"retrain", "digit"}} {
		_, stderr, code := run(t, append(args, "--server", s.ClientURL())...)
		if code != 1 || !strings.Contains(stderr, `did you mean "digits"`) {
			t.Errorf("%v: code %d, %s", args, code, stderr)
		}
	}
	d.stop()
	_, stderr, code := run(t, "status", "--server", s.ClientURL())
	if code != 1 || !strings.Contains(stderr, "no daemon answers") {
		t.Errorf("status of an unknown pipeline: code %d, %s", code, stderr)
	}
}

// TestServiceEnds: engines in one process end their services with them, and leave nothing on the connection.
func TestServiceEnds(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	before := c.nc.NumSubscriptions()
	for range 3 {
		e := startEngine(t, c, digitsPipeline("a", "lda"), digitsPipeline("b", "pca"))
		eventually(t, says("the service answers"),
			func() bool { return c.heard(stream.ServiceSubject("b", "status")) })
		e.stop()
		if c.heard(stream.ServiceSubject("b", "status")) {
			t.Error("the service answers after its engine has ended")
		}
	}
	eventually(t, func() string {
		return fmt.Sprintf("%d subscriptions, %d before", c.nc.NumSubscriptions(), before)
	}, func() bool { return c.nc.NumSubscriptions() <= before+1 })
}

// TestServiceDenied: where the account may not subscribe to the service's subjects, the pipeline serves without it.
func TestServiceDenied(t *testing.T) {
	t.Parallel()
	s := startServerProcess(t, `
authorization: {users: [
  {user: all, password: x}
  {user: shut, password: x, permissions: {subscribe: {deny: ["embedd.>", "$SRV.>"]}}}
]}`)
	c := dial(t, "nats://all:x@"+hostOf(t, s.url))
	c.streams()
	d := startDaemon(t, configFile(t, "nats://shut:x@"+hostOf(t, s.url), `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {file: `+packedModel(t, "lda", 3)+`}`))
	g := digits(t)
	c.send("features.digits", g.message(t, 0, 10, true))
	c.await("REDUCED", 1)
	if c.heard(stream.ServiceSubject("digits", "status")) {
		t.Error("the service answers, and its account may not")
	}
	d.awaitLog("embedd.digits.status")
	d.stop()
}
