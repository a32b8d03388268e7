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

	"github.com/embedd/embedd/stream/internal/blocks"
	"github.com/embedd/embedd/stream/internal/observe"
	"github.com/embedd/embedd/stream/internal/relay"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/training"
	"github.com/embedd/embedd/stream/summaries"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/spec"
)

// Options say what an engine runs on. Nothing is global: two engines run in one process (Invariant 9).
type Options struct {
	Conn      *nats.Conn
	APIPrefix string // begins the requests of JetStream; default $JS.API
	Pipelines []Pipeline
	Logger    *slog.Logger // default: no logs
	// default: no metrics; engines share one where their pipelines have names of their own
	Registerer prometheus.Registerer
	Clock      func() time.Time // default time.Now
	// Wait is how long the opening of the pipelines is tried again where the server does not answer, or has no leader yet;
	// 0: it is tried once
	Wait   time.Duration
	Opened func() // called once Run has opened every pipeline, before the first input is taken; nil: not
	// Leave is called where the server says nothing any more and another is known: it ends the connection, so that the
	// client makes another. Default: its ForceReconnect, which waits while a server takes nothing that is written to it.
	Leave func() error
	// Received is how many bytes have come over the connection: while they flow its server is not silent, however long an
	// answer takes that waits behind them. Default: those of messages that have come whole, as the client counts them.
	Received func() uint64
}

// Engine runs pipelines over one connection, which stays the caller's.
type Engine struct {
	options       Options
	log           *slog.Logger
	metrics       *health.Registry
	drain         time.Duration // how long inputs that were taken may take to be answered once Run is told to stop
	serverTimeout time.Duration // how long the server may answer nothing
	claimLife     time.Duration // see blocks.Blocks; 0: its default

	stores *replica.Stores
	state  *natsx.Bucket // of the server; nil until a pipeline needs it

	activity relay.Activity

	mu      sync.Mutex
	running []*pipeline
	isOpen  bool // all of them are

	conditions map[string]*health.Conditions // by pipeline
	seen       *natsx.StreamCache
}

// drainTimeout is how long answers that are in progress may take after a stop.
const drainTimeout = 15 * time.Second

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
	conditions := map[string]*health.Conditions{}
	for _, p := range o.Pipelines {
		conditions[p.Name] = &health.Conditions{}
	}
	m, err := health.NewRegistry(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return &Engine{options: o, log: o.Logger, metrics: m, drain: drainTimeout, serverTimeout: health.DefaultServerTimeout,
		seen: natsx.NewStreamCache(), stores: replica.NewStores(o.Logger), conditions: conditions}, nil
}

// Run opens every pipeline and serves until ctx is done; then it drains and returns nil, or ErrDrain where what was
// taken could not be answered any more, or nats.ErrConnectionClosed where the host has closed the connection. Where a
// pipeline cannot be opened it returns at once with what to do, and nothing has started: ErrStreamMissing,
// ErrNoJetStream, ErrDenied, or an error of the connection or of the stage.
func (e *Engine) Run(ctx context.Context) (err error) {
	ctx, severed, over := e.watchConnection(ctx)
	defer over()
	defer func() {
		if errors.Is(context.Cause(ctx), nats.ErrConnectionClosed) || err != nil && severed.Err() != nil {
			err = nats.ErrConnectionClosed // all else follows from it
		}
	}()
	js, err := jetstream.NewWithAPIPrefix(e.options.Conn, e.options.APIPrefix)
	if err != nil {
		return err
	}
	access := natsx.MonitorPermissions(e.options.Conn)
	defer access.Stop()
	begin := time.Now()
	var stopped atomic.Int64 // when Run was told to stop, in nanoseconds
	defer context.AfterFunc(ctx, func() { stopped.Store(time.Now().UnixNano()) })()
	defer func() {
		within := e.drain
		if at := stopped.Load(); at != 0 {
			within = max(e.drain-time.Since(time.Unix(0, at)), replica.ReleaseTimeout)
		}
		e.end(within)
	}()
	open := make([]*pipeline, 0, len(e.options.Pipelines))
	for _, c := range e.options.Pipelines {
		p, err := e.openPatiently(ctx, js, access, c, begin)
		if err != nil && ctx.Err() != nil {
			return nil // told to stop before anything had started: there is nothing to drain
		}
		if err != nil {
			return fmt.Errorf("pipeline %s: %w", c.Name, err)
		}
		open = append(open, p)
		e.setRunning(open)
	}
	for _, p := range open {
		if err := p.replica.BindName(ctx); err != nil {
			return fmt.Errorf("pipeline %s: %w", p.Name, err)
		}
	}
	server := e.serverMonitor(js, access, open)
	e.mu.Lock()
	e.isOpen = true
	e.mu.Unlock()
	if e.options.Opened != nil {
		e.options.Opened()
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(open))
	var wg sync.WaitGroup
	for i := range open {
		wg.Go(func() {
			err := e.serve(ctx, js, access, severed, i)
			if err != nil {
				cancel() // a pipeline that cannot continue ends the process, so that an operator sees it
			}
			errs <- err
		})
	}
	wg.Go(func() { e.watchAge(ctx) })
	if server != nil {
		wg.Go(func() { server.Run(ctx) })
	}
	wg.Wait()
	if severed.Err() == nil {
		e.flush()
	}
	close(errs)
	for one := range errs {
		err = errors.Join(err, one)
	}
	return err
}

// serverMonitor monitors the server for the pipelines that read a stream; nil when none does.
func (e *Engine) serverMonitor(js jetstream.JetStream, access *natsx.PermissionMonitor,
	open []*pipeline) *health.ServerMonitor {
	m := &health.ServerMonitor{Conn: e.options.Conn, JS: js, Log: e.log, Permissions: access, Timeout: e.serverTimeout,
		Leave: e.options.Leave, Received: e.options.Received}
	for _, p := range open {
		if p.Input == nil {
			continue
		}
		m.Subject = p.Output
		m.Conditions = append(m.Conditions, p.Conditions)
		if p.LearnsFromEdges() {
			m.Add(summaries.HubStream)
			continue
		}
		for _, stream := range append(p.relay.SinkStreams(), p.Stream) {
			m.Add(stream)
		}
	}
	if len(m.Streams) == 0 {
		return nil
	}
	return m
}

// watchConnection returns a context that ends with ctx or when the host closes the connection, and one that ends with
// the connection alone: then there is nothing to drain. The cause of the first says which it was.
func (e *Engine) watchConnection(ctx context.Context) (run, severed context.Context, over func()) {
	nc := e.options.Conn
	closed := nc.StatusChanged(nats.CLOSED)
	run, stop := context.WithCancelCause(ctx)
	severed, sever := context.WithCancel(context.Background())
	lost := func() {
		sever()
		stop(nats.ErrConnectionClosed)
	}
	if nc.IsClosed() {
		lost()
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, open := <-closed; open {
			lost()
		}
	})
	return run, severed, func() {
		nc.RemoveStatusListener(closed) // closes the channel
		wg.Wait()
		stop(nil)
		sever()
	}
}

// setRunning publishes the open pipelines.
func (e *Engine) setRunning(open []*pipeline) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = slices.Clone(open)
}

// pipelines are the open pipelines.
func (e *Engine) pipelines() []*pipeline {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.running)
}

// serve runs one pipeline until ctx is done, and opens it again when its stored schema was reset.
func (e *Engine) serve(ctx context.Context, js jetstream.JetStream, access *natsx.PermissionMonitor,
	severed context.Context, i int) error {
	for p := e.pipelines()[i]; ; {
		err := p.run(ctx, severed)
		if errors.Is(err, errReopen) {
			p.close()
			var next *pipeline
			if next, err = e.openPatiently(ctx, js, access, e.options.Pipelines[i], time.Now()); err == nil {
				p = next
				e.mu.Lock()
				e.running[i] = p
				e.mu.Unlock()
				continue
			}
			if ctx.Err() != nil {
				return nil
			}
		}
		if err != nil {
			err = fmt.Errorf("pipeline %s: %w", p.Name, err)
		}
		return err
	}
}

// end closes pipelines, which waits for what learning is doing. A store of models that does not come back holds that
// up, whatever it is told; so it is waited for so long, and then left to itself: it writes no more once the store
// lets it go.
func (e *Engine) end(within time.Duration) {
	open := e.pipelines()
	closed := make(chan string, len(open))
	left := map[string]bool{}
	for _, p := range open {
		left[p.Name] = true
		go func() {
			p.close()
			closed <- p.Name
		}()
	}
	late := time.NewTimer(within)
	defer late.Stop()
	for over := false; len(left) > 0 && !over; {
		select {
		case name := <-closed:
			delete(left, name)
		case <-late.C:
			over = true
		}
	}
	for _, p := range open {
		p.Series.Unwatch()
		if left[p.Name] {
			p.Log.Warn("told to stop, and learning does not end: the store of models has not taken what it was given; what "+
				"was learned since the last that was stored is learned again after the next start",
				"waited", within.Round(time.Millisecond))
		}
	}
}

// flush waits until the server has what was sent: acknowledgements are not confirmed, and who closes the connection
// next must not lose the last of them. Where the server is gone they are lost, and the redeliveries absorbed.
func (e *Engine) flush() {
	if err := e.options.Conn.FlushTimeout(flushWait); err != nil {
		e.log.Debug("the last acknowledgements may be lost; the redeliveries will be absorbed", "error", err)
	}
}

// flushWait is how long the end of Run waits for the server to take the last acknowledgements.
const flushWait = 2 * time.Second

// openPatiently opens a pipeline, again and again while what keeps it from that may pass.
func (e *Engine) openPatiently(ctx context.Context, js jetstream.JetStream, access *natsx.PermissionMonitor, c Pipeline,
	begin time.Time) (p *pipeline, err error) {
	for attempt := 0; ; attempt++ {
		err = access.Guard(ctx, access.IsServerRequest, func(ctx context.Context) (err error) {
			p, err = e.open(ctx, js, access, c)
			return err
		})
		if err == nil || !e.mayPass(err) || time.Since(begin) > e.options.Wait || !natsx.Backoff(ctx, attempt) {
			return p, err
		}
		e.log.Warn("a pipeline cannot be opened yet; trying again", "pipeline", c.Name, "error", err)
	}
}

// mayPass tells whether an error is one of a server that is starting, or of a cluster that elects a leader.
func (e *Engine) mayPass(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return slices.Contains([]jetstream.ErrorCode{natsx.ErrCodeNoCluster, natsx.ErrCodeNoLeader,
			natsx.ErrCodeNoServers}, api.ErrorCode)
	}
	if errors.Is(err, nats.ErrNoResponders) { // a server without JetStream has none either
		has, _ := e.options.Conn.ConnectedServerJetStream()
		return has
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, jetstream.ErrNoStreamResponse)
}

// open binds what a pipeline needs and makes its stage.
func (e *Engine) open(ctx context.Context, js jetstream.JetStream, access *natsx.PermissionMonitor,
	c Pipeline) (_ *pipeline, err error) {
	s := &scope.Scope{Pipeline: c, Conn: e.options.Conn, JS: js, Permissions: access, Streams: e.seen,
		Instance: nats.NewInbox(), Log: e.log.With("pipeline", c.Name), Conditions: e.conditions[c.Name],
		PollInterval: time.Duration(len(e.options.Pipelines)) * calmFor}
	p := &pipeline{Scope: s, relay: relay.New(s, &e.activity, e.drain), reopening: make(chan struct{}, 1)}
	p.replica = replica.New(p.Scope, replica.Hooks{HasAnswered: p.hasAnswered, TurnChanged: func() { p.observer.Now() },
		Reopen: p.reopen})
	p.training = training.New(p.Scope, p.replica, training.Hooks{MayLearn: p.relay.MayLearn,
		SendLabelLetter: p.relay.SendLabelDeadLetter, IsHolding: p.relay.IsWaitingForModel})
	p.blocks = blocks.New(p.Scope, p.replica, p.training)
	if e.claimLife > 0 {
		p.blocks.ClaimLife = e.claimLife
	}
	p.observer = observe.New(p.Scope, p.replica, p.relay.EarlierPartitions, p.relay.Rebind)
	p.relay.Attach(p.replica, p.training, p.observer.Now)
	defer func() {
		if err != nil {
			p.replica.Close() // a lease that was taken would keep other replicas from training until it expires
		}
	}()
	if err := p.findDomain(ctx); err != nil {
		return nil, err
	}
	if c.Stream != "" {
		if err := p.bind(ctx, e.openState); err != nil {
			return nil, err
		}
	}
	if c.Partitions > 0 {
		if err := p.relay.BindPartitions(ctx, e.stores.Leases); err != nil {
			return nil, err
		}
	}
	p.Series = e.metrics.Series(c.Name, c.Labels != "" && c.Stage.Fixed == nil, p.blocks.IsUsed())
	config := &p.Stage
	config.Logger, config.Clock, config.Busy = p.Log, e.options.Clock, e.activity.IsBusy
	if config.Clock == nil {
		config.Clock = time.Now
	}
	p.Clock = config.Clock
	maxAge := c.MaxAge
	if config.Fixed != nil {
		maxAge = 0
	}
	p.Freshness = health.NewFreshness(maxAge, p.Clock)
	observe := config.Observe
	config.Observe = func(f plugin.Outcome) {
		p.replica.Record(f)
		if observe != nil {
			observe(f)
		}
	}
	if c.Labels != "" && config.Fixed == nil {
		if config.Labels == nil {
			config.Labels = &plugin.Labels{}
		}
		if p.Input != nil {
			if err := p.training.BindLabels(ctx); err != nil {
				return nil, err
			}
		}
	}
	if err := p.replica.LoadSchema(ctx); err != nil {
		return nil, err
	}
	var stored replica.Stored
	if config.Fixed == nil && p.replica.StoresModels() {
		if stored, err = p.replica.Open(ctx, e.stores); err != nil {
			return nil, err
		}
	}
	if err := p.replica.SettleSchema(ctx, stored.Live); err != nil {
		return nil, err
	}
	switch after := p.replica.CountsAfter(); {
	case stored.Live != nil && p.Input != nil:
		p.training.Resume(stored.Live)
	case after > 0:
		p.training.ReadFrom = after + 1
	}
	stage, err := stage.New(*config)
	if err != nil {
		return nil, err
	}
	p.Running = stage
	p.relay.Open(p.progress)
	if err := p.blocks.Open(ctx); err != nil {
		stage.Close()
		return nil, err
	}
	p.Series.Watch(p.status)
	if err := p.replica.KeepPinned(); err != nil {
		stage.Close()
		return nil, err
	}
	if p.training.HasLateLabels() && p.Input != nil {
		if err := p.training.ResumeLabels(ctx); err != nil {
			stage.Close()
			return nil, err
		}
	}
	if l := stage.Live(); l != nil {
		p.replica.WentLive(l, stored.Confirmed)
		p.Log.Info("a model is live", "version", l.Version, "method", l.Model.Method(), "dim", l.Model.Dim(), "epoch",
			l.Epoch)
	}
	return p, nil
}

// calmFor is how much longer each pipeline of a process makes the time between two looks: so many looks a second the
// server has to answer, however many pipelines there are.
const calmFor = 20 * time.Millisecond

// openState opens the state bucket, which the pipelines of the engine share.
func (e *Engine) openState(ctx context.Context, p *pipeline) (err error) {
	if e.state == nil {
		err = p.Permissions.Guard(ctx, p.Permissions.IsServerRequest, func(ctx context.Context) (err error) {
			e.state, err = statestore.Open(ctx, p.JS, p.Models.Replicas)
			return err
		})
		if errors.Is(err, natsx.ErrPermissionDenied) {
			return fmt.Errorf("%w; the user of `embedd setup --apply` creates the bucket %s if it is missing", err,
				statestore.Bucket)
		}
	}
	p.State = e.state
	return err
}

// bind finds the streams. Streams hold the users' data: they are bound, never made.
func (p *pipeline) bind(ctx context.Context, openState func(context.Context, *pipeline) error) error {
	if p.LearnsFromEdges() {
		if err := p.blocks.BindHub(ctx); err != nil {
			return err
		}
		return openState(ctx, p)
	}
	input, err := p.JS.Stream(ctx, p.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return needs.Missing(p.Stream, p.Subject)
	}
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	p.Input, p.Created = input, input.CachedInfo().Created
	if err := openState(ctx, p); err != nil {
		return err
	}
	return p.relay.Bind(ctx)
}

// watchAge keeps the age of the live models current.
func (e *Engine) watchAge(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		for _, p := range e.pipelines() {
			p.replica.RefreshAge()
			p.replica.ReportHub()
			age, _ := p.Freshness.Age()
			p.Series.Set(health.ModelAge, age.Seconds())
			p.relay.Update(time.Now())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
