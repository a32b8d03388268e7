package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// said collects the output of a running verb.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// runningDaemon is `embedd run` in this process.
type runningDaemon struct {
	t    *testing.T
	log  *said
	http string
	done chan struct{}
	stop func() (code int)
}

var serves = regexp.MustCompile(`msg=serving .*http=(\S+)`)

// startRun runs a configuration until the test ends, and waits until it serves.
func startRun(t *testing.T, config string, flags ...string) *runningDaemon {
	t.Helper()
	d := &runningDaemon{t: t, log: &said{}, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	code := 0
	go func() {
		defer close(d.done)
		code = dispatch(ctx, &cli.Env{Stdin: strings.NewReader(""), Stdout: d.log, Stderr: d.log},
			append([]string{"run", "-c", config}, flags...))
	}()
	d.stop = sync.OnceValue(func() int {
		cancel()
		<-d.done
		return code
	})
	t.Cleanup(func() { d.stop() })
	d.until("the daemon serves", func() bool {
		m := serves.FindStringSubmatch(d.log.String())
		if m != nil {
			d.http = "http://" + m[1]
		}
		return m != nil
	})
	return d
}

// until waits for a condition.
func (d *runningDaemon) until(what string, holds func() bool) {
	d.t.Helper()
	for end := time.Now().Add(ample); !holds(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-d.done:
			d.t.Fatalf("the daemon ended before: %s; it says:\n%s", what, d.log)
		default:
		}
		if time.Now().After(end) {
			d.t.Fatalf("not within %v: %s; the daemon says:\n%s", ample, what, d.log)
		}
	}
}

func (d *runningDaemon) get(path string) (code int, body string) {
	d.t.Helper()
	answer, err := http.Get(d.http + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

// ample is a timeout for events that must happen: only a failing test waits that long, however busy the machine is.
const ample = 10 * time.Minute

// serveNATS starts a real server until the test ends.
func serveNATS(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog, o.AuthTimeout = "127.0.0.1", -1, true, true, ample.Seconds()
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(ample) {
		t.Fatal("the NATS server does not start")
	}
	return s
}

func withUser(s *server.Server, user string) string {
	return strings.Replace(s.ClientURL(), "nats://", "nats://"+user+"@", 1)
}

// writeFile writes a file in the test's directory and returns its path.
func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// corePipeline needs no stream.
const corePipeline = "http: {listen: 127.0.0.1:0}\npipelines:\n  p: {schema: {features: x}, model: {store: none}}\n"

// A password that is wrong for a while does not stop reconnecting, however often it was refused; and the probes report
// it.
func TestPasswordIsRotated(t *testing.T) {
	t.Parallel()
	options := server.Options{Username: "u", Password: "old"}
	s := serveNATS(t, options)
	d := startRun(t, writeFile(t, t.TempDir(), "embedd.yaml",
		"nats: {url: '"+withUser(s, "u:old")+"'}\n"+corePipeline))
	reload := func(password string) {
		options.Host, options.Port, options.NoSigs, options.NoLog, options.Password = "127.0.0.1", -1, true, true, password
		changed := options
		if err := s.ReloadOptions(&changed); err != nil {
			t.Fatal(err)
		}
	}
	reload("new")
	d.until("it is refused three times", func() bool { return s.NumClients() == 0 && refusals(s) >= 3 })
	const says = "the NATS server refused the credentials"
	d.until("/readyz reports it", func() bool {
		code, body := d.get("/readyz")
		return code == 503 && strings.Contains(body, says)
	})
	if code, body := d.get("/healthz"); code != 200 || !strings.Contains(body, says) {
		t.Errorf("/healthz while it is refused: %d %s", code, body)
	}
	reload("old")
	d.until("it is reconnected, and says so", func() bool { // the server counts a client before that one knows
		_, body := d.get("/healthz")
		return s.NumClients() == 1 && body == `{"status":"ok"}`+"\n" && strings.Contains(d.log.String(), "reconnected")
	})
	if log := d.log.String(); !strings.Contains(log, says) || strings.Count(log, says) > 3 || !strings.Contains(log,
		"reconnected") {
		t.Errorf("the log should report it, and not at each attempt:\n%s", log)
	}
	if code, body := d.get("/healthz"); code != 200 || body != `{"status":"ok"}`+"\n" {
		t.Errorf("/healthz afterwards: %d %s", code, body)
	}
}

// refusals returns how many clients the server disconnected because of their login.
func refusals(s *server.Server) (n int) {
	z, err := s.Connz(&server.ConnzOptions{State: server.ConnClosed})
	if err != nil {
		return 0
	}
	for _, c := range z.Conns {
		if strings.Contains(c.Reason, "Authentication") {
			n++
		}
	}
	return n
}

// TestConnectionEndsForGood: if the client closes the connection for good, the daemon exits with an error.
func TestConnectionEndsForGood(t *testing.T) {
	t.Parallel()
	l := sure(net.Listen("tcp", "127.0.0.1:0"))
	done := make(chan struct{})
	defer func() {
		l.Close()
		<-done
	}()
	go func() { // the part of a server's protocol that ends a connection with an error that the client does not retry
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "INFO "+
			"{\"server_id\":\"x\",\"version\":\"2.15.2\",\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			switch {
			case lines.Text() == "PING":
				fmt.Fprint(conn, "PONG\r\n")
			case strings.HasPrefix(lines.Text(), "SUB features.p"):
				fmt.Fprint(conn, "-ERR 'Something new'\r\n")
			}
		}
	}()
	config := writeFile(t, t.TempDir(), "embedd.yaml", "nats: {url: '"+l.Addr().String()+"'}\n"+corePipeline)
	var out said
	ctx, cancel := context.WithTimeout(t.Context(), ample)
	defer cancel()
	code := dispatch(ctx, &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out}, []string{"run", "-c",
		config})
	if code != 1 || !strings.Contains(out.String(), "the connection is closed and cannot be restored") ||
		!strings.Contains(out.String(), "Something new") {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
}

// TestMissingRight: a daemon that may not read its stream names the missing permission, and so does a verb.
func TestMissingRight(t *testing.T) {
	t.Parallel()
	s := serveNATS(t, server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{{Username: "u",
		Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"x"}}}}}})
	config := writeFile(t, t.TempDir(), "embedd.yaml", "nats: {url: '"+withUser(s,
		"u:p")+"'}\nhttp: {listen: 127.0.0.1:0}\n"+
		"pipelines:\n  p: {input: {stream: FEATURES}, schema: {features: x}}\n")
	for _, verb := range []string{"run", "setup"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel() // each waits for a reply that does not come
			var out said
			code := dispatch(t.Context(), &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out},
				[]string{verb, "-c", config})
			if code != 1 || !strings.Contains(out.String(), "$JS.API.STREAM.INFO.FEATURES") ||
				!strings.Contains(out.String(), "`embedd setup --permissions`") {
				t.Errorf("exit code %d:\n%s", code, &out)
			}
		})
	}
}
