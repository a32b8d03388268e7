package integration

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// buffer collects the output of a running process.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// daemon is `embedd run` as a process.
type daemon struct {
	t    testing.TB
	cmd  *exec.Cmd
	log  *buffer
	http string // its listener
	done chan struct{}
	dir  string
}

// configFile writes a configuration with the server and the listener of the test.
func configFile(t testing.TB, url, pipelines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "embedd.yaml")
	text := "nats: {url: \"" + url + "\", wait: 30s}\nhttp: {listen: 127.0.0.1:0}\npipelines:\n" + indent(pipelines)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// setAckWait adds nats.ack_wait to a configuration file.
func setAckWait(t testing.TB, path, wait string) {
	t.Helper()
	text := string(must(os.ReadFile(path))(t))
	write(t, path, "nats: {ack_wait: "+wait+", "+text[len("nats: {"):])
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

var listens = regexp.MustCompile(`msg=serving .*http=(\S+)`)

// startDaemon starts `embedd run` with a configuration file and waits until it serves.
func startDaemon(t testing.TB, config string) *daemon {
	t.Helper()
	d := launch(t, config)
	d.awaitServing()
	return d
}

// awaitServing waits until the daemon serves HTTP.
func (d *daemon) awaitServing() {
	d.t.Helper()
	t := d.t
	eventually(t, func() string { return "the daemon serves; it says:\n" + d.log.String() }, func() bool {
		select {
		case <-d.done:
			t.Fatalf("the daemon ended: %v\n%s", d.cmd.ProcessState, d.log.String())
		default:
		}
		m := listens.FindStringSubmatch(d.log.String())
		if m != nil {
			d.http = "http://" + m[1]
		}
		return m != nil
	})
}

// launch starts `embedd run` without waiting.
func launch(t testing.TB, config string) *daemon {
	t.Helper()
	return launchBinary(t, must(embedd())(t), config)
}

// launchBinary starts `run` of an embedd program without waiting.
func launchBinary(t testing.TB, binary, config string) *daemon {
	t.Helper()
	d := &daemon{t: t, log: &buffer{}, done: make(chan struct{}), dir: filepath.Dir(config)}
	d.cmd = exec.Command(binary, "run", "-c", config)
	d.cmd.Dir = d.dir
	d.cmd.Stderr = d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = d.cmd.Wait()
		close(d.done)
	}()
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			t.Logf("the daemon says:\n%s", tailOf(d.log.String(), 600))
		}
	})
	return d
}

// stop asks the daemon to drain and checks that it exits with 0.
func (d *daemon) stop() {
	d.t.Helper()
	d.end(syscall.SIGTERM)
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		d.t.Errorf("after SIGTERM the daemon ended with %d, want 0", code)
	}
}

// end ends the daemon by a signal, with any exit code.
func (d *daemon) end(signal syscall.Signal) {
	_ = d.cmd.Process.Signal(signal)
	select {
	case <-d.done:
	case <-time.After(ample):
		_ = d.cmd.Process.Signal(syscall.SIGQUIT) // the log has its address
		select {
		case <-d.done:
		case <-time.After(10 * time.Second):
			d.kill()
		}
		d.t.Fatalf("the daemon does not end within %v of %v", ample, signal)
	}
}

// kill ends the daemon with SIGKILL.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.done
}

// get sends a request to the daemon's listener.
func (d *daemon) get(path string) (code int, body string) {
	d.t.Helper()
	answer, err := http.Get(d.http + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode, string(must(io.ReadAll(answer.Body))(d.t))
}

// metric returns the value of a line of /metrics, which is named with its labels; "" if there is none.
func (d *daemon) metric(line string) string {
	d.t.Helper()
	_, body := d.get("/metrics")
	for _, l := range strings.Split(body, "\n") {
		if value, ok := strings.CutPrefix(l, line+" "); ok {
			return value
		}
	}
	return ""
}

// awaitMetric waits until a line of /metrics has a value: an answer can be received before it is counted.
func (d *daemon) awaitMetric(line, want string) {
	d.t.Helper()
	got := ""
	eventually(d.t, func() string { return line + " is " + want + ", not " + got }, func() bool {
		got = d.metric(line)
		return got == want
	})
}

// awaitLog waits until the log has a text: another goroutine reads what the daemon writes.
func (d *daemon) awaitLog(text string) {
	d.t.Helper()
	eventually(d.t, func() string { return "the log has " + text + ":\n" + d.log.String() },
		func() bool { return strings.Contains(d.log.String(), text) })
}

// run runs a verb to its end.
func run(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runIn(t, t.TempDir(), nil, args...)
}

func runIn(t testing.TB, dir string, environ []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(within(t, ample), must(embedd())(t), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(os.Environ(), environ...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// succeed runs a verb that must end with 0.
func succeed(t testing.TB, args ...string) string {
	t.Helper()
	stdout, stderr, code := run(t, args...)
	if code != 0 {
		t.Fatalf("embedd %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}
