package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/task"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/operations"
	"github.com/embedd/embedd/stream/internal/relay"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/spec"
)

// Options configure an engine. Nothing is global: two engines can run in one process (Invariant 9).
type Options struct {
	Conn      *nats.Conn
	APIPrefix string // of the JetStream API; default $JS.API
	Pipelines []Pipeline
	Logger    *slog.Logger // default: no logs
	// Registerer receives the metrics. Engines may share one if their pipelines have different names. Default: no metrics.
	Registerer prometheus.Registerer
	// TracerProvider receives a span of each input and of each fit. Default: none, which costs nothing.
	TracerProvider trace.TracerProvider
	Clock          func() time.Time // default time.Now
	// Wait is how long Run tries to open the pipelines while the server does not answer or has no leader yet; 0: once.
	Wait time.Duration
	// Reload, if not nil, reads the host's configuration again, for Engine.Reload and the endpoint reload of a pipeline.
	Reload func(ctx context.Context) (*Reload, error)
	// Opened, if not nil, is called when Run has opened all pipelines and answers requests, before it takes any input.
	Opened func()
	// Leave closes the connection to a server that has stopped answering, so that the client connects to another one.
	// Default: Conn.ForceReconnect, which blocks while the server does not accept what is written to it.
	Leave func() error
	// Received returns how many bytes have arrived over the connection. While they increase, the server counts as alive,
	// however long a response takes behind them. Default: the bytes of complete messages, as the client counts them.
	Received func() uint64
}

// Engine, which New makes, runs pipelines over a connection of the caller. Its methods may be called while Run serves.
type Engine struct {
	options Options
	log     *slog.Logger
	metrics *health.Registry
	// Durations that tests shorten:
	drainTimeout  time.Duration
	serverTimeout time.Duration // health.DefaultServerTimeout
	claimTTL      time.Duration // blocks.Blocks.ClaimTTL; 0: its default
	watchInterval time.Duration // deliveries.Watch.Interval; 0: its default

	stores   *replica.Stores
	state    *natsx.Bucket // nil until a pipeline needs it
	streams  *natsx.StreamCache
	activity relay.Activity

	mu      sync.Mutex
	running []*pipeline // those that are open; reopen replaces one at its index

	hasRun     atomic.Bool  // Run serves, or has served
	isOpen     atomic.Bool  // Run has opened all pipelines
	reloading  sync.Mutex   // reloads one after another
	generation atomic.Int64 // of the configuration, from 1

	conditions map[string]*health.Conditions  // by name of a pipeline, which may be opened again
	histories  map[string]*operations.History // the same
}

// defaultDrainTimeout is how long answers that are in progress may take after a stop.
const defaultDrainTimeout = 15 * time.Second

// New checks the options. It opens nothing.
func New(o Options) (*Engine, error) {
	if o.Conn == nil {
		return nil, errors.New("an engine needs a connection")
	}
	if len(o.Pipelines) == 0 {
		return nil, errors.New("an engine needs a pipeline")
	}
	pipelines, err := spec.CheckAll(o.Pipelines)
	if err != nil {
		return nil, err
	}
	o.Pipelines = pipelines
	if o.APIPrefix == "" {
		o.APIPrefix = strings.TrimSuffix(jetstream.DefaultAPIPrefix, ".")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	conditions, histories := map[string]*health.Conditions{}, map[string]*operations.History{}
	for _, p := range o.Pipelines {
		conditions[p.Name], histories[p.Name] = &health.Conditions{}, &operations.History{}
	}
	m, err := health.NewRegistry(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	e := &Engine{options: o, log: o.Logger, metrics: m, drainTimeout: defaultDrainTimeout,
		serverTimeout: health.DefaultServerTimeout, streams: natsx.NewStreamCache(), stores: replica.NewStores(),
		conditions: conditions, histories: histories}
	e.generation.Store(1)
	return e, nil
}

// Run opens all pipelines and serves until ctx is done; then it drains and returns nil. It returns ErrDrain if inputs
// that were taken could not be answered any more, and nats.ErrConnectionClosed if the host closed the connection. If a
// pipeline cannot be opened, Run returns before anything has started, with an error that names the fix:
// ErrStreamMissing, ErrNoJetStream, ErrConsumerTaken, ErrDenied, or an error of the connection or of the stage. Then
// it can be called again. While an engine serves, and after that, another call is an error.
func (e *Engine) Run(ctx context.Context) (err error) {
	if e.hasRun.Swap(true) {
		return errors.New("the engine has run before; create another one with New")
	}
	defer func() { e.hasRun.Store(e.isOpen.Load()) }()
	ctx, connClosed, release := e.watchConnection(ctx)
	defer release()
	defer func() {
		if errors.Is(context.Cause(ctx), nats.ErrConnectionClosed) || err != nil && connClosed.Err() != nil {
			err = nats.ErrConnectionClosed // other errors follow from it
		}
	}()
	js, err := jetstream.NewWithAPIPrefix(e.options.Conn, e.options.APIPrefix)
	if err != nil {
		return err
	}
	s := &engineRun{Engine: e, js: js, permissions: natsx.MonitorPermissions(e.options.Conn),
		pulls: natsx.NewPullLimit(e.options.Conn, e.log), receiver: natsx.NewReceiver(e.options.Conn),
		connClosed: connClosed}
	defer s.permissions.Stop()
	var stoppedAt atomic.Pointer[time.Time]
	defer context.AfterFunc(ctx, func() { stoppedAt.Store(new(time.Now())) })()
	defer func() {
		timeout := e.drainTimeout
		if at := stoppedAt.Load(); at != nil {
			timeout = max(e.drainTimeout-time.Since(*at), replica.ReleaseTimeout)
		}
		e.close(timeout)
	}()
	open, err := s.openAll(ctx)
	if err != nil || open == nil {
		return err
	}
	e.isOpen.Store(true)
	err = s.serveAll(ctx, open)
	if connClosed.Err() == nil {
		// Acknowledgements are not confirmed, and a host that closes the connection next must not lose the last of them.
		e.flush("the last acknowledgements may be lost; redelivered messages will be recognised")
	}
	return err
}

// watchConnection returns a context that ends with ctx or when the host closes the connection, and one that ends when
// the connection is closed: then nothing can be drained. The cause of the first says which it was.
func (e *Engine) watchConnection(ctx context.Context) (run, connClosed context.Context, release func()) {
	nc := e.options.Conn
	statuses := nc.StatusChanged(nats.CLOSED)
	run, stop := context.WithCancelCause(ctx)
	connClosed, setClosed := context.WithCancel(context.Background())
	end := func() {
		setClosed()
		stop(nats.ErrConnectionClosed)
	}
	if nc.IsClosed() {
		end()
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, isOpen := <-statuses; isOpen {
			end()
		}
	})
	return run, connClosed, func() {
		nc.RemoveStatusListener(statuses) // closes the channel
		wg.Wait()
		stop(nil)
		setClosed()
	}
}

// pipelines returns the open pipelines.
func (e *Engine) pipelines() []*pipeline {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.running)
}

// close closes the pipelines, which waits for the training step in progress. A model store that does not respond can
// block that indefinitely, so it waits for the timeout at most. A step that ends later writes nothing.
func (e *Engine) close(timeout time.Duration) {
	open := e.pipelines()
	closed := make([]chan struct{}, len(open))
	for i, p := range open {
		closed[i] = make(chan struct{})
		go func() {
			defer close(closed[i])
			p.close()
		}()
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for i, p := range open {
		select {
		case <-closed[i]:
		case <-ctx.Done():
		}
		p.Series.Watch(nil)
		select {
		case <-closed[i]:
		default:
			p.Log.Warn("training has not ended, because a write to the model store has not completed; what was learned since "+
				"the last stored version is learned again after the next start", "waited", timeout.Round(time.Millisecond))
		}
	}
}

const flushTimeout = 2 * time.Second

// flush waits until the server has received what was sent, for flushTimeout at most. If that fails, it logs the effect.
func (e *Engine) flush(effect string) {
	if err := e.options.Conn.FlushTimeout(flushTimeout); err != nil {
		e.log.Debug(effect, "error", err)
	}
}

// updateMetrics updates the metrics that depend on time, every second until ctx is done, and the histories.
func (e *Engine) updateMetrics(ctx context.Context) {
	recorded := time.Now().Add(-operations.HistoryStep)
	for {
		if now := time.Now(); now.Sub(recorded) >= operations.HistoryStep {
			recorded = now
			for _, p := range e.pipelines() {
				s := p.status()
				p.operations.History.Add(now, &s)
			}
		}
		for _, p := range e.pipelines() {
			p.replica.RefreshAge()
			p.replica.ReportHub()
			p.relay.Update(time.Now())
		}
		if !task.AwaitTick(ctx, time.Second) {
			return
		}
	}
}
