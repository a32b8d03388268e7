package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestMonitor(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "embedd_test_total", Help: "A test."})
	registry.MustRegister(counter)
	counter.Add(3)
	var learned atomic.Bool
	m, err := startMonitor("127.0.0.1:0", registry, probes{func() []readiness {
		if learned.Load() {
			return []readiness{{Pipeline: "digits", Ready: true}, {Pipeline: "wine", Ready: true}}
		}
		return []readiness{{Pipeline: "digits", Reason: "412 of 1000 labelled rows"}, {Pipeline: "wine", Ready: true}}
	}, func() string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	address := m.addr.String()
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
	want := `{"ready":false,"pipelines":[{"pipeline":"digits","ready":false,"reason":"412 of 1000 labelled rows"},{"pipeline":"wine","ready":true}]}` + "\n"
	if code != 503 || body != want || !json.Valid([]byte(body)) {
		t.Errorf("/readyz: %d %s", code, body)
	}
	learned.Store(true)
	if code, _ := get("/readyz"); code != 200 {
		t.Errorf("/readyz when all pipelines are ready: %d", code)
	}
	if code, _ := get("/nothing"); code != 404 {
		t.Errorf("/nothing: %d", code)
	}

	// The port is taken now.
	if _, err := startMonitor(address, registry, probes{}); err == nil ||
		!strings.Contains(err.Error(), "set http.listen to another port") {
		t.Errorf("a second monitor on %s: %v", address, err)
	}
	if err := m.close(context.Background()); err != nil {
		t.Error(err)
	}
	if m, err = startMonitor(address, registry, probes{}); err != nil {
		t.Fatalf("the port is not free after close: %v", err)
	}
	if err := m.close(context.Background()); err != nil {
		t.Error(err)
	}
}
