// Package daemon is `embedd run`: it opens what a configuration asks for, serves until its context is cancelled, and
// drains.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/console"
	"github.com/embedd/embedd/cmd/embedd/embedded"
	"github.com/embedd/embedd/cmd/embedd/engine"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/internal/task"
	"github.com/embedd/embedd/stream"
)

// Options are what Run serves.
type Options struct {
	Config *config.Config
	Log    *slog.Logger
	Build  Build
	// Load reads and checks the configuration again, and Apply puts into effect what the process has of it, beyond its
	// pipelines. It is called after Hangups, and after a request of `embedd reload`.
	Load    func() (*config.Config, error)
	Apply   func(*config.Config)
	Hangups <-chan os.Signal
	// OnMemory is called about every second with the bytes that windows and late labels hold.
	OnMemory func(int64)
}

// daemon is what Run holds open.
type daemon struct {
	options   Options
	log       *slog.Logger
	running   *config.Config    // what is in effect
	pipelines []stream.Pipeline // as they were opened first
	cores     int
	opened    chan struct{}                 // closed when the pipelines are open
	engine    atomic.Pointer[stream.Engine] // nil until it exists: probes may come earlier
	monitor   *monitor
	listen    func(config.HTTP) (*monitor, error)
	console   *console.Console
	conn      atomic.Pointer[connection.Conn]
	traces    trace.TracerProvider // nil: no traces are exported
	tracesLog ratelog.Limiter
	cleanup   []func()
}

// Run opens what the configuration asks for and serves until ctx is cancelled, then drains.
func Run(ctx context.Context, o Options) error {
	d := &daemon{options: o, log: o.Log, running: o.Config, cores: runtime.GOMAXPROCS(0), opened: make(chan struct{})}
	defer d.close()
	if err := d.openTraces(ctx); err != nil {
		return err
	}
	if err := d.open(ctx, o.Config); err != nil {
		return err
	}
	return d.serve(ctx)
}

// open starts the parts in the order in which a fault is cheapest to find.
func (d *daemon) open(ctx context.Context, c *config.Config) error {
	pipelines, err := engine.Pipelines(c)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	trainInBackground(pipelines)
	d.pipelines = pipelines
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d.console = console.New(console.Options{Engine: d.engine.Load, Conn: d.conn.Load, Trouble: d.trouble,
		Version: d.options.Build.Version, Log: d.log})
	collect(registry, processMetrics(d.options.Build, d.conn.Load, d.console))
	d.listen = func(h config.HTTP) (*monitor, error) {
		return startMonitor(h, registry, probes{d.readiness, d.trouble}, d.console, d.log)
	}
	if d.monitor, err = d.listen(c.HTTP); err != nil {
		return err
	}
	conn, err := d.dial(ctx, c, pipelines)
	if err != nil {
		return err
	}
	address := d.monitor.addr.String() // a reload may replace the monitor while the engine opens
	engine, err := stream.New(stream.Options{Conn: conn.Conn, APIPrefix: conn.APIPrefix(), Pipelines: pipelines,
		Logger: d.log, Registerer: registry, TracerProvider: d.traces, Wait: c.NATS.Wait, Leave: conn.Leave,
		Received: conn.Received, Reload: d.reload,
		Opened: func() {
			close(d.opened)
			d.log.Info("serving", "server", conn.Address(), "pipelines", len(pipelines), "http", address)
		}})
	if err != nil {
		return cli.Usagef("%w", err)
	}
	d.engine.Store(engine)
	return nil
}

// dial connects to the configured server, or starts an embedded one and creates its streams.
func (d *daemon) dial(ctx context.Context, c *config.Config, pipelines []stream.Pipeline) (*connection.Conn, error) {
	o := connection.Options{Wait: c.NATS.Wait, Logger: d.log, Inbox: client.Inbox("run")}
	if !c.NATS.Embedded() {
		if err := client.CheckAddress(c.NATS); err != nil {
			return nil, err
		}
		conn, err := connection.Dial(ctx, c.NATS, o)
		return d.keepOpen(conn), err
	}
	if c.NATS.Hub != "" {
		return nil, cli.Usagef("nats.hub: the embedded server is not a leaf node of a hub; set nats.url to the leaf node")
	}
	if len(c.NATS.Edges) > 0 {
		return nil, cli.Usagef("nats.edges: the embedded server has no leaf nodes; set nats.url to the hub")
	}
	s, err := embedded.Start(embedded.Store, embedded.Port)
	if err != nil {
		return nil, err
	}
	d.cleanup = append(d.cleanup, func() { embedded.Stop(s) })
	conn, err := embedded.Dial(ctx, s, o)
	if err != nil {
		return nil, fmt.Errorf("connecting to the embedded server: %w", err)
	}
	d.keepOpen(conn)
	d.log.Info("embedded NATS server", "url", s.ClientURL(), "store", s.StoreDir())
	js, err := conn.JetStream()
	if err != nil {
		return nil, err
	}
	plans, err := engine.Streams(c.NATS).Setup(ctx, js, pipelines, true)
	for _, p := range plans {
		if p.Problem != "" {
			err = errors.Join(err, errors.New(p.Problem))
		}
	}
	return conn, err
}

// keepOpen keeps a connection until the daemon is closed; nil is none.
func (d *daemon) keepOpen(conn *connection.Conn) *connection.Conn {
	if conn != nil {
		d.conn.Store(conn)
		d.cleanup = append(d.cleanup, conn.Close)
	}
	return conn
}

// trouble is what is wrong with the connection, "" for nothing. It may be called before there is one.
func (d *daemon) trouble() string {
	if conn := d.conn.Load(); conn != nil {
		return conn.Trouble()
	}
	return "not connected yet"
}

// starting is the readiness before the pipelines are open.
var starting = []readiness{{State: string(stream.StateStarting), Reason: "the pipelines are being opened"}}

// readiness may be called before the engine exists.
func (d *daemon) readiness() []readiness {
	var status []stream.Status
	if engine := d.engine.Load(); engine != nil {
		status = engine.Status()
	}
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
			Learning: s.InputEvent})
	}
	return out
}

// reportMemory reports what windows and late labels hold, until ctx is done.
func (d *daemon) reportMemory(ctx context.Context) {
	for task.AwaitTick(ctx, time.Second) {
		held := int64(0)
		status := d.engine.Load().Status()
		d.console.Observe(status)
		for _, s := range status {
			held += s.Stage.Bytes + s.Labels.Bytes
		}
		if len(status) > 0 {
			d.options.OnMemory(held)
		}
	}
}

// serve runs the engine until ctx is cancelled or the connection ends for good.
func (d *daemon) serve(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { d.reloadOnHangup(running) })
	go d.reportMemory(running)
	err := d.engine.Load().Run(ctx)
	stop()
	wg.Wait()
	conn := d.conn.Load()
	switch {
	case errors.Is(err, nats.ErrConnectionClosed):
		<-conn.Ended() // then it is known why
		return fmt.Errorf("%w: %s", errConnectionEnded, conn.Trouble())
	case errors.Is(err, stream.ErrDenied), errors.Is(err, stream.ErrDrain):
		return err // it contains the reason
	case err != nil:
		return conn.Explain(err)
	case ctx.Err() != nil:
		d.log.Info("drained", "cause", context.Cause(ctx).Error())
	}
	return nil
}

// errConnectionEnded ends the daemon, so that its supervisor restarts it with a new connection.
var errConnectionEnded = errors.New("the connection is closed and cannot be restored")

// closeTimeout is how long open requests to the listener may take when it closes.
const closeTimeout = 2 * time.Second

func (d *daemon) close() {
	if d.monitor != nil {
		d.closeListener(d.monitor)
	}
	for i := len(d.cleanup) - 1; i >= 0; i-- {
		d.cleanup[i]()
	}
}

// trainInBackground makes pipelines train on threads of low priority, on all cores but one. Such a thread may wait long
// for a core while it occupies one of the GOMAXPROCS slots of Go's scheduler, so there is one more slot for each.
func trainInBackground(pipelines []stream.Pipeline) {
	cores := runtime.GOMAXPROCS(0)
	training := yieldCores(pipelines, cores)
	if training > 0 && os.Getenv("GOMAXPROCS") == "" && runtime.GOOS == "linux" {
		runtime.GOMAXPROCS(cores + min(training, cores))
	}
}

// yieldCores configures pipelines that train to leave the cores to the hot path, and returns how many train.
func yieldCores(pipelines []stream.Pipeline, cores int) (training int) {
	for i := range pipelines {
		s := &pipelines[i].Stage
		if s.Fixed != nil || pipelines[i].Role == stream.RoleTransform && s.Training.Block == 0 {
			continue // it does not train, and summarises nothing for a trainer
		}
		training++
		s.LowPriority = true
		s.Fit.Workers = cmp.Or(s.Fit.Workers, max(cores-1, 1))
	}
	return training
}
