package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/stream"
)

// runCommand is the daemon: it serves until a signal, then drains.
func runCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{Use: "run", Short: "the daemon: learn from streams and reduce them until a signal"}
	f := flagsOf(cmd)
	path := f.StringP("config", "c", "embedd.yaml", "configuration `FILE`")
	where := f.address("NATS `URL`; over NATS_URL and the file's nats.url")
	role := f.choice("role", "`WORK` that this daemon does of its pipelines; configured is the file's role", "configured", "all", "transform", "train")
	logFormat := f.choice("log-format", "`FORM` of the log on stderr", "text", "json")
	logLevel := f.choice("log-level", "least `LEVEL` that is logged", "info", "debug", "warn", "error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if _, err := os.Stat(*path); errors.Is(err, fs.ErrNotExist) {
			return usagef("no configuration %s: write one with `embedd init`, or name one with -c", *path)
		}
		c, err := loadConfig(*path)
		if err != nil {
			return err
		}
		if c.NATS = where.over(c.NATS); c.NATS.Embedded() {
			c.NATS.URL = os.Getenv("NATS_URL")
		}
		if *role != "configured" {
			c.Role = *role
		}
		log := newLogger(e, *logFormat, *logLevel)
		for _, n := range c.Notes {
			log.Info("configuration: "+n.Message, "key", n.Key)
		}
		memory := paceGarbage(c)
		log.Debug("garbage is collected so that the process stays within its memory", "limits.memory", memory)
		defer keepHeap(memory).end()
		d, err := startDaemon(ctx, c, log)
		if err != nil {
			return err
		}
		return d.serve(ctx)
	}
	return cmd
}

func newLogger(e *env, format, level string) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // the flag allows only levels
	o := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(e.stderr, o))
	}
	return slog.New(slog.NewTextHandler(e.stderr, o))
}

// daemon is what run holds open.
type daemon struct {
	log     *slog.Logger
	engine  atomic.Pointer[stream.Engine] // nil until it is made; readiness is asked before
	monitor *monitor
	conn    *connection.Conn
	dialled atomic.Pointer[connection.Conn] // conn, for the probes
	cleanup []func()
}

// startDaemon opens what a configuration asks for, in the order in which a fault is cheapest.
func startDaemon(ctx context.Context, c *config.Config, log *slog.Logger) (*daemon, error) {
	d := &daemon{log: log}
	if err := d.open(ctx, c); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *daemon) open(ctx context.Context, c *config.Config) error {
	pipelines, err := pipelinesOf(c)
	if err != nil {
		return usageError{err}
	}
	learnAside(pipelines)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if d.monitor, err = startMonitor(c.HTTP, registry,
		probes{d.readiness, d.trouble}); err != nil {
		return err
	}
	if err := d.dial(ctx, c, pipelines); err != nil {
		return err
	}
	engine, err := stream.New(stream.Options{Conn: d.conn.Conn, APIPrefix: d.conn.APIPrefix(), Pipelines: pipelines,
		Logger: d.log, Registerer: registry, Wait: c.NATS.Wait, Leave: d.conn.Leave, Received: d.conn.Received, Opened: func() {
			d.log.Info("serving", "server", d.conn.Address(), "pipelines", len(pipelines), "http",
				d.monitor.addr.String())
		}})
	if err != nil {
		return usageError{err}
	}
	d.engine.Store(engine)
	return nil
}

// dial connects to the configured server, or embeds one and makes its streams.
func (d *daemon) dial(ctx context.Context, c *config.Config, pipelines []stream.Pipeline) error {
	o := connection.Options{Wait: c.NATS.Wait, Logger: d.log}
	if !c.NATS.Embedded() {
		if err := checkAddress(c.NATS); err != nil {
			return err
		}
		conn, err := connection.Dial(ctx, c.NATS, o)
		if err != nil {
			return err
		}
		d.conn = conn
		d.dialled.Store(conn)
		d.cleanup = append(d.cleanup, conn.Close)
		return nil
	}
	if c.NATS.Hub != "" {
		return usagef("nats.hub: the embedded server is no leaf node of a hub; name the leaf node by nats.url")
	}
	if len(c.NATS.Edges) > 0 {
		return usagef("nats.edges: the embedded server has no leaf nodes; name the hub's server by nats.url")
	}
	s, err := startServer(embeddedStore, embeddedPort)
	if err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, func() { stopServer(s) })
	if d.conn, err = dialServer(ctx, s, o); err != nil {
		return fmt.Errorf("connecting to the embedded server: %w", err)
	}
	d.dialled.Store(d.conn)
	d.cleanup = append(d.cleanup, d.conn.Close)
	d.log.Info("embedded NATS server", "url", s.ClientURL(), "store", s.StoreDir())
	js, err := d.conn.JetStream()
	if err != nil {
		return err
	}
	plans, err := streamsOf(c.NATS).Setup(ctx, js, pipelines, true)
	for _, p := range plans {
		if p.Problem != "" {
			err = errors.Join(err, errors.New(p.Problem))
		}
	}
	return err
}

// trouble may be asked before the connection is there.
func (d *daemon) trouble() string {
	if conn := d.dialled.Load(); conn != nil {
		return conn.Trouble()
	}
	return "not connected yet"
}

// starting is said before the pipelines are open.
var starting = []readiness{{State: string(stream.StateStarting), Reason: "the pipelines are being opened"}}

// readiness may be asked before the engine is there.
func (d *daemon) readiness() []readiness {
	engine := d.engine.Load()
	if engine == nil {
		return starting
	}
	status := engine.Status()
	if len(status) == 0 {
		return starting
	}
	trouble := d.trouble()
	var out []readiness
	for _, s := range status {
		if trouble != "" {
			s.State, s.Ready, s.Reason = stream.StateBlocked, false, trouble
		}
		out = append(out, readiness{Pipeline: s.Pipeline, State: string(s.State), Ready: s.Ready, Reason: s.Reason,
			Learning: s.Learning})
	}
	return out
}

// serve runs the engine until a signal, and ends what was opened.
func (d *daemon) serve(ctx context.Context) error {
	defer d.close()
	stop, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-d.conn.Ended():
			cancel(errConnectionEnded)
		case <-stop.Done():
		}
	}()
	err := d.engine.Load().Run(stop)
	cancel(nil)
	<-watched
	switch {
	case errors.Is(context.Cause(stop), errConnectionEnded):
		return fmt.Errorf("%w: %s", errConnectionEnded, d.conn.Trouble())
	case errors.Is(err, stream.ErrDenied), errors.Is(err, stream.ErrDrain):
		return err // it says why by itself
	case err != nil:
		return d.conn.Explain(err)
	case ctx.Err() != nil:
		d.log.Info("drained", "cause", context.Cause(ctx).Error())
	}
	return nil
}

// errConnectionEnded ends the daemon in the open: who restarts it makes a new connection, and nothing else would.
var errConnectionEnded = errors.New("the connection ended for good")

func (d *daemon) close() {
	if d.monitor != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := d.monitor.close(ctx); err != nil {
			d.log.Warn("closing the listener", "error", err)
		}
	}
	for i := len(d.cleanup) - 1; i >= 0; i-- {
		d.cleanup[i]()
	}
}
