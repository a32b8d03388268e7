package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
)

// TestContextOfVerbs: embedd.yaml and the name of a pipeline are all that a verb needs; flags override them.
func TestContextOfVerbs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	s := serveNATS(t, server.Options{JetStream: true, StoreDir: filepath.Join(dir, "js"), Users: []*server.User{
		{Username: "daemon", Password: "d"}, {Username: "operator", Password: "o"}}})
	for name, text := range map[string]string{"d": "d", "o": "o", "wrong": "w", "rows.csv": labelledRows(400)} {
		writeFile(t, dir, name, text)
	}
	yaml := `
nats:
  url: '` + s.ClientURL() + `'
  user: daemon
  password_file: wrong
  users: {daemon: {user: daemon, password_file: d}, operator: {user: operator, password_file: o}}
http: {listen: 127.0.0.1:0}
pipelines:
  digits:
    input: {stream: IN, subject: rows.digits}
    schema: {features: [x, y]}
    output: {subject: small.digits, dead: bad.digits}
    model: {dim: 1}
  core: {schema: {features: [x, y]}, model: {store: models}}
`
	writeFile(t, dir, "embedd.yaml", yaml)
	refused := func(says string, args ...string) {
		t.Helper()
		if code, _, errs := call(t.Context(), args...); code == 0 || !strings.Contains(errs, says) {
			t.Errorf("%v: exit %d, %s; want %s", args, code, errs, says)
		}
	}
	refused("stores them in models", "model", "ls", "core")
	verb(t, 0, "setup", "--apply", "--user", "daemon")
	d := startRun(t, "embedd.yaml", "--user", "daemon")
	verb(t, 0, "publish", "--user", "operator", "--data", "rows.csv", "--pipeline", "digits")
	if out := verb(t, 0, "tail", "--user", "operator", "--pipeline", "digits", "--of", "input", "--all", "--limit",
		"1"); !strings.Contains(out, "rows.digits") {
		t.Errorf("tail prints %s", out)
	}
	d.until("status has the pipeline", func() bool {
		code, out, _ := call(t.Context(), "status", "--user", "operator", "digits")
		return code == 0 && strings.Contains(out, "digits")
	})
	nc := sure(nats.Connect(strings.Replace(s.ClientURL(), "//", "//operator:o@", 1), nats.Timeout(ample)))
	defer nc.Close()
	sure(sure(jetstream.New(nc)).Publish(t.Context(), "rows.digits", []byte("not Arrow")))
	if out := verb(t, 0, "tail", "--user", "operator", "--pipeline", "digits", "--of", "dead", "--all", "--limit",
		"1"); !strings.Contains(out, "bad.digits") {
		t.Errorf("tail prints %s", out)
	}
	if out := verb(t, 0, "dlq", "ls", "--user", "operator", "digits"); !strings.Contains(out, "bad.digits") {
		t.Errorf("dlq ls prints %s", out)
	}
	for says, args := range map[string][]string{
		`(did you mean "operator"?)`:            {"status", "--user", "oprator"},
		"Authorization":                         {"status"},
		"--user and --creds exclude each other": {"status", "--user", "operator", "--creds", "x"},
		`has no pipeline "digit" (did you mean`: {"tail", "--pipeline", "digit"},
		"--subject or --pipeline is required":   {"tail"},
		"pipeline digits has no input.labels":   {"tail", "--pipeline", "digits", "--of", "labels"},
	} {
		refused(says, args...)
	}
	if code, _, errs := call(t.Context(), "model", "show", "core"); code != 1 || !strings.Contains(errs, "models") ||
		strings.Contains(errs, "Authorization") {
		t.Errorf("model show core: exit %d, %s", code, errs)
	}
	for line, want := range map[string]string{
		"status ":                          "digits core",
		"publish --pipeline ":              "digits core",
		"tail --user ":                     "daemon operator",
		"model pin --user operator digits": "digits core",
	} {
		out := verb(t, 0, append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(line, " ")...)...)
		if got := strings.Join(strings.Fields(out), " "); !strings.HasPrefix(got, want) {
			t.Errorf("%q completes to %q, want %q", line, got, want)
		}
	}
}

// TestUsersOfConfiguration: each login of nats.users is checked as that of nats is.
func TestUsersOfConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "embedd.yaml")
	for says, users := range map[string]string{
		`unknown key "pasword": did you mean "password"?`:       "{a: {user: x, pasword: y}}",
		"nats.users.a.user: a user needs nats.users.a.password": "{a: {user: x}}",
		"nats.users.a: no login":                                "{a: {}}",
		"nats.users.a.token: user and token exclude each other": "{a: {user: x, password: y, token: z}}",
		"nats.users.a.creds: the file cannot be read":           "{a: {creds: absent}}",
		`unknown key "url": allowed are creds`:                  "{a: {url: nats://x}}",
		"nats.users.a b: a role has":                            "{a b: {token: x}}",
		"nats.users: want a mapping":                            "[a]",
		"nats.users.a: want a mapping":                          "{a: x}",
		"users and context exclude each other":                  "{a: {token: x}}\n  context: c",
		"nats.users.a: set twice":                               "{a: {token: x}, a: {token: x}}",
	} {
		text := fmt.Sprintf("nats:\n  users: %s\npipelines: {p: {schema: {features: x}}}\n", users)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := call(t.Context(), "check", "-c", path); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("users: %s: exit %d, %s; want %s", users, code, errs, says)
		}
	}
}

// TestSubjectsOfConfiguration: the output's subject may take tokens of the input's, which have to exist, must not lead
// back to an input, and are in the permissions that setup prints.
func TestSubjectsOfConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "embedd.yaml")
	write := func(subjects string) {
		t.Helper()
		text := "pipelines: {p: {schema: {features: x}, " + subjects + "}}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for subjects, says := range map[string]string{
		"input: {subject: f.*}, output: {subject: 'r.{{wildcard(2)}}'}":              "needs at least 2 *",
		"output: {subject: 'r.{{wildcard(1)}}'}":                                     "features.p has 0",
		"input: {subject: f.*}, output: {subject: '{{wildcard(1)}}.r'}":              "begin with a word",
		"input: {subject: f.*.*}, output: {subject: 'f.x.{{wildcard(1)}}'}":          "a loop",
		"input: {subject: f.*}, output: {subject: 'r.{{wildcard(1)}}', dead: r.bad}": "the same subject as output.subject",
		"input: {subject: f.*}, output: {subject: 'r.{{wildcard (1)}}'}":             "no spaces",
		"input: {subject: f.*}, output: {subject: r.*}":                              "has no wildcard",
	} {
		write(subjects)
		if code, _, errs := call(t.Context(), "check", "-c", path); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d, %s; want %s", subjects, code, errs, says)
		}
	}
	write("input: {stream: F, subject: f.*}, output: {subject: 'r.{{wildcard(1)}}'}")
	out := verb(t, 0, "setup", "-c", path, "--server", "nats://127.0.0.1:1", "--permissions", "daemon")
	if !strings.Contains(out, `"r.*"`) {
		t.Errorf("the daemon may publish %s", out)
	}
}
