package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestPublishAndTail runs the three verbs of the README together, as three processes, with streams that setup creates
// in the embedded server.
func TestPublishAndTail(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	config := configFile(t, s.ClientURL(), learning)
	succeed(t, "setup", "--apply", "-c", config)
	c := dial(t, s.ClientURL())
	d := startDaemon(t, config)
	g := digits(t)

	listens := func(want bool) func() bool {
		return func() bool {
			z, err := s.Subsz(&server.SubszOptions{Subscriptions: true, Test: "reduced.unused"})
			return err == nil && len(z.Subs) > 0 == want
		}
	}
	var shown bytes.Buffer
	tail := exec.CommandContext(within(t, ample), must(embedd())(t), "tail", "--subject", "reduced.>",
		"--limit", "5", "--format", "json", "--server", s.ClientURL())
	tail.Stdout = &shown
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, says("tail listens"), listens(true))

	report := succeed(t, "publish", "--server", s.ClientURL(), "--data", digitsFile(t), "--label", "label", "--subject",
		"features.digits",
		"--pack", "pixels", "--batch", "64", "--format", "json")
	var sent struct {
		Stream         string
		Messages, Rows int
	}
	if err := json.Unmarshal([]byte(report), &sent); err != nil {
		t.Fatalf("publish says %q: %v", report, err)
	}
	if want := (g.n + 63) / 64; sent.Messages != want || sent.Rows != g.n || sent.Stream != "FEATURES" {
		t.Errorf("publish says %+v, want %d messages, %d rows in FEATURES", sent, want, g.n)
	}
	c.await("REDUCED", sent.Messages)
	if err := tail.Wait(); err != nil {
		t.Errorf("tail: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(shown.String()), "\n")
	if len(lines) != 5 {
		t.Errorf("tail showed %d lines, want 5", len(lines))
	}
	for i, line := range lines {
		var m struct {
			Subject string
			Headers map[string][]string
			Rows    int
			Schema  []string
			Data    []map[string]any
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("tail says %q: %v", line, err)
		}
		if m.Subject != "reduced.digits" || m.Rows != 64 || len(m.Data) != 3 ||
			len(m.Data[0]["embedding"].([]any)) != 5 ||
			m.Headers[wire.HeaderSource][0] != fmt.Sprintf("FEATURES:%d", i+1) {
			t.Errorf("line %d of tail is %s", i, line)
		}
	}

	eventually(t, says("tail has left"), listens(false))
	// A tail without a limit ends by its signal, with the exit code of that signal.
	endless := exec.Command(must(embedd())(t), "tail", "--subject", "reduced.>", "--server", s.ClientURL())
	if err := endless.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, says("tail listens"), listens(true))
	_ = endless.Process.Signal(syscall.SIGINT)
	_ = endless.Wait()
	if code := endless.ProcessState.ExitCode(); code != 128+int(syscall.SIGINT) {
		t.Errorf("tail ended by SIGINT has code %d, want 130", code)
	}

	// The headers of the wire format exist.
	for _, name := range []string{"embedd_messages_total", "embedd_rows_total", "embedd_model_info",
		"embedd_fit_seconds_count", "embedd_transform_seconds_count"} {
		eventually(t, says("/metrics has "+name+" of pipeline digits"), func() bool {
			_, body := d.get("/metrics")
			return strings.Contains(body, name+"{pipeline=\"digits\"") || strings.Contains(body, name+"{epoch=")
		})
	}
	out := strconv.Itoa(sent.Messages)
	d.awaitMetric(`embedd_messages_total{pipeline="digits",result="out"}`, out)
	for _, name := range []string{"embedd_end_to_end_seconds", "embedd_publish_confirm_seconds"} {
		d.awaitMetric(name+`_count{pipeline="digits"}`, out)
		sum := must(strconv.ParseFloat(d.metric(name+`_sum{pipeline="digits"}`), 64))(t)
		if !(sum > 0 && sum < 3600) {
			t.Errorf("%s sums to %g s", name, sum)
		}
	}
	eventually(t, says("embedd_lag_messages is 0"),
		func() bool { return d.metric(`embedd_lag_messages{pipeline="digits"}`) == "0" })
	d.stop()
}

// TestSetupBeforeRun: commands in documents run setup before run, also where run embeds the server. The tests that need
// the default port are in this package, one after the other.
func TestSetupBeforeRun(t *testing.T) {
	t.Parallel()
	defaultPort.Lock()
	defer defaultPort.Unlock()
	l, err := net.Listen("tcp", "127.0.0.1:4222")
	if err != nil {
		t.Skip("port 4222 is in use on this machine: ", err)
	}
	l.Close()
	path := t.TempDir() + "/embedd.yaml"
	write(t, path, "http: {listen: 127.0.0.1:0}\npipelines:\n"+indent(learning))
	var wg sync.WaitGroup
	for verb, want := range map[string]struct {
		code int
		says string
	}{"setup --apply": {0, "nothing to do"}, "status": {1, "`embedd run` embeds one"}} {
		wg.Go(func() { // each waits five seconds for a server
			_, errs, code := run(t, append(strings.Fields(verb), "-c", path)...)
			if code != want.code || !strings.Contains(errs, want.says) {
				t.Errorf("%s: exit code %d, %s", verb, code, errs)
			}
		})
	}
	wg.Wait()
}

// defaultPort is held by a test that needs port 4222, or that nothing listens on it.
var defaultPort sync.Mutex

// TestEmbeddedServer: without a configured server the daemon embeds one, creates its streams, and clients find it at
// the default address.
func TestEmbeddedServer(t *testing.T) {
	t.Parallel()
	defaultPort.Lock()
	defer defaultPort.Unlock()
	path := t.TempDir() + "/embedd.yaml"
	write(t, path, "http: {listen: 127.0.0.1:0}\npipelines:\n"+indent(learning))
	d := launch(t, path)
	eventually(t, says("the daemon serves, or the port is in use"), func() bool {
		return strings.Contains(d.log.String(), "msg=serving") ||
			strings.Contains(d.log.String(), "4222 on 127.0.0.1 is in use")
	})
	if strings.Contains(d.log.String(), "is in use") {
		t.Skip("port 4222 is in use on this machine")
	}
	g := digits(t)
	const url = "nats://127.0.0.1:4222"
	succeed(t, "publish", "--data", digitsFile(t), "--label", "label", "--subject", "features.digits", "--pack",
		"pixels")
	c := dial(t, url)
	n := (g.n + 255) / 256
	c.await("REDUCED", n)
	c.settled("FEATURES", "digits")
	c.nc.Close()
	d.stop()

	// Its store is on disk.
	d = startDaemon(t, path)
	c = dial(t, url)
	once(t, "FEATURES", 1, n, c.read("REDUCED"))
	// It serves before its pipeline has read the live model from the store.
	eventually(t, says("ready after a restart"), func() bool {
		code, _ := d.get("/readyz")
		return code == 200
	})
	c.nc.Close()
	d.stop()
}
