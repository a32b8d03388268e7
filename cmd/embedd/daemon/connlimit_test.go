package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// TestConnectionLimit: clients that send half a request, and clients that read no answer, hold a limited number of
// connections, and probes and metrics are answered meanwhile.
func TestConnectionLimit(t *testing.T) {
	registry := prometheus.NewRegistry()
	large := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "embedd_test", Help: "A test."}, []string{"n"})
	registry.MustRegister(large)
	for i := range 20_000 {
		large.WithLabelValues(fmt.Sprint(i)).Set(1)
	}
	m, err := startMonitor(config.HTTP{Listen: "127.0.0.1:0"}, registry, probes{func() []readiness { return nil },
		func() string { return "" }}, idle(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close(context.Background())
	for name, request := range map[string]string{"half a request": "GET /healthz HTTP/1.1\r\nHost:",
		"no reading": "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"} {
		var held []net.Conn
		for range 200 {
			c, err := net.Dial("tcp", m.addr.String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, request)
			held = append(held, c)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			r, err := client.Get("http://" + m.addr.String() + path)
			if err != nil {
				t.Fatalf("%s while others hold connections with %s: %v", path, name, err)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != 200 {
				t.Errorf("%s with %s: %d, %v", path, name, r.StatusCode, err)
			}
			r.Body.Close()
		}
		closed := 0
		for _, c := range held { // of those that are left, the server closes all within its time for headers
			if name == "no reading" {
				break
			}
			if isClosed(c) {
				closed++
			}
		}
		if name != "no reading" && closed < 200-32 { // the number in SECURITY.md
			t.Errorf("%d of 200 connections with %s are closed", closed, name)
		}
		for _, c := range held {
			c.Close()
		}
	}
}

// isClosed reports whether the server has closed a connection. A busy machine may reach a deadline before it reads.
func isClosed(c net.Conn) bool {
	for range 5 {
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
	}
	return false
}
