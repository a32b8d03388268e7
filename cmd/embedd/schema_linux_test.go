package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// terminal returns a terminal at which an answer was typed.
func terminal(t *testing.T, typed string) *os.File {
	t.Helper()
	keyboard := sure(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))
	t.Cleanup(func() { keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number := sure(unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN))
	screen := sure(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0))
	t.Cleanup(func() { screen.Close() })
	sure(keyboard.WriteString(typed))
	return screen
}

// schemaSite is a configuration with a server, whose schema verbs are tested.
type schemaSite struct {
	*testing.T
	server      *server.Server
	dir, config string
}

func newSchemaSite(t *testing.T) schemaSite {
	t.Helper()
	s := serveNATS(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	dir := t.TempDir()
	return schemaSite{t, s, dir, writeFile(t, dir, "embedd.yaml", fmt.Sprintf(`
nats: {url: '%s'}
http: {listen: 127.0.0.1:0}
pipelines:
  a:
    input: {stream: FEATURES}
    schema: {features: [x, y]}
    model: {method: lda}
  directory:
    input: {subject: core.directory}
    schema: {features: [x, y]}
    model: {method: lda, store: %s}
  none:
    input: {subject: core.none}
    schema: {features: [x, y]}
    model: {method: lda, store: none}
`, s.ClientURL(), filepath.Join(dir, "models")))}
}

// schema runs `embedd schema` and checks its exit code.
func (s schemaSite) schema(want int, args ...string) (stdout, stderr string) {
	s.Helper()
	code, stdout, stderr := call(s.Context(), append([]string{"schema", "-c", s.config}, args...)...)
	if code != want {
		s.Errorf("embedd schema %v: exit code %d, want %d: %s%s", args, code, want, stdout, stderr)
	}
	return stdout, stderr
}

// stored is the output of `embedd schema show --format json`.
func (s schemaSite) stored(pipeline string) (shown shownSchema) {
	s.Helper()
	stdout, _ := s.schema(0, "show", pipeline, "--format", "json")
	if err := json.Unmarshal([]byte(stdout), &shown); err != nil || strings.Count(stdout, "\n") != 1 {
		s.Errorf("%v in %s", err, stdout)
	}
	return shown
}

// publish sends labelled rows to a subject, 20 in each message.
func (s schemaSite) publish(subject string, rows int) {
	s.Helper()
	data := writeFile(s.T, s.dir, "rows.csv", labelledRows(rows))
	verb(s.T, 0, "publish", "-c", s.config, "--data", data, "--label", "label", "--subject", subject, "--batch",
		"20")
}

// publishDirectory sends rows over core NATS once the daemon has subscribed: it loses what is published before.
func (s schemaSite) publishDirectory(d *runningDaemon) {
	s.Helper()
	d.until("the daemon subscribes", func() bool {
		found, err := s.server.Subsz(&server.SubszOptions{Subscriptions: true, Test: "core.directory"})
		return err == nil && found.Total > 0
	})
	s.publish("core.directory", 600)
}

func (s schemaSite) contains(what, text string, parts ...string) {
	s.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			s.Errorf("%s does not say %q:\n%s", what, part, text)
		}
	}
}

// TestSchemaVerbs shows the schema of a pipeline before, during and after counting, and resets it as an operator does:
// refused without a terminal, confirmed at one, and followed by the daemon.
func TestSchemaVerbs(t *testing.T) {
	t.Parallel()
	s := newSchemaSite(t)
	verb(t, 0, "setup", "--apply", "-c", s.config)
	text, _ := s.schema(0, "show", "a")
	s.contains("show before a daemon ran", text, "not known yet", "no running daemon reports a count")

	d := startRun(t, s.config)
	s.publish("features.a", 40)
	d.until("the messages are counted", func() bool {
		count := s.stored("a").Counting
		return count != nil && count.Messages == 2
	})
	d.until("show has the daemon's count", func() bool { // a verb waits for a daemon's answer for a limited time
		text, _ = s.schema(0, "show", "a")
		return strings.Contains(text, "messages counted: 2")
	})
	s.contains("show during the count", text, "not known yet", "x, y")
	s.publish("features.a", 600)
	live := func(ready bool) func() bool {
		return func() bool {
			_, body := d.get("/readyz")
			return strings.Contains(body, `{"pipeline":"a","ready":true`) == ready
		}
	}
	d.until("a model answers", live(true))
	if got := s.stored("a"); got.Contract == nil || got.Elements != 2 || got.Generation != 1 || got.Counting != nil {
		t.Errorf("the schema is %+v", got)
	}
	text, _ = s.schema(0, "show", "a")
	s.contains("show", text, "generation", "COLUMN", "x", "y")

	_, text = s.schema(2, "reset", "a")
	s.contains("reset without a terminal", text, "not a terminal", "add --yes")
	for _, c := range []struct {
		typed string
		code  int
		after uint64 // generation
	}{{"n\n", 3, 1}, {"\n", 3, 1}, {"y\n", 0, 2}} {
		var out, errs bytes.Buffer
		code := dispatch(t.Context(), &cli.Env{Stdin: terminal(t, c.typed), Stdout: &out, Stderr: &errs},
			[]string{"schema", "reset", "a", "-c", s.config})
		if got := s.stored("a").Generation; code != c.code || got != c.after {
			t.Errorf("typed %q: exit code %d, want %d; generation %d, want %d: %s", c.typed, code, c.code, got, c.after,
				errs.String())
		}
		s.contains("the question", errs.String(), "The schema of pipeline a is", "counted from message 33 of stream FEATURES",
			"new epoch", "hold: they wait", "schema_changed", "Reset the schema? [y/N] ")
	}
	d.until("the daemon follows", live(false))
	if got := s.stored("a"); got.Contract != nil || got.After != 32 {
		t.Errorf("the schema after the reset is %+v", got)
	}
	s.publish("features.a", 600)
	d.until("a model of the new schema answers", live(true))

	stdout, errs := s.schema(0, "reset", "a", "--yes", "--format", "json")
	var reset resetSchema
	if err := json.Unmarshal([]byte(stdout), &reset); err != nil || reset.Before.Contract == nil ||
		reset.After.Contract != nil || reset.After.Generation != 3 || strings.Contains(errs, "[y/N]") {
		t.Errorf("reset --yes says %s%s: %v", stdout, errs, err)
	}

	_, text = s.schema(2, "show", "b")
	s.contains("show of an unknown pipeline", text, `has no pipeline "b"`, "a, directory")
	_, text = s.schema(2, "reset", "b", "--yes")
	s.contains("reset of an unknown pipeline", text, `has no pipeline "b"`, "a, directory")
}

// TestSchemaVerbsOnCoreNATS: with a model directory the schema is a file, which a daemon reads at its start; without
// one nothing is stored.
func TestSchemaVerbsOnCoreNATS(t *testing.T) {
	t.Parallel()
	s := newSchemaSite(t)
	verb(t, 0, "setup", "--apply", "-c", s.config)
	d := startRun(t, s.config)
	waits := func() bool {
		_, body := d.get("/readyz")
		return !strings.Contains(body, `{"pipeline":"directory","ready":true`)
	}
	s.publishDirectory(d)
	d.until("a model answers", func() bool { return !waits() })
	if got := s.stored("directory"); got.Elements != 2 || got.Generation != 1 {
		t.Errorf("the schema is %+v", got)
	}
	stdout, errs := s.schema(0, "reset", "directory", "--yes")
	s.contains("reset", stdout+errs, "after the next start", "Start the daemon again", "generation 2")
	if got := s.stored("directory"); got.Contract != nil || got.Generation != 2 {
		t.Errorf("the schema after the reset is %+v", got)
	}
	if waits() {
		t.Error("the running daemon follows the reset, and the command says that it does not")
	}
	if code := d.stop(); code != 0 {
		t.Errorf("the daemon ended with %d:\n%s", code, d.log)
	}
	d = startRun(t, s.config)
	if !waits() {
		t.Error("a daemon that starts after the reset answers with the model of before")
	}
	s.publishDirectory(d)
	d.until("a model of the new schema answers", func() bool { return !waits() })
	if got := s.stored("directory"); got.Elements != 2 || got.Generation != 2 {
		t.Errorf("the new schema is %+v", got)
	}
	for _, args := range [][]string{{"show", "none"}, {"reset", "none", "--yes"}} {
		_, errs := s.schema(1, args...)
		s.contains(strings.Join(args, " "), errs, "model.store")
	}
}
