package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/internal/link"
)

// TestReloadOfHTTP: address, token and TLS of the listener change together, or not at all.
func TestReloadOfHTTP(t *testing.T) {
	listen := func(h config.HTTP) (*monitor, error) {
		return startMonitor(h, prometheus.NewRegistry(), probes{func() []readiness { return nil },
			func() string { return "" }}, idle(), quiet)
	}
	now := config.HTTP{Listen: fmt.Sprint("127.0.0.1:", link.FreePort(t))}
	m := sure(listen(now))
	d := &daemon{listen: listen, monitor: m, log: slog.New(slog.DiscardHandler)}
	defer func() { d.monitor.close(context.Background()) }()
	status := func(url string) int {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := client.Get(url)
		if err != nil {
			return 0
		}
		r.Body.Close()
		return r.StatusCode
	}
	first := d.monitor.addr.String()
	if got := status("http://" + first + "/metrics"); got != 200 {
		t.Errorf("/metrics returns %d", got)
	}

	dir := t.TempDir()
	next := now
	next.TokenFile = writeFile(t, dir, "token", "hunter2")
	commit, _, err := d.prepareListener(now, next)
	if err != nil {
		t.Fatal(err)
	}
	if got := status("http://" + first + "/metrics"); got != 200 {
		t.Errorf("before the change is in effect /metrics returns %d", got)
	}
	commit()
	if got := status("http://" + first + "/metrics"); got != 401 {
		t.Errorf("without the token /metrics returns %d", got)
	}

	now, next.TokenFile = next, ""
	next.Listen = "127.0.0.1:0"
	next.Cert, next.Key = selfSigned(t, dir)
	_, abandon, err := d.prepareListener(now, next)
	if err != nil {
		t.Fatal(err)
	}
	if abandon(); d.monitor.addr.String() != first || status("http://"+first+"/metrics") != 401 {
		t.Errorf("a change that was abandoned is in effect on %s", d.monitor.addr)
	}
	if commit, _, err = d.prepareListener(now, next); err != nil {
		t.Fatal(err)
	}
	if commit(); d.monitor.addr.String() == first || status("http://"+first+"/metrics") != 0 ||
		status("http://"+d.monitor.addr.String()+"/metrics") == 200 {
		t.Errorf("it listens on %s, before on %s, and without TLS", d.monitor.addr, first)
	}
	now, next.Listen = next, first
	taken := sure(listen(config.HTTP{Listen: first}))
	defer taken.close(context.Background())
	if _, _, err = d.prepareListener(now, next); err == nil {
		t.Error("a listener whose address is in use was changed")
	}
}
