package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio/wire"
)

// trial is a message that a role may publish with the permissions that setup prints, and that must change nothing but
// what the role is for.
type trial struct{ role, subject, reply, body, header string }

// direct reads a key of the state by its subject, as a viewer may.
const direct = "$JS.API.DIRECT.GET.KV_EMBEDD_STATE.$KV.EMBEDD_STATE.a.contract"

// reader creates a consumer, as a reader may.
const reader = "$JS.API.CONSUMER.CREATE.REDUCED.embedd-reader-1.reduced.a"

// trials are what docs/evidence/attempts.md describes as without effect.
var trials = []trial{
	// The daemon as deputy: its reply would be published with its permissions.
	{"producer", "embedd.a.transform", "$JS.API.STREAM.PURGE.FEATURES", "x", ""},
	{"producer", "embedd.a.transform", "$JS.API.STREAM.DELETE.REDUCED", "x", ""},
	{"producer", "embedd.a.transform", "$JS.API.CONSUMER.DELETE.FEATURES.embedd_a", "x", ""},
	{"producer", "embedd.a.transform", "$JS.ACK.FEATURES.embedd_a.1.1.1.1.0", "x", ""},
	{"producer", "embedd.a.transform", "reduced.a", "x", ""},
	{"viewer", "embedd.a.model.show", "$JS.API.STREAM.DELETE.DEAD", "x", ""},
	{"viewer", "embedd.a.status", "reduced.a", "", ""},
	{"viewer", "$SRV.PING", "$JS.API.STREAM.PURGE.FEATURES", "", ""},
	{"viewer", "$SRV.PING", "$JS.API.STREAM.PURGE.OBJ_EMBEDD_MODELS", "", ""},
	{"viewer", "$SRV.PING", "$JS.API.CONSUMER.DELETE.FEATURES.embedd_a", "", ""},
	{"operator", "embedd.a.model.pin", "$JS.API.STREAM.DELETE.FEATURES", "x", ""},
	{"operator", "embedd.a.reload", "$JS.API.STREAM.DELETE.FEATURES", "", ""},
	// The server as deputy: its answer arrives as a request.
	{"reader", "$JS.API.STREAM.NAMES", "embedd.a.model.pin", "", ""},
	{"reader", "$JS.API.STREAM.NAMES", "embedd.a.retrain", "", ""},
	{"reader", "$JS.API.STREAM.NAMES", "embedd.a.reload", "", ""},
	{"reader", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.PURGE.FEATURES", "", ""},
	{"reader", "$JS.API.STREAM.NAMES", "$JS.API.CONSUMER.DELETE.FEATURES.embedd_a", "", ""},
	{"reader", reader, "", `{"stream_name":"REDUCED","config":{"name":"embedd-reader-1","filter_subject":"reduced.a",` +
		`"ack_policy":"none","deliver_subject":"$JS.API.STREAM.DELETE.FEATURES"}}`, ""},
	{"reader", "$JS.API.CONSUMER.DELETE.REDUCED.embedd-reader-1", "", "", ""},
	{"reader", reader, "", `{"stream_name":"REDUCED","config":{"name":"embedd-reader-1","filter_subject":"reduced.a",` +
		`"ack_policy":"none","deliver_subject":"embedd.a.model.pin"}}`, ""},
	{"reader", "$JS.API.CONSUMER.DELETE.REDUCED.embedd-reader-1", "", "", ""},
	// What the server must not read for a subject in the permission.
	{"viewer", direct, "", `{"last_by_subj":"$KV.EMBEDD_STATE.a.identity"}`, ""},
	{"viewer", direct, "", `{"multi_last":["$KV.EMBEDD_STATE.>"]}`, ""},
	{"viewer", direct, "", `{"next_by_subj":"$KV.EMBEDD_STATE.>","seq":1,"batch":100}`, ""},
	{"viewer", direct, "", `{"seq":1,"batch":100}`, ""},
	{"operator", direct, "", `{"multi_last":["$KV.EMBEDD_STATE.>"]}`, ""},
	{"viewer", "$JS.API.STREAM.INFO.KV_EMBEDD_STATE", "", `{"subjects_filter":">"}`, ""},
	// Inputs.
	{"producer", "features.a", "", "+ACK", ""},
	{"producer", "features.a", "", "", "Status: 409\r\nDescription: Consumer Deleted"},
	{"producer", "features.a", "", "x", "Nats-Rollup: all"},
	{"producer", "features.a", "", "x", "nats-rollup: all"},
	{"producer", "features.a", "", "x", "Nats-TTL: 1s"},
	{"producer", "features.a", "", "x", "Nats-Schedule: @every 1s\r\nNats-Schedule-Target: reduced.a"},
	{"producer", "features.a", "", "x", "Nats-Batch-Id: b\r\nNats-Batch-Sequence: 1"},
	{"producer", "features.a", "", "x", "Nats-Trace-Dest: reduced.a"},
	{"producer", "features.a", "", "x", wire.HeaderSource + ": FEATURES:1\r\n" + wire.HeaderModel + ": none"},
	{"producer", "late.labels", "", "x", ""},
	// The daemon repairs what an operator may write.
	{"operator", "$KV.EMBEDD_MODELS.a", "", "garbage", ""},
}

// TestAttempts sends with each role what it may send, to stop, change or read what is not for it, while a daemon runs:
// then everything is as before, and further inputs are answered.
func TestAttempts(t *testing.T) {
	t.Parallel()
	g, js := roleServer(t)
	config := g.config
	as := func(role string, args ...string) { verb(t, 0, append(args, g.who[role]...)...) }
	rows := writeFile(t, t.TempDir(), "rows.csv", labelledRows(600))
	as("producer", "publish", "-c", config, "--data", rows, "--label", "label", "--subject", "features.a", "--batch", "20")
	d := startRun(t, config, g.who["daemon"]...)
	isReady := func() bool {
		_, body := d.get("/readyz")
		return strings.Contains(body, `{"pipeline":"a","ready":true`)
	}
	d.until("the pipeline is ready", isReady)
	d.until("all inputs are answered", func() bool { return storedIn(t, js, "REDUCED") == 30 })
	state := sure(js.KeyValue(t.Context(), "EMBEDD_STATE"))
	key := sure(state.Get(t.Context(), "a.identity")).Value()
	var note struct{ Key json.RawMessage }
	if err := json.Unmarshal(key, &note); err != nil || len(note.Key) < 32 {
		t.Fatal(err)
	}
	secret := bytes.Trim(note.Key, `"`)
	consumer := sure(js.Consumer(t.Context(), "FEATURES", "embedd_a")).CachedInfo().Created
	streams := func() (all []string) {
		for name := range js.StreamNames(t.Context()).Name() {
			all = append(all, name)
		}
		return all
	}
	before, models := streams(), storedIn(t, js, "OBJ_EMBEDD_MODELS")

	for _, role := range []string{"producer", "reader", "viewer", "operator"} {
		nc := g.as(t, role, func(error) {}) // some reply subjects are denied
		for _, a := range trials {
			if a.role != role {
				continue
			}
			msg := &nats.Msg{Subject: a.subject, Reply: a.reply, Data: []byte(a.body), Header: nats.Header{}}
			for line := range strings.SplitSeq(a.header, "\r\n") {
				if name, value, ok := strings.Cut(line, ": "); ok {
					msg.Header[name] = []string{value}
				}
			}
			if a.reply != "" || !strings.HasPrefix(a.subject, "$JS.API.") {
				if err := nc.PublishMsg(msg); err != nil {
					t.Fatal(err)
				}
				continue
			}
			answer, err := nc.RequestMsg(msg, ample)
			if err != nil {
				t.Fatalf("%s: %s: %v", role, a.subject, err)
			}
			if bytes.Contains(answer.Data, secret) {
				t.Errorf("%s reads the key of the identities with %s", role, a.body)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}

	sure(js.Publish(t.Context(), "features.a", nil)) // what was published before without a confirmation is stored now
	inputs := storedIn(t, js, "FEATURES")
	as("producer", "publish", "-c", config, "--data", rows, "--label", "label", "--subject", "features.a", "--batch", "20")
	d.until("the inputs after the attempts are answered", func() bool { return storedIn(t, js, "REDUCED") == 60 })
	d.until("the pipeline is ready", isReady)
	if now := storedIn(t, js, "FEATURES"); now != inputs+30 || inputs < 30 {
		t.Errorf("the stream of inputs has %d messages, before it had %d", now, inputs)
	}
	if now := sure(js.Consumer(t.Context(), "FEATURES", "embedd_a")).CachedInfo().Created; !now.Equal(consumer) {
		t.Error("the durable consumer was created again")
	}
	if now := streams(); len(now) != len(before) {
		t.Errorf("the streams are %v, before %v", now, before)
	}
	if n := storedIn(t, js, "OBJ_EMBEDD_MODELS"); n < models {
		t.Errorf("%d messages of models are left of %d", n, models)
	}
	if now := sure(state.Get(t.Context(), "a.identity")).Value(); !bytes.Equal(now, key) {
		t.Error("the key of the identities has changed")
	}
	list := sure(g.as(t, "operator", func(err error) { t.Error(err) }).Request("embedd.a.model.ls", nil, ample)).Data
	if bytes.Contains(list, []byte(`"pinned":true`)) {
		t.Errorf("an answer of the server pinned a model: %s", list)
	}
	for seq := uint64(1); seq <= 60; seq++ {
		m := sure(sure(js.Stream(t.Context(), "REDUCED")).GetMsg(t.Context(), seq))
		if m.Header.Get(wire.HeaderModel) == "" || m.Header.Get(nats.MsgIdHdr) == "" {
			t.Errorf("output %d is of another client: %v %.80s", seq, m.Header, m.Data)
		}
	}
}
