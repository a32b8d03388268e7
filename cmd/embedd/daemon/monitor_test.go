package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/console"
	"github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/stream"
)

func TestMonitor(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "embedd_test_total", Help: "A test."})
	registry.MustRegister(counter)
	counter.Add(3)
	var learned atomic.Bool
	address := fmt.Sprint("127.0.0.1:", link.FreePort(t))
	m, err := startMonitor(config.HTTP{Listen: address}, registry, probes{func() []readiness {
		if learned.Load() {
			return []readiness{{Pipeline: "digits", Ready: true}, {Pipeline: "wine", Ready: true}}
		}
		return []readiness{{Pipeline: "digits", State: "waiting_for_model", Reason: "412 of 1000 labelled rows"},
			{Pipeline: "wine", State: "idle", Ready: true}}
	}, func() string { return "" }}, idle(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		t.Helper()
		r, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(body)
	}
	if code, body := get("/metrics"); code != 200 || !strings.Contains(body, "embedd_test_total 3") {
		t.Errorf("/metrics: %d %s", code, body)
	}
	if code, body := get("/healthz"); code != 200 || body != `{"status":"ok"}`+"\n" {
		t.Errorf("/healthz: %d %s", code, body)
	}
	code, body := get("/readyz")
	want := `{"ready":false,"pipelines":[{"pipeline":"digits","ready":false,"state":"waiting_for_model",` +
		`"reason":"412 of 1000 labelled rows"},{"pipeline":"wine","ready":true,"state":"idle"}]}` + "\n"
	if code != 503 || body != want || !json.Valid([]byte(body)) {
		t.Errorf("/readyz: %d %s", code, body)
	}
	learned.Store(true)
	if code, _ := get("/readyz"); code != 200 {
		t.Errorf("/readyz when all pipelines are ready: %d", code)
	}
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		r, err := http.Post("http://"+address+path, "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Body.Close(); r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, r.StatusCode)
		}
	}
	if code, _ := get("/nothing"); code != 404 {
		t.Errorf("/nothing: %d", code)
	}

	// The port is in use now.
	if _, err := startMonitor(config.HTTP{Listen: address}, registry, probes{}, idle(), quiet); err == nil ||
		!strings.Contains(err.Error(), "set http.listen to another port") {
		t.Errorf("a second monitor on %s: %v", address, err)
	}
	if err := m.close(context.Background()); err != nil {
		t.Error(err)
	}
	if m, err = startMonitor(config.HTTP{Listen: address}, registry, probes{}, idle(), quiet); err != nil {
		t.Fatalf("the port is not free after close: %v", err)
	}
	if err := m.close(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestHosts: a page elsewhere whose name resolves to this machine reads nothing.
func TestHosts(t *testing.T) {
	token := writeFile(t, t.TempDir(), "token", "hunter2\n")
	for _, c := range []struct {
		host, token string
		config      config.HTTP
		metrics     int
		details     bool
	}{
		{"127.0.0.1:8474", "", config.HTTP{}, 200, true},
		{"10.1.2.3", "", config.HTTP{}, 200, true},
		{"[::1]:80", "", config.HTTP{}, 200, true},
		{"[fe80::1]", "", config.HTTP{}, 200, true},
		{"[fe80::1%eth0]:8474", "", config.HTTP{}, 200, true},
		{"localhost:1", "", config.HTTP{}, 200, true},
		{"LocalHost.", "", config.HTTP{}, 200, true},
		{"evil.example", "", config.HTTP{}, 421, false},
		{"evil.example:8474", "hunter2", config.HTTP{}, 421, false},
		{"127.0.0.1.evil.example", "", config.HTTP{}, 421, false},
		{"localhost.evil.example", "", config.HTTP{}, 421, false},
		{"metrics.example:8474", "", config.HTTP{Hosts: []string{"a.example", "Metrics.example"}}, 200, true},
		{"b.metrics.example", "", config.HTTP{Hosts: []string{"metrics.example"}}, 421, false},
		{"evil.example", "hunter2", config.HTTP{TokenFile: token}, 200, true},
		{"evil.example", "wrong", config.HTTP{TokenFile: token}, 421, false},
		{"127.0.0.1", "wrong", config.HTTP{TokenFile: token}, 401, false},
	} {
		current := &atomic.Pointer[config.HTTP]{}
		current.Store(&c.config)
		h := monitorHandler(prometheus.NewRegistry(), probes{func() []readiness { return []readiness{{Pipeline: "digits"}} },
			func() string { return "not connected" }}, idle(), current, nil)
		get := func(path string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", path, nil)
			r.Host = c.host
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		if w := get("/metrics"); w.Code != c.metrics || w.Code == 421 && !strings.Contains(w.Body.String(), "http.hosts") {
			t.Errorf("%+v: /metrics %d %s", c, w.Code, w.Body)
		}
		if w := get("/nothing"); w.Code != 404 && w.Code != 421 {
			t.Errorf("%+v: /nothing %d", c, w.Code)
		}
		if w := get("/readyz"); w.Code != 503 || strings.Contains(w.Body.String(), "digits") != c.details {
			t.Errorf("%+v: /readyz %d %s", c, w.Code, w.Body)
		}
		if w := get("/healthz"); w.Code != 200 || strings.Contains(w.Body.String(), "not connected") != c.details {
			t.Errorf("%+v: /healthz %d %s", c, w.Code, w.Body)
		}
	}
}

// TestMonitorBeyondLoopback: with TLS and a token, the probes return only the status to every client, and the rest to
// clients with the token.
func TestMonitorBeyondLoopback(t *testing.T) {
	dir := t.TempDir()
	cert, key := selfSigned(t, dir)
	token := writeFile(t, dir, "token", "hunter2\n")
	logged := make(lines, 10)
	m, err := startMonitor(config.HTTP{Listen: "127.0.0.1:0", Cert: cert, Key: key, TokenFile: token},
		prometheus.NewRegistry(), probes{func() []readiness {
			return []readiness{{Pipeline: "digits", Reason: "412 of 1000 labelled rows"}}
		}, func() string { return "not connected" }}, idle(), slog.New(slog.NewTextHandler(logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer m.close(context.Background())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(sure(os.ReadFile(cert)))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	get := func(path, token string) (int, string) {
		t.Helper()
		r := sure(http.NewRequest("GET", "https://"+m.addr.String()+path, nil))
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode, string(sure(io.ReadAll(answer.Body)))
	}
	for _, c := range []struct {
		path, token string
		code        int
		body        string
	}{
		{"/metrics", "", 401, "the token of http.token_file is required"},
		{"/metrics", "hunter3", 401, "the token of http.token_file is required"},
		{"/metrics", "hunter2", 200, ""},
		{"/healthz", "", 200, "{\"status\":\"ok\"}\n"},
		{"/healthz", "hunter2", 200, `"connection":"not connected"`},
		{"/readyz", "", 503, "{\"ready\":false}\n"},
		{"/readyz", "hunter2", 503, "412 of 1000 labelled rows"},
	} {
		if code, body := get(c.path, c.token); code != c.code || !strings.Contains(body, c.body) {
			t.Errorf("%s with %q: %d %s", c.path, c.token, code, body)
		}
	}
	writeFile(t, dir, "token", "rotated")
	if code, _ := get("/metrics", "hunter2"); code != 401 {
		t.Errorf("the old token after it was rotated: %d", code)
	}
	if code, _ := get("/metrics", "rotated"); code != 200 {
		t.Errorf("the new token: %d", code)
	}
	for range 5 { // one is logged
		if r, err := http.Get("http://" + m.addr.String() + "/healthz"); err == nil {
			if r.Body.Close(); r.StatusCode == 200 {
				t.Error("it answers without TLS")
			}
		}
	}
	select {
	case line := <-logged:
		if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "TLS handshake error") {
			t.Errorf("a request without TLS is logged as %s", line)
		}
	case <-time.After(10 * time.Second):
		t.Error("a request without TLS is not logged")
	}
	if len(logged) > 0 {
		t.Errorf("%d requests without TLS are logged, want 1 a minute", 1+len(logged))
	}
}

// lines receives each line of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// quiet logs nothing.
var quiet = slog.New(slog.DiscardHandler)

// idle is the console of a process without pipelines.
func idle() *console.Console {
	return console.New(console.Options{Engine: func() *stream.Engine { return nil },
		Conn: func() *connection.Conn { return nil }, Trouble: func() string { return "" }})
}

// selfSigned writes a certificate for this machine, and its key.
func selfSigned(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	k := sure(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "embedd"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	write := func(name, kind string, der []byte) string {
		return writeFile(t, dir, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	return write("c.pem", "CERTIFICATE", sure(x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k))),
		write("k.pem", "PRIVATE KEY", sure(x509.MarshalPKCS8PrivateKey(k)))
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

// sure is for calls that fail only if the machine does.
func sure[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
