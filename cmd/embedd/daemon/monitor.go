package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/console"
	"github.com/embedd/embedd/internal/ratelog"
)

// readiness is the entry of a pipeline in /readyz.
type readiness struct {
	Pipeline string `json:"pipeline"`
	Ready    bool   `json:"ready"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`   // explains the state, with figures
	Learning string `json:"learning,omitempty"` // the last change of the input stream that the trainer followed
}

// monitor serves the console, its API, /metrics, /healthz and /readyz.
type monitor struct {
	server *http.Server
	addr   net.Addr // the actual address, also if http.listen has port 0
	failed chan error
	config *atomic.Pointer[config.HTTP]
}

// probes are called for each request, concurrently.
type probes struct {
	ready   func() []readiness
	trouble func() string // what is wrong with the connection, "" for nothing
}

// errorLog logs the errors of an http.Server, such as failed TLS handshakes, which any client can cause.
type errorLog struct {
	to    *slog.Logger
	limit ratelog.Limiter
}

func (e *errorLog) Write(line []byte) (int, error) {
	e.limit.Warn(e.to, "the HTTP listener reports an error", "error", strings.TrimSpace(string(line)))
	return len(line), nil
}

// startMonitor listens before it returns, so that a port in use is an error before anything else starts.
func startMonitor(h config.HTTP, metrics prometheus.Gatherer, p probes, c *console.Console,
	to *slog.Logger) (*monitor, error) {
	l, err := net.Listen("tcp", h.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("http.listen %s is in use by another program, perhaps another embedd: stop it, or set "+
			"http.listen to another port (port 0 takes a free one)", h.Listen)
	}
	if err != nil {
		return nil, fmt.Errorf("http.listen: %w: set it to an address of this machine, such as 127.0.0.1:8474", err)
	}
	current := &atomic.Pointer[config.HTTP]{}
	current.Store(&h)
	l = &listener{Listener: l, config: current, tls: &tls.Config{MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"}, GetCertificate: (&certificate{config: current}).get}}
	done := make(chan struct{})
	m := &monitor{
		config: current,
		server: &http.Server{
			Handler:           monitorHandler(metrics, p, c, current, done),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      10 * time.Second,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          log.New(&errorLog{to: to}, "", 0),
			HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxConnectionStreams},
		},
		addr:   l.Addr(),
		failed: make(chan error, 1),
	}
	m.server.RegisterOnShutdown(func() { close(done) }) // or open event streams would keep it from ending
	go func() { m.failed <- m.server.Serve(l) }()
	return m, nil
}

// listener accepts a limited number of connections, with TLS if a certificate is configured then.
type listener struct {
	net.Listener
	limit  connLimit
	config *atomic.Pointer[config.HTTP]
	tls    *tls.Config
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c = l.limit.add(c, l.config.Load().Clients)
	if l.config.Load().Cert != "" {
		c = tls.Server(c, l.tls)
	}
	return c, nil
}

// close waits for open requests and stops.
func (m *monitor) close(ctx context.Context) error {
	if err := m.server.Shutdown(ctx); err != nil {
		m.server.Close()
	}
	if err := <-m.failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("http.listen: %w", err)
	}
	return nil
}

// monitorHandler answers all requests. Event streams end when done is closed.
func monitorHandler(metrics prometheus.Gatherer, p probes, c *console.Console, current *atomic.Pointer[config.HTTP],
	done <-chan struct{}) http.Handler {
	mux := http.NewServeMux()
	access := console.NewAccess(current)
	known := func(r *http.Request) bool {
		if isKnownHost(r.Host, current.Load().Hosts) {
			return true
		}
		_, ok := access.Identify(r)
		return ok && !access.IsOpen()
	}
	allowed := func(r *http.Request) bool { // by a probe
		return access.IdentifyProbe(r) && (!access.IsOpen() || known(r))
	}
	shown := promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})
	mux.Handle("/", c.Handler(access, done))
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := access.Identify(r); !ok {
			access.Refuse(w, r)
			return
		}
		shown.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		// Always ok: a restart would not repair the connection.
		answer := map[string]string{"status": "ok"}
		if text := p.trouble(); text != "" && allowed(r) {
			answer["connection"] = text
		}
		console.Reply(w, http.StatusOK, answer)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		answer := struct {
			Ready     bool        `json:"ready"`
			Pipelines []readiness `json:"pipelines,omitempty"`
		}{true, p.ready()}
		for _, p := range answer.Pipelines {
			answer.Ready = answer.Ready && p.Ready
		}
		if !allowed(r) {
			answer.Pipelines = nil
		}
		code := http.StatusOK
		if !answer.Ready {
			code = http.StatusServiceUnavailable
		}
		console.Reply(w, code, answer)
	})
	return console.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if probe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"; !probe && !known(r) {
			console.Refuse(w, "unknown_host", fmt.Sprintf("the request is for %q, which is not in http.hosts: add it, or use "+
				"an address or the token of http.token_file", r.Host))
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// isKnownHost reports whether the Host of a request is an address, localhost or one of the names. A browser sends the
// name of the page's server, also if that name was made to resolve to this machine (DNS rebinding). Ports are not
// compared.
func isKnownHost(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ".")
	if host == "" { // HTTP/1.0, which no browser sends
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(host, strings.TrimSuffix(name, ".")) })
}

// certificate is the key pair of two files, which are read at each handshake.
type certificate struct {
	config *atomic.Pointer[config.HTTP]
	last   atomic.Pointer[tls.Certificate] // that could be read
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	h := c.config.Load()
	pair, err := tls.LoadX509KeyPair(h.Cert, h.Key)
	if err == nil {
		c.last.Store(&pair)
	}
	if last := c.last.Load(); last != nil {
		return last, nil // the files may be half written
	}
	return nil, err
}
