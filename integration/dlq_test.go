package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio/wire"
)

// listed is a line of embedd dlq ls --format json.
func listed(t testing.TB, args ...string) (out []map[string]any) {
	t.Helper()
	text := succeed(t, append([]string{"dlq", "ls", "--format", "json"}, args...)...)
	for line := range strings.Lines(text) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, one)
	}
	return out
}

// TestDeadLetterQueue: dead letters are listed, shown, saved unchanged and replayed once; and too many bad messages
// halt a pipeline until it is resumed.
func TestDeadLetterQueue(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	g := digits(t)
	pipeline := `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label, nulls: %s}
  output: {subject: reduced.digits, dead: dead.digits}
  limits: {bad: 3 of 10}
  model: {file: ` + packedModel(t, "lda", 3) + `}`
	d := startDaemon(t, configFile(t, s.ClientURL(), fmt.Sprintf(pipeline, "reject")))
	server := "--server=" + s.ClientURL()
	bad := []byte("no Arrow at all")
	must(c.js.PublishMsg(within(t, ample), &nats.Msg{Subject: "features.digits", Data: bad,
		Header: nats.Header{"Trace": {"a7"}}}))(t)
	c.send("features.digits", pixelsWith(t, 5, 3, float32(math.NaN())))
	c.settled("FEATURES", "digits")

	if text := succeed(t, "dlq", "ls", "--wide", server); !strings.Contains(text, "non_finite") ||
		!strings.Contains(text, "FEATURES:1") {
		t.Errorf("dlq ls prints\n%s", text)
	}
	all := listed(t, server, "digits")
	if len(all) != 2 || all[0]["code"] != "not_arrow" || all[0]["source"] != "FEATURES:1" ||
		all[0]["input"] != "features.digits" || all[0]["attempts"] != 1.0 || all[1]["rows"] != "3" {
		t.Fatalf("dlq ls: %v", all)
	}
	if one := listed(t, server, "--code", "non_finite", "--since", "1h"); len(one) != 1 || one[0]["number"] != 2.0 {
		t.Errorf("dlq ls --code: %v", one)
	}
	if none := listed(t, server, "--until", "1h"); len(none) != 0 {
		t.Errorf("dlq ls --until: %v", none)
	}
	path := filepath.Join(t.TempDir(), "bad")
	text := succeed(t, "dlq", "show", server, "1", "-o", path)
	saved := must(os.ReadFile(path))(t)
	if !bytes.Equal(saved, bad) || !strings.Contains(text, "header Trace") ||
		!strings.Contains(text, "Arrow IPC stream marker") {
		t.Errorf("dlq show saves %q and prints\n%s", saved, text)
	}
	for _, args := range [][]string{{"show", "99"}, {"replay", "99"}, {"show", "x"}, {"ls", "--subject", "unused.>"}} {
		if _, stderr, code := run(t, append([]string{"dlq", server}, args...)...); code == 0 ||
			!strings.Contains(stderr, "dlq ls") &&
				!strings.Contains(stderr, "--subject") {
			t.Errorf("dlq %v: exit code %d: %s", args, code, stderr)
		}
	}

	// The cause is fixed, and the rejected messages are replayed, once.
	d.stop()
	d = startDaemon(t, configFile(t, s.ClientURL(), fmt.Sprintf(pipeline, "impute")))
	if text := succeed(t, "dlq", "replay", server, "--dry-run"); !strings.Contains(text, "2 dead letters would be") {
		t.Errorf("dlq replay --dry-run prints\n%s", text)
	}
	for i, want := range []string{"1 dead letters were", "0 dead letters were"} {
		if text := succeed(t, "dlq", "replay", server, "--code", "non_finite"); !strings.Contains(text, want) {
			t.Errorf("replay %d prints\n%s", i, text)
		}
	}
	c.settled("FEATURES", "digits")
	if n := c.count("FEATURES"); n != 3 {
		t.Errorf("%d messages went in, want two and one that was replayed", n)
	}
	answer := c.last("REDUCED")
	if _, recs := decode(t, answer.data); answer.header.Get(wire.HeaderSource) != "FEATURES:3" || recs[0].NumRows() != 1 {
		t.Errorf("the rejected row comes as %v", answer.header)
	}
	if all := listed(t, server); len(all) != 1 || all[0]["code"] != "not_arrow" {
		t.Errorf("left: %v", all)
	}

	// Too many messages are bad.
	for range 3 {
		c.send("features.digits", bad)
	}
	c.send("features.digits", g.message(t, 0, 4, true))
	eventually(t, says("the pipeline halts"), func() bool {
		code, body := d.get("/readyz")
		return code == 503 && strings.Contains(body, "3 of the newest 4 messages were bad") &&
			strings.Contains(body, `"state":"halted"`)
	})
	if text := succeed(t, "status", server); !strings.Contains(text, "halted") {
		t.Errorf("status prints\n%s", text)
	}
	d.awaitMetric(`embedd_halted{pipeline="digits"}`, "1")
	succeed(t, "resume", server, "digits")
	c.settled("FEATURES", "digits")
	if answer := c.last("REDUCED"); answer.header.Get(wire.HeaderSource) != "FEATURES:7" {
		t.Errorf("after it was resumed the last answer is of %s", answer.header.Get(wire.HeaderSource))
	}
	eventually(t, says("it is ready after it was resumed"), func() bool {
		code, _ := d.get("/readyz")
		return code == 200
	})
	d.awaitMetric(`embedd_dead_letters_total{code="not_arrow",pipeline="digits"}`, "3")
	d.stop()
	if !strings.Contains(d.log.String(), "level=WARN msg=\"dead letter") {
		t.Errorf("the log does not say the first:\n%s", d.log)
	}
}

// TestControlCharacters: what a publisher writes into headers and dead letters cannot control the terminal of an
// operator who lists, shows or replays them.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	const attack = "\x1b]0;owned\x07\x1b[2J\u009b31m"
	d := startDaemon(t, configFile(t, s.ClientURL(), `
digits:
  input: {stream: FEATURES, subject: features.>}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {file: `+packedModel(t, "lda", 3)+`}`))
	must(c.js.PublishMsg(within(t, ample), &nats.Msg{Subject: "features.\x1b[2Jdigits", Data: []byte(attack),
		Header: nats.Header{"Trace": {attack}}}))(t)
	c.settled("FEATURES", "digits")
	letter := must(must(c.js.Stream(within(t, ample), "DEAD"))(t).GetMsg(within(t, ample), 1))(t)
	forged := nats.Header{}
	for k, v := range letter.Header {
		forged[k] = v
	}
	forged.Del(nats.MsgIdHdr)
	for _, k := range []string{wire.HeaderError, wire.HeaderCode, wire.HeaderSubject} {
		forged.Set(k, attack)
	}
	must(c.js.PublishMsg(within(t, ample), &nats.Msg{Subject: "dead.digits", Data: []byte(attack), Header: forged}))(t)
	server := "--server=" + s.ClientURL()
	for _, args := range [][]string{{"dlq", "ls", server}, {"dlq", "show", server, "1"}, {"dlq", "show", server, "2"},
		{"dlq", "replay", server, "--dry-run"}, {"dlq", "replay", server}, {"model", "show", server, attack},
		{"dlq", "ls", server, attack}, {"dlq", "ls", server, "--format=json"}, {"status", server}, {"model", "ls", server},
		{"tail", server, "--subject=dead.>", "--all", "--limit=2"},
		{"tail", server, "--subject=dead.>", "--all", "--limit=2", "--format=json"},
		{"doctor", server}} {
		stdout, stderr, _ := run(t, args...)
		if text := stdout + stderr; strings.ContainsAny(text, "\x1b\x07\u009b") {
			t.Errorf("%q prints %q", args, text)
		}
	}
	d.stop()
	if text := d.log.String(); strings.ContainsAny(text, "\x1b\x07\u009b") {
		t.Errorf("the log has %q", text)
	}
}
