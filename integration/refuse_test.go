package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	carrier "github.com/embedd/embedd/internal/link"
)

const fixed = `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {method: lda, dim: 3}`

// refused starts `embedd run` and checks that it exits with a code and an error that names the cause and the fix.
func refused(t *testing.T, config string, code int, words ...string) string {
	t.Helper()
	began := time.Now()
	d := launch(t, config)
	select {
	case <-d.done:
	case <-time.After(ample):
		t.Fatalf("the daemon has not ended after %v:\n%s", ample, d.log)
	}
	t.Logf("%.1f s, exit code %d: %s", time.Since(began).Seconds(), d.cmd.ProcessState.ExitCode(),
		tailOf(d.log.String(), 3))
	if got := d.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	for _, word := range words {
		if !strings.Contains(d.log.String(), word) {
			t.Errorf("the error does not name %q:\n%s", word, d.log)
		}
	}
	return d.log.String()
}

// TestMissingStream: exit code 1 with the command that creates it, and `setup --apply` creates it.
func TestMissingStream(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	config := configFile(t, s.ClientURL(), fixed)
	refused(t, config, 1, "embedd setup --apply", "nats stream add FEATURES --subjects", `"features.digits"`)

	out, _, code := run(t, "setup", "-c", config)
	if code != 3 || !strings.Contains(out, "nats stream add DEAD") {
		t.Errorf("setup without --apply: exit code %d, want 3 and the lines:\n%s", code, out)
	}
	succeed(t, "setup", "--apply", "-c", config)
	succeed(t, "setup", "-c", config)
	d := startDaemon(t, config)
	c := dial(t, s.ClientURL())
	if n := c.count("FEATURES"); n != 0 {
		t.Errorf("stream FEATURES: %d, want it there and empty", n)
	}
	d.stop()
}

// TestUnreachable: an unreachable server is an error after nats.wait.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "embedd.yaml")
	url := fmt.Sprintf("nats://127.0.0.1:%d", carrier.FreePort(t))
	write(t, path, "nats: {url: \""+url+"\", wait: 1s}\nhttp: {listen: 127.0.0.1:0}\npipelines:\n"+indent(fixed))
	refused(t, path, 1, url, "1s", "nats-server -js", "nats.url")
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOccupiedPorts: the error names both fixes.
func TestOccupiedPorts(t *testing.T) {
	t.Run("http.listen", func(t *testing.T) {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		path := filepath.Join(t.TempDir(), "embedd.yaml")
		write(t, path, "http: {listen: \""+l.Addr().String()+"\"}\npipelines:\n"+indent(fixed))
		refused(t, path, 1, l.Addr().String(), "stop it", "http.listen")
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "embedd-data")); err == nil {
			t.Error("a store was made before the port was found to be taken")
		}
	})
	t.Run("embedded server", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:4222") // if it fails, the port is in use already
		if err == nil {
			defer l.Close()
		}
		path := filepath.Join(t.TempDir(), "embedd.yaml")
		write(t, path, "http: {listen: 127.0.0.1:0}\npipelines:\n"+indent(fixed))
		refused(t, path, 1, "4222", "nats.url", "stop it")
	})
}

// TestWrongConfiguration: exit code 2 with file, line and column before anything starts.
func TestWrongConfiguration(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name, text string
		line       int
		words      []string
	}{
		{"unknown key", "http: {listen: 127.0.0.1:0}\npipelines:\n  digits:\n    schema: {features: [pixels]}\n    " +
			"outptu: {subject: x}\n", 5, []string{"outptu", "output"}},
		{"unknown method", "http: {listen: 127.0.0.1:0}\npipelines:\n" +
			indent(strings.Replace(fixed, "lda", "ldaa", 1)), 7, []string{"ldaa", "lda"}},
		{"wrong value", "http: {listen: 127.0.0.1:0}\npipelines:\n" + indent(fixed) +
			"    training: {until_ready: wait}\n", 8, []string{"wait", "hold", "pca", "skip"}},
		{"no YAML", "pipelines:\n  digits: [\n", 2, nil},
	} {
		t.Run(one.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "embedd.yaml")
			write(t, path, one.text)
			log := refused(t, path, 2, one.words...)
			if !regexp.MustCompile(regexp.QuoteMeta(path) + fmt.Sprintf(`:%d:\d+: `, one.line)).MatchString(log) {
				t.Errorf("the error does not begin with %s:%d:COLUMN", path, one.line)
			}
			if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(files) != 1 {
				t.Errorf("something was started: %v", files)
			}
			if _, _, code := run(t, "check", "-c", path); code != 2 {
				t.Errorf("check: exit code %d, want 2 as run", code)
			}
		})
	}
}
