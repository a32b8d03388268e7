package integration

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestStaleModel: when labels end, the model becomes stale. Readiness and metrics report it, messages are handled as
// configured, and confirming the model ends it.
func TestStaleModel(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	start := func(age string) *daemon {
		var pipelines string
		for _, how := range []string{"serve", "hold", "pass"} {
			pipelines += strings.NewReplacer("digits:", how+":", "reduced.digits", "reduced."+how, "dead.digits",
				"dead."+how,
				"training: {", "training: {max_age: "+age+", when_stale: "+how+", ").Replace(learning)
		}
		return startDaemon(t, configFile(t, s.ClientURL(), pipelines))
	}
	d := start("1h")
	g := digits(t)
	learn := func() {
		t.Helper()
		for from := 0; from < 1000; from += 50 {
			c.send("features.digits", g.message(t, from, from+50, true))
		}
	}
	learn()
	eventually(t, says("ready"), func() bool { code, _ := d.get("/readyz"); return code == 200 })
	c.await("REDUCED", 60)
	for _, m := range c.read("REDUCED") {
		if m.header.Get(wire.HeaderStale) != "" {
			t.Errorf("a fresh model answered as stale on %s", m.subject)
		}
	}
	d.stop()
	d = start("8s")
	// Until all is learned another model may go live, which is fresh.
	eventually(t, says("all is learned"), func() bool {
		for _, how := range []string{"serve", "hold", "pass"} {
			if d.value(`embedd_window_rows{class="all",pipeline="`+how+`"}`) < 1000 ||
				d.value(`embedd_training_backlog_rows{pipeline="`+how+`"}`) > 0 {
				return false
			}
		}
		return true
	})
	eventually(t, says("none is ready"), func() bool {
		code, body := d.get("/readyz")
		return code == 503 && strings.Count(body, "over training.max_age 8s") == 3
	})
	if age, err := strconv.ParseFloat(d.metric(`embedd_model_age_seconds{pipeline="serve"}`), 64); err != nil ||
		age < 7 {
		t.Errorf("embedd_model_age_seconds is %v", age)
	}
	body := g.message(t, 0, 5, false)
	c.send("features.digits", body, "X-Own", "kept")
	c.await("REDUCED", 62)
	time.Sleep(500 * time.Millisecond)
	by := map[string]stored{}
	for _, m := range c.read("REDUCED")[60:] {
		by[m.subject] = m
	}
	if _, held := by["reduced.hold"]; held || len(by) != 2 {
		t.Errorf("of a stale model there are %d outputs, one of them of the pipeline that holds: %v", len(by), held)
	}
	served, passed := by["reduced.serve"], by["reduced.pass"]
	if served.header.Get(wire.HeaderModel) == "" || passed.header.Get(wire.HeaderModel) != "" ||
		!bytes.Equal(passed.data, body) || passed.header.Get("X-Own") != "kept" ||
		passed.header.Get(wire.HeaderSource) != served.header.Get(wire.HeaderSource) {
		t.Errorf("served with %v, passed with %v", served.header, passed.header)
	}
	for _, m := range by {
		if age, err := strconv.Atoi(m.header.Get(wire.HeaderStale)); err != nil || age < 8 {
			t.Errorf("%s is marked %q", m.subject, m.header.Get(wire.HeaderStale))
		}
	}
	schema, _ := decode(t, served.data)
	meta := schema.Metadata()
	if v, _ := meta.GetValue(wire.HeaderStale); v != served.header.Get(wire.HeaderStale) {
		t.Errorf("the schema is marked %q", v)
	}
	d.awaitMetric(`embedd_rows_total{pipeline="pass",result="pass"}`, "5")

	held := func() (out []stored) {
		for _, m := range c.read("REDUCED") {
			if m.subject == "reduced.hold" {
				out = append(out, m)
			}
		}
		return out
	}
	eventually(t, says("the pipeline that holds continues"), func() bool {
		learn() // a slow machine may not answer all pending messages while the model is fresh
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && len(held()) < 41; {
			time.Sleep(50 * time.Millisecond)
		}
		return len(held()) >= 41
	})
	for _, m := range held() {
		if m.header.Get(wire.HeaderStale) != "" {
			t.Error("the pipeline that holds answered with a stale model")
		}
	}
	d.stop()
}
