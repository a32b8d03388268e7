package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// startNATS starts a real server on a free port that wants a user and a password.
func startNATS(t *testing.T, port int) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, Username: "u", Password: "hunter2",
		NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	return s
}

func withUser(s *server.Server, user string) string {
	return strings.Replace(s.ClientURL(), "nats://", "nats://"+user+"@", 1)
}

func TestConnect(t *testing.T) {
	s := startNATS(t, -1)
	nc, err := connect(t.Context(), config.NATS{URL: withUser(s, "u:hunter2")}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()

	// Wrong credentials are not waited for.
	start := time.Now()
	_, err = connect(t.Context(), config.NATS{URL: withUser(s, "u:hunter3")}, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "refuses the credentials") ||
		strings.Contains(err.Error(), "hunter3") {
		t.Errorf("wrong password: %v", err)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("wrong password took %v", d)
	}
	_, err = connect(t.Context(), config.NATS{URL: "nats://u:hunter2@:%zz"}, time.Second)
	if usage := (usageError{}); !errors.As(err, &usage) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a URL that is none: %v", err)
	}
}

func TestConnectByContext(t *testing.T) {
	s := startNATS(t, -1)
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	dir := filepath.Join(home, "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"url": s.ClientURL(), "user": "u", "password": "hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "prod.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	nc, err := connect(t.Context(), config.NATS{Context: "prod"}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if _, err := connect(t.Context(), config.NATS{Context: "test"}, time.Minute); err == nil ||
		!strings.Contains(err.Error(), `unknown context "test"`) {
		t.Errorf("a context that is not there: %v", err)
	}
}

// A server that starts later is waited for, one that does not is an error that says what to do, and a signal ends the
// wait.
func TestConnectWaits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	n := config.NATS{URL: "nats://u:hunter2@" + l.Addr().String()}

	_, err = connect(t.Context(), n, time.Second)
	if err == nil || !strings.Contains(err.Error(), "start one (nats-server -js)") ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("no server: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := connect(ctx, n, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled wait: %v", err)
	}
	connected := make(chan error, 1)
	go func() {
		nc, err := connect(t.Context(), n, 30*time.Second)
		if err == nil {
			nc.Close()
		}
		connected <- err
	}()
	time.Sleep(2 * retryPause)
	startNATS(t, port)
	if err := <-connected; err != nil {
		t.Errorf("a server that starts later: %v", err)
	}
}
