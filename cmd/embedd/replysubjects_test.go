package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
)

// TestRepliesChangeNothing: a user can have the answer to a request stored under a subject on which it may not publish.
// With every request of each role, the answers of server and daemon are stored under all subjects of the pipeline's
// state, over those of a message that the user has published itself. The daemon continues with the same identity key,
// model and lease and reports it, and the next daemon finds the same.
func TestRepliesChangeNothing(t *testing.T) {
	t.Parallel()
	port, dir := carrier.FreePort(t), t.TempDir()
	config := writeFile(t, dir, "embedd.yaml", fmt.Sprintf(`
nats: {url: 'nats://127.0.0.1:%d'}
http: {listen: 127.0.0.1:0}
pipelines:
  a:
    input: {stream: FEATURES}
    schema: {features: [x, y]}
    model: {method: lda}
`, port))
	g := byConfiguration(t, config, port)
	verb(t, 0, append([]string{"setup", "--apply", "-c", config}, g.who["setup"]...)...)
	data := writeFile(t, dir, "rows.csv", labelledRows(600))
	publish := append([]string{"publish", "--data", data, "--label", "label", "--subject", "features.a", "--batch", "100"},
		g.who["producer"]...)
	verb(t, 0, publish...)
	ctx, js := t.Context(), sure(jetstream.New(g.admin, jetstream.WithDefaultTimeout(ample)))

	d := startRun(t, config, g.who["daemon"]...)
	var r stream.Report
	status := func() stream.Report {
		r = stream.Report{}
		msg, err := g.admin.Request("embedd.a.status", nil, ample)
		if errors.Is(err, nats.ErrNoResponders) {
			return r // the daemon does not serve yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(msg.Data, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	d.until("a model is live", func() bool {
		r := status()
		return r.Ready && r.IsTrainer && r.Model != nil && !r.Model.Bootstrap && storedIn(t, js, "REDUCED") == 6
	})
	before := r.Model
	// stored are the fields of what is stored under a key.
	stored := func(bucket, key string) map[string]any {
		entry, err := sure(js.KeyValue(ctx, bucket)).Get(ctx, key)
		fields := map[string]any{}
		if err == nil && json.Unmarshal(entry.Value(), &fields) != nil {
			return nil
		}
		return fields
	}
	identity := stored("EMBEDD_STATE", "a.identity")["key"]

	if text := g.denied.String(); text != "" {
		t.Errorf("the server denies the daemon %s", text)
	}
	// What an attacker would like to be the key.
	forged := sure(js.Publish(ctx, "features.a", []byte(`{"key":"`+strings.Repeat("A", 43)+`=","streams":{}}`)))
	rows := sure(sure(js.Stream(ctx, "FEATURES")).GetMsg(ctx, 1)).Data
	var targets []string
	for _, bucket := range []string{"KV_EMBEDD_STATE", "KV_EMBEDD_MODELS", "KV_EMBEDD_LEASES", "OBJ_EMBEDD_MODELS"} {
		info := sure(sure(js.Stream(ctx, bucket)).Info(ctx, jetstream.WithSubjectFilter(">")))
		for subject := range info.State.Subjects {
			targets = append(targets, subject)
		}
	}
	targets = append(targets, "$KV.EMBEDD_STATE.a.training", "$KV.EMBEDD_STATE.a.attempts.x",
		"$KV.EMBEDD_LEASES.a.standby", "reduced.a", "dead.a")
	slices.Sort(targets)
	own := []string{"model.rollback", "model.pin", "model.unpin", "a.retrain", "a.reload", "a.resume", "dlq.replay",
		"MSG.DELETE", "$KV."}
	for line := range strings.Lines(verb(t, 0, "setup", "--permissions", "--format", "json", "-c", config)) {
		var p admin.Permissions
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		if p.Role == "daemon" || p.Role == "setup" {
			continue
		}
		nc := g.as(t, string(p.Role), func(err error) { t.Error(err) })
		for _, subject := range p.Publish {
			if slices.ContainsFunc(own, func(o string) bool { return strings.Contains(subject, o) }) {
				continue // what the role may do anyway
			}
			body := fmt.Appendf(nil, `{"seq":%d}`, forged.Sequence)
			if strings.HasSuffix(subject, ".transform") {
				body = rows
			}
			for _, target := range targets {
				err := nc.PublishRequest(strings.NewReplacer("*", "x", ">", "x").Replace(subject), target, body)
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string) {
		t.Helper()
		for name, isStored := range map[string]func() bool{
			"identity key": func() bool { return stored("EMBEDD_STATE", "a.identity")["key"] == identity },
			"schema":       func() bool { return stored("EMBEDD_STATE", "a.contract")["contract"] != nil },
			"pointer": func() bool { // its model, or a newer one
				live := stored("EMBEDD_MODELS", "a")["live"]
				r := status()
				return live == before.Version || r.Model != nil && live == r.Model.Version
			},
			"lease": func() bool { return stored("EMBEDD_LEASES", "a")["holder"] != nil },
		} {
			d.until(what+": the same "+name+" is stored", isStored)
		}
		verb(t, 0, publish...)
		last := sure(js.Stream(ctx, "FEATURES")).CachedInfo().State.LastSeq
		d.until(what+": the inputs are answered", func() bool {
			m, err := sure(js.Stream(ctx, "REDUCED")).GetLastMsgForSubject(ctx, "reduced.a")
			return err == nil && strings.HasSuffix(m.Header.Get(wire.HeaderSource), fmt.Sprint(":", last))
		})
		d.until(what+": a replica is the trainer", func() bool { return status().IsTrainer })
		if r.Model == nil || r.Model.Epoch != before.Epoch {
			t.Errorf("%s: the model is %+v, was %+v", what, r.Model, before)
		}
		if t.Failed() {
			t.Logf("%s\n%+v", d.log, r)
		}
	}
	// A user with more permissions, of an earlier version, has the copy of a message stored, with its headers.
	input := sure(js.Stream(ctx, "FEATURES")).CachedInfo().Config
	input.AllowDirect = true
	sure(js.UpdateStream(ctx, input))
	for _, target := range targets {
		err := g.admin.PublishRequest("$JS.API.DIRECT.GET.FEATURES", target, fmt.Appendf(nil, `{"seq":%d}`, forged.Sequence))
		if err != nil {
			t.Fatal(err)
		}
	}
	check("while the daemon runs")
	d.until("the condition is reported", func() bool {
		return slices.ContainsFunc(status().Conditions, func(c stream.Condition) bool {
			return c.Name == "foreign_entry" && strings.Contains(c.Reason, "$KV.EMBEDD_STATE.a.identity")
		})
	})
	if !strings.Contains(d.log.String(), `level=WARN msg="a key was overwritten by a message that no replica wrote"`) {
		t.Errorf("the daemon does not log it: %s", d.log)
	}
	for _, seq := range outputsWithoutSource(t, js) {
		t.Errorf("output %d is the daemon's answer to a request", seq)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	d = startRun(t, config, g.who["daemon"]...)
	d.until("a model is live", func() bool { return status().Ready })
	check("after a restart")
}

// outputsWithoutSource are the messages of outputs that are Arrow and name no input.
func outputsWithoutSource(t *testing.T, js jetstream.JetStream) (all []uint64) {
	reduced := sure(js.Stream(t.Context(), "REDUCED"))
	for seq := uint64(1); seq <= reduced.CachedInfo().State.LastSeq; seq++ {
		m := sure(reduced.GetMsg(t.Context(), seq))
		if m.Header.Get(wire.HeaderSource) == "" && bytes.HasPrefix(m.Data, []byte{0xff, 0xff, 0xff, 0xff}) {
			all = append(all, seq)
		}
	}
	return all
}
