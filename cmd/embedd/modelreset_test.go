package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/stream"
)

// changingSite is a pipeline whose configuration changes between runs.
type changingSite struct {
	*testing.T
	dir, url, data string
}

func newChangingSite(t *testing.T) changingSite {
	t.Helper()
	s := serveNATS(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	dir := t.TempDir()
	return changingSite{t, dir, s.ClientURL(), writeFile(t, dir, "rows.csv", labelledRows(400))}
}

// config writes a configuration with these settings of model and training.
func (s changingSite) config(model, training string) string {
	return writeFile(s.T, s.dir, "embedd.yaml", fmt.Sprintf(`
nats: {url: '%s'}
http: {listen: 127.0.0.1:0}
pipelines:
  p:
    input: {stream: FEATURES}
    schema: {features: [x, y]}
    model: {method: lda, %s}
    training: {%s}
`, s.url, model, training))
}

// report is the status of the pipeline, zero while no daemon answers.
func (s changingSite) report() (r stream.Report) {
	s.Helper()
	code, stdout, _ := call(s.Context(), "status", "--server", s.url, "--format", "json")
	if code != 0 {
		return r
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		s.Fatalf("%v in %s", err, stdout)
	}
	return r
}

// awaitModel waits until a model of an epoch and a number of outputs is live, and the daemon is ready.
func (s changingSite) awaitModel(d *runningDaemon, epoch, dim int) stream.Report {
	s.Helper()
	var r stream.Report
	d.until(fmt.Sprintf("a model of epoch %d with %d outputs is live", epoch, dim), func() bool {
		r = s.report()
		return r.Ready && r.Model != nil && r.Model.Epoch == epoch && r.Model.Dim == dim && !r.Model.WasReset
	})
	return r
}

// TestChangedDimension: a changed model.dim is reported by check, the log, status, readiness and doctor while the live
// model keeps the former number; `embedd model reset` puts it into effect without a gap, and nothing is reported then.
func TestChangedDimension(t *testing.T) {
	t.Parallel()
	s := newChangingSite(t)
	path := s.config("dim: 2", "every: {rows: 100}")
	verb(t, 0, "setup", "--apply", "-c", path)
	nc := sure(nats.Connect(s.url, nats.Timeout(ample)))
	defer nc.Close()
	outputs := sure(nc.SubscribeSync("reduced.p"))
	publish := func() {
		t.Helper()
		verb(t, 0, "publish", "-c", path, "--data", s.data, "--pipeline", "p", "--batch", "50")
	}
	outputDim := func() int {
		t.Helper()
		m := sure(outputs.NextMsg(ample))
		return len(embeddings(t, m.Data)) / 50
	}
	d := startRun(t, path)
	publish()
	first := s.awaitModel(d, 1, 2)
	if len(first.Changes) > 0 {
		t.Errorf("at the first start: %+v", first.Changes)
	}
	if n := outputDim(); n != 2 {
		t.Errorf("outputs have %d numbers", n)
	}
	d.stop()

	path = s.config("dim: 1", "every: {rows: 100}, gate: {evidence: 500}")
	const change, fix = "model.dim changed from 2 to 1: the live model keeps 2", "embedd model reset p"
	contains := func(what, text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s does not say %q:\n%s", what, part, text)
			}
		}
	}
	contains("check", verb(t, 0, "check", "-c", path, "--server"), ":8:",
		"pipelines.p.model.dim: changed from 2 to 1: the live model keeps 2", fix,
		"pipelines.p.training.gate.evidence: changed from 1000 to 500: applied at the next start")
	d = startRun(t, path)
	s.awaitModel(d, 1, 2)
	r := s.report()
	d.until("it is the trainer, and has applied the changes", func() bool {
		r = s.report()
		return len(r.Changes) > 1 && r.Changes[1].Effect == stream.EffectApplied &&
			strings.Contains(d.log.String(), "a changed key of the configuration is applied")
	})
	contains("the log", d.log.String(), "a changed key of the configuration is not in effect: "+change,
		"a changed key of the configuration is applied", "training.gate.evidence")
	if len(r.Changes) != 2 || r.Changes[0].Key != "model.dim" || r.Changes[0].Effect != stream.EffectModelReset ||
		r.Changes[1].Effect != stream.EffectApplied || !r.Ready {
		t.Errorf("the status has ready %v and %+v", r.Ready, r.Changes)
	}
	contains("status", verb(t, 0, "status", "--wide", "--server", s.url), change, fix)
	code, ready := d.get("/readyz")
	if contains("/readyz", ready, change); code != http.StatusOK {
		t.Errorf("/readyz is %d", code)
	}
	_, found, _ := call(t.Context(), "doctor", "-c", path)
	contains("doctor", found, "note   configuration (p)", change, fix)

	old := s.config("dim: 2", "every: {rows: 100}")
	code, _, refused := call(t.Context(), "model", "reset", "p", "-c", old, "--yes")
	if contains("reset with another file", refused, "was not started with this file"); code != 3 {
		t.Errorf("reset with another file: exit %d", code)
	}
	path = s.config("dim: 1", "every: {rows: 100}, gate: {evidence: 500}")
	verb(t, 2, "model", "reset", "p", "-c", path) // no terminal
	code, done, plan := call(t.Context(), "model", "reset", "p", "-c", path, "--yes")
	contains("reset", plan+done, "answers until the first model of epoch 2 exists", "model.dim changes from 2 to 1",
		"all versions stay")
	if code != 0 {
		t.Fatalf("reset: exit %d", code)
	}
	s.awaitModel(d, 2, 1)
	d.until("nothing is reported after the reset", func() bool {
		r = s.report()
		return r.Ready && !slices.ContainsFunc(r.Changes, stream.Change.IsOpen) && r.Reason == ""
	})
	for range 7 {
		outputDim()
	}
	publish()
	if n := outputDim(); n != 1 {
		t.Errorf("outputs have %d numbers", n)
	}
	if listed := verb(t, 0, "model", "ls", "p", "--server", s.url); !strings.Contains(listed, first.Model.Version) {
		t.Errorf("the former model is gone:\n%s", listed)
	}
	if stdout := verb(t, 0, "check", "-c", path, "--server", s.url); strings.Contains(stdout, "model.") {
		t.Errorf("check after the reset: %s", stdout)
	}
	_, _, refused = call(t.Context(), "model", "rollback", "p-1", "--server", s.url)
	contains("rollback of a part of a version", refused, `nor a version "p-1" (did you mean "p-1`,
		"`embedd model ls` lists")
	code, _, refused = call(t.Context(), "model", "rollback", first.Model.Version, "--server", s.url)
	if contains("rollback", refused, "embedd model reset p"); code == 0 {
		t.Error("a version with other dimensions was chosen")
	}
	d.stop()
	d = startRun(t, path)
	if r = s.awaitModel(d, 2, 1); len(r.Changes) > 0 {
		t.Errorf("after another start the status has %+v", r.Changes)
	}
}
