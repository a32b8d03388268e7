package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/daemon"
)

// call runs a command line and returns its exit code and its output. It runs it again where the server of a busy
// machine accepts the connection too late: then the verb has done nothing.
func call(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	for end := time.Now().Add(ample); ; {
		var out, errs bytes.Buffer
		e := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
		code = dispatch(ctx, e, args)
		isSilent := strings.Contains(errs.String(), "no connection within") && strings.Contains(errs.String(), "timeout")
		if !isSilent || ctx.Err() != nil || time.Now().After(end) {
			return code, out.String(), errs.String()
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args   []string
		code   int
		stdout string // a part of it
		stderr string
	}{
		{nil, 2, "", "no verb given"},
		{[]string{"help"}, 0, "usage: embedd VERB [flags]", ""},
		{[]string{"--help"}, 0, "usage: embedd VERB [flags]", ""},
		{[]string{"help", "version"}, 0, "--format FORM", ""},
		{[]string{"version", "-h"}, 0, "usage: embedd version", ""},
		{[]string{"help", "nothing"}, 2, "", `unknown verb "nothing"`},
		{[]string{"vresion"}, 2, "", `embedd: unknown verb "vresion" (did you mean "version"?)`},
		{[]string{"version", "--fromat", "json"}, 2, "", `unknown flag --fromat (did you mean "--format"?)`},
		{[]string{"version", "--format", "xml"}, 2, "", "want one of text, json"},
		{[]string{"version", "more"}, 2, "", `argument "more" is not expected`},
		{[]string{"version"}, 0, "embedd ", ""},
		{[]string{"--version"}, 0, "embedd ", ""},
		{[]string{"-v"}, 0, "embedd ", ""},
		{[]string{"--verison"}, 2, "", `embedd: unknown flag --verison (did you mean "--version"?): ` +
			"`embedd help` lists the flags"},
		{[]string{"model"}, 2, "", "embedd: model: name a verb: usage: embedd model " +
			"ls|show|diff|pin|unpin|rollback|reset|export NAME"},
		{[]string{"model", "shwo", "--server", "x"}, 2, "",
			`embedd: model: unknown word "shwo" (did you mean "show"?)`},
		{[]string{"model", "show", "--format", "json"}, 2, "",
			"embedd: model show: an argument is missing: usage: embedd model show NAME"},
		{[]string{"help", "model", "export"}, 0, "usage: embedd model export NAME [flags]", ""},
		{[]string{"completion", "bsh"}, 2, "", `no script for "bsh" (did you mean "bash"?)`},
	} {
		code, stdout, stderr := call(t.Context(), c.args...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("embedd %v: exit %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
		if code == 0 && stderr != "" || code != 0 && stderr == "" {
			t.Errorf("embedd %v: exit %d with stderr %q", c.args, code, stderr)
		}
	}
}

// Every command has a description of one line, and help prints its usage line and its flags.
func TestVerbs(t *testing.T) {
	everyCommand(newRoot(&cli.Env{}), func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: summary %q", cmd.CommandPath(), cmd.Short)
		}
		want := "usage: " + cmd.UseLine() + "\n"
		for _, line := range [][]string{append([]string{"help"}, path...), append(path, "--help"), append(path, "-h")} {
			if cmd.Name() == "help" && line[0] == "help" && line[1] == "help" {
				continue // the help of help is that of embedd
			}
			code, stdout, stderr := call(t.Context(), line...)
			if code != 0 || stderr != "" || !strings.Contains(stdout, want) {
				t.Errorf("%v: exit %d, %s%s", line, code, stdout, stderr)
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if !strings.Contains(stdout, "--"+f.Name) {
					t.Errorf("%v does not name --%s", line, f.Name)
				}
			})
		}
	})
}

func TestExitCodes(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(signalError{syscall.SIGTERM})
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"done", t.Context(), nil, 0},
		{"failed", t.Context(), errors.New("no"), 1},
		{"usage", t.Context(), fmt.Errorf("reading: %w", cli.Usagef("no")), 2},
		{"check", t.Context(), cli.Checkf("no"), 3},
		{"cancelled without a signal", t.Context(), context.Canceled, 1},
		{"signal", ctx, fmt.Errorf("publishing: %w", context.Canceled), 128 + 15},
		{"signal, and drained", ctx, nil, 0},
		{"signal, and drained badly", ctx, errors.New("no"), 1},
	} {
		if got := exitCode(c.ctx, c.err); got != c.want {
			t.Errorf("%s: exit %d, want %d", c.name, got, c.want)
		}
	}
}

func TestVersionJSON(t *testing.T) {
	_, stdout, _ := call(t.Context(), "version", "--format", "json")
	var b daemon.Build
	if err := json.Unmarshal([]byte(stdout), &b); err != nil || b.Version == "" || strings.Count(stdout, "\n") != 1 {
		t.Errorf("%q: %v", stdout, err)
	}
}

func TestInitAndCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "embedd.yaml")
	if code, _, stderr := call(t.Context(), "init", "-o", path); code != 0 {
		t.Fatal(stderr)
	}
	code, stdout, stderr := call(t.Context(), "check", "-c", path)
	if code != 0 || !strings.Contains(stdout, "reduced.digits") || stderr != "" {
		t.Errorf("check: exit %d, %q, %q", code, stdout, stderr)
	}
	// The user's file is not overwritten.
	if err := os.WriteFile(path, []byte("pipelines: {p: {schema: {features: x}, modle: {}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t.Context(), "init", "-o", path); code != 1 || !strings.Contains(stderr, "--force") {
		t.Errorf("init over a file: exit %d, %q", code, stderr)
	}
	want := path + `:1:40: pipelines.p: unknown key "modle": did you mean "model"?` + "\n"
	if code, stdout, stderr := call(t.Context(), "check", "-c", path); code != 2 || stdout != "" || stderr != want {
		t.Errorf("check: exit %d, %q, stderr %q, want %q", code, stdout, stderr, want)
	}
	code, stdout, _ = call(t.Context(), "check", "-c", path, "--format", "json")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != 2 || len(lines) != 2 {
		t.Fatalf("check --format json: exit %d, %s", code, stdout)
	}
	var f finding
	if err := json.Unmarshal([]byte(lines[0]), &f); err != nil || f.Level != "error" || f.Line != 1 || f.Column != 40 {
		t.Errorf("finding %s: %v", lines[0], err)
	}
	var v verdict
	if err := json.Unmarshal([]byte(lines[1]), &v); err != nil || v.Valid || v.Errors != 1 {
		t.Errorf("verdict %s: %v", lines[1], err)
	}
	// Nor is it lost if the new one cannot be written: it is replaced by a whole file, and not emptied first.
	old := filepath.Join(filepath.Dir(path), "old")
	if err := os.Link(path, old); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t.Context(), "init", "--force", "-o", path); code != 0 {
		t.Error(stderr)
	}
	if code, _, _ := call(t.Context(), "check", "-c", path); code != 0 {
		t.Errorf("check after init --force: exit %d", code)
	}
	if text, err := os.ReadFile(old); err != nil || !strings.Contains(string(text), "modle") {
		t.Errorf("the file before has %q: %v", text, err)
	}
}

// TestCheckUnstoredSchema: check recommends to fix the schema only if it is not stored.
func TestCheckUnstoredSchema(t *testing.T) {
	const note = "each start counts messages to find the schema; fix it with a size for each feature"
	for config, want := range map[string]bool{
		"{schema: {features: [x]}, model: {store: none}}":                       true,
		"{schema: {features: [x, {column: y, size: 1}]}, model: {store: none}}": true,
		"{schema: {features: [{column: x, size: 8}]}, model: {store: none}}":    false,
		"{schema: {features: [x]}, model: {store: ./models}}":                   false,
		"{schema: {features: [x]}}":                                             false,
		"{input: {stream: S}, schema: {features: [x]}}":                         false,
	} {
		path := writeFile(t, t.TempDir(), "embedd.yaml", "pipelines: {p: "+config+"}\n")
		code, stdout, stderr := call(t.Context(), "check", "-c", path)
		if code != 0 || strings.Contains(stdout+stderr, note) != want {
			t.Errorf("%s: exit %d, the note should be there: %t: %s%s", config, code, want, stdout, stderr)
		}
	}
}
