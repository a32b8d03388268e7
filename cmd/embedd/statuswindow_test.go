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
	shown := verb(t, 0, "status", "--server", s.ClientURL())
	text := strings.Join(strings.Fields(shown), " ")
	for _, want := range []string{" window: 900 rows", "3 classes", "runs of 300 rows",
		"labels on 100 % of the rows", "  sorted: rows are sorted by their label", "--shuffle"} {
		if !strings.Contains(text, strings.TrimSpace(want)) {
			t.Errorf("status does not say %q:\n%s", want, shown)
		}
	}
	for line := range strings.Lines(shown) {
		if len(strings.TrimSpace(line)) > 100 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
	found := verb(t, 0, "doctor", "-c", config)
	text = strings.Join(strings.Fields(found), " ") // lines are broken where ages and numbers make them too long
	for _, want := range []string{"ok window (digits): 900 rows", "the newest learned is ",
		"note stream (digits): sorted: "} {
		if !strings.Contains(text, want) {
			t.Errorf("doctor does not say %q:\n%s", want, found)
		}
	}
}
