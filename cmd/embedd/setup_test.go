package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/embedd/embedd/internal/natstest"
)

// TestUnknownRole: a mistyped role is an error before the command waits for a server.
func TestUnknownRole(t *testing.T) {
	t.Parallel()
	path := writeFile(t, t.TempDir(), "embedd.yaml", "pipelines: {p: {schema: {features: [x]}}}\n")
	code, _, errs := call(t.Context(), "setup", "--permissions", "operatr", "-c", path, "--server", "nats://127.0.0.1:1")
	if code != 2 || !strings.Contains(errs, `no role "operatr" (did you mean "operator"?)`) ||
		strings.Contains(errs, "no server answers") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// TestIncompleteSetup: setup reports what it has created before a stream does not fit into the server's storage, and a
// max_payload that is too small for summaries before it creates anything.
func TestIncompleteSetup(t *testing.T) {
	t.Parallel()
	s := natstest.New(t, func(o *server.Options) { o.JetStreamMaxStore = 15 << 20 })
	setup := func(s *natstest.Server, training string) (code int, report, errs string) {
		path := filepath.Join(t.TempDir(), "embedd.yaml")
		text := fmt.Sprintf(`nats: {url: %q, streams: {max_bytes: 10MiB}}
pipelines:
  p:
    input: {stream: IN, subject: in.p}
    schema: {features: [f], label: label}
    output: {subject: reduced.p, dead: dead.p}
    model: {method: lda}
    training: {%s}
`, s.URL(), training)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), ample)
		defer cancel()
		return call(ctx, "setup", "--apply", "-c", path)
	}
	code, report, errs := setup(s, "")
	if code != 1 || !strings.Contains(report, "stream IN for in.p created") || strings.Contains(report, "missing") ||
		!strings.Contains(errs, "storage") {
		t.Errorf("exit code %d, %q, %q", code, report, errs)
	}
	small := natstest.New(t, func(o *server.Options) { o.MaxPayload = 64 << 10 })
	code, report, errs = setup(small, "block: 100")
	if code != 3 || !strings.Contains(report, "max_payload") || !strings.Contains(errs, "nothing was created") {
		t.Errorf("with a small max_payload: exit code %d, %q, %q", code, report, errs)
	}
}
