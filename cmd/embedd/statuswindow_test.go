package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/embedd/embedd/stream"
)

// TestUnusualStreamIsNamed: status and doctor say what the window of a running pipeline is and what is unusual about
// its stream, here a file that is sorted by its label. That is no fault.
func TestUnusualStreamIsNamed(t *testing.T) {
	t.Parallel()
	s := serveNATS(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	dir := t.TempDir()
	config := writeFile(t, dir, "embedd.yaml", "http: {listen: 127.0.0.1:0}\nnats: {url: '"+s.ClientURL()+`'}
pipelines:
  digits:
    input: {stream: FEATURES, subject: features.digits}
    schema: {features: [x, y], label: label}
    output: {subject: reduced.digits, dead: dead.digits}
    model: {method: lda}
`)
	verb(t, 0, "setup", "--apply", "-c", config)
	rows := writeFile(t, dir, "rows.csv", sortedRows(900))
	verb(t, 0, "publish", "--data", rows, "--pipeline", "digits", "--batch", "50", "-c", config)
	d := startRun(t, config)
	var learning stream.Learning
	d.until("the stream is unusual", func() bool {
		var r stream.Report
		code, text, _ := call(t.Context(), "status", "digits", "--server", s.ClientURL(), "--format", "json")
		if code != 0 { // the daemon does not answer yet
			return false
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		learning = r.Learning
		return learning.Rows == 900 && len(learning.Unusual) > 0
	})
	if u := learning.Unusual[0]; u.Kind != "sorted" || learning.ClassesSeen != 3 || !learning.HasRuns {
		t.Errorf("%+v", learning)
	}
	_, below, ok := strings.Cut(verb(t, 0, "status", "--server", s.ClientURL()), "\n\n")
	text := strings.Join(strings.Fields(below), " ")
	for _, want := range []string{"digits: window: 900 rows", "3 classes", "runs of 300 rows",
		"labels on 100 % of the rows", "  sorted: rows are sorted by their label", "--shuffle"} {
		if !ok || !strings.Contains(text, strings.TrimSpace(want)) {
			t.Errorf("status does not say %q:\n%s", want, below)
		}
	}
	for line := range strings.Lines(below) {
		if len(strings.TrimSpace(line)) > maxStatusColumns {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
	found := verb(t, 0, "doctor", "-c", config)
	for _, want := range []string{"ok     window (digits): 900 rows", "note   stream (digits): sorted: "} {
		if !strings.Contains(found, want) {
			t.Errorf("doctor does not say %q:\n%s", want, found)
		}
	}
}

func TestWrapped(t *testing.T) {
	text := wrapped("  kind: "+strings.Repeat("word \n", 60)+strings.Repeat("x", 120), 20)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if n := len(line); n > maxStatusColumns && i < len(lines)-1 || i == 0 && n > maxStatusColumns-20 {
			t.Errorf("line %d has %d columns", i, n)
		}
		if indent := len(line) - len(strings.TrimLeft(line, " ")); i == 0 && indent != 2 || i > 0 && indent != 4 {
			t.Errorf("line %d is indented by %d", i, indent)
		}
	}
	if strings.Count(text, "word") != 60 || len(lines) != 5 {
		t.Errorf("%d lines:\n%s", len(lines), text)
	}
}
