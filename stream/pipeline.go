package stream

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/blocks"
	"github.com/embedd/embedd/stream/internal/deliveries"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/observe"
	"github.com/embedd/embedd/stream/internal/operations"
	"github.com/embedd/embedd/stream/internal/relay"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/service"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/internal/training"
)

// pipeline is a running pipeline. It composes the hot path, the training path and the election of the trainer.
type pipeline struct {
	*scope.Scope
	relay      *relay.Relay
	replica    *replica.Replica
	training   *training.Path
	observer   *observe.Observer
	blocks     *blocks.Blocks
	watch      *deliveries.Watch
	isDraining atomic.Bool
	service    atomic.Pointer[service.Service] // nil unless it runs
	operations *operations.Pipeline            // what can be requested of it
	configured Pipeline                        // as the host gave it
	next       atomic.Pointer[replacement]     // the configuration to open it with again; nil: the same one
	generation *atomic.Int64                   // of the engine's configuration
	reopening  context.Context                 // done when it is to be opened again: run drains and returns errReopen
	reopen     func()                          // ends reopening
}

// newPipeline composes a pipeline. It opens nothing.
func (s *engineRun) newPipeline(c Pipeline) *pipeline {
	shared := &scope.Scope{Pipeline: c, Conn: s.options.Conn, JS: s.js, Permissions: s.permissions, Streams: s.streams,
		Pulls: s.pulls, Receiver: s.receiver, Instance: nats.NewInbox(), Log: s.log.With("pipeline", c.Name),
		Conditions: s.conditions[c.Name], Clock: s.options.Clock,
		Series:       s.metrics.Series(c.Name, c.Labels != "" && c.Stage.Fixed == nil, needs.HasSummaries(&c)),
		PollInterval: time.Duration(len(s.options.Pipelines)) * pollPerPipeline}
	shared.Conditions.Reopen()
	shared.DeadShare = &health.DeadShare{Pipeline: c.Name, Conditions: shared.Conditions, Log: shared.Log}
	maxAge := c.MaxAge
	if c.Stage.Fixed != nil {
		maxAge = 0
	}
	shared.Freshness = health.NewFreshness(maxAge, shared.Clock)
	if provider := s.options.TracerProvider; provider != nil {
		shared.Tracer = provider.Tracer("github.com/embedd/embedd/stream")
	}
	p := &pipeline{Scope: shared, relay: relay.New(shared, &s.activity, s.drainTimeout), configured: c,
		generation: &s.generation}
	p.reopening, p.reopen = context.WithCancel(context.Background())
	p.replica = replica.New(shared, replica.Hooks{HasAnswered: p.hasAnswered, Reopen: p.reopen,
		ElectionChanged: p.electionChanged})
	p.training = training.New(shared, p.replica, training.Hooks{MayLearn: p.relay.MayLearn,
		SendLabelLetter: p.relay.SendLabelDeadLetter, IsHolding: p.relay.IsWaitingForModel})
	p.blocks = blocks.New(shared, p.replica, p.training)
	p.blocks.ClaimTTL = cmp.Or(s.claimTTL, p.blocks.ClaimTTL)
	p.watch = &deliveries.Watch{Scope: shared, Interval: s.watchInterval}
	p.observer = observe.New(shared, p.replica, p.relay)
	p.relay.Attach(p.replica, p.training, p.observer.Now, p.progress)
	p.operations = operations.New(operations.Pipeline{Scope: shared, Relay: p.relay, Replica: p.replica, Status: p.status,
		Progress: p.progress, History: s.histories[c.Name], Service: p.serviceID})
	return p
}

// electionChanged informs the parts that depend on which replica is the trainer.
func (p *pipeline) electionChanged() {
	p.observer.Now()
	p.training.ElectionChanged()
}

// configureStage completes the configuration of the stage with what the pipeline gives it.
func (p *pipeline) configureStage(ctx context.Context, isBusy func() bool) error {
	config := &p.Stage
	config.Logger, config.Clock, config.Busy = p.Log, p.Clock, isBusy
	observe := config.Observe
	config.Observe = func(f plugin.Outcome) {
		p.replica.Record(f)
		if observe != nil {
			observe(f)
		}
	}
	if p.Labels == "" || config.Fixed != nil {
		return nil
	}
	if config.Labels == nil {
		config.Labels = &plugin.Labels{}
	}
	if p.Input == nil {
		return nil
	}
	return p.training.BindLabels(ctx)
}

// loadStored loads the schema and the live model, and sets where training starts.
func (p *pipeline) loadStored(ctx context.Context, stores *replica.Stores) error {
	if err := p.replica.LoadSchema(ctx); err != nil {
		return err
	}
	var live *plugin.Live
	if p.Stage.Fixed == nil && p.replica.StoresModels() {
		var err error
		if live, err = p.replica.Open(ctx, stores); err != nil {
			return err
		}
	}
	if err := p.replica.CompleteSchema(ctx, live); err != nil {
		return err
	}
	if live != nil && p.Input != nil {
		p.training.Resume(live)
	} else if after := p.replica.CountsAfter(); after > 0 {
		p.training.ReadFrom = after + 1
	}
	return nil
}

// findInput finds the input stream. It creates none, because streams have the users' data: the error is
// ErrStreamMissing. The input of a pipeline that learns from edges is the stream of their summaries, which it creates.
func (p *pipeline) findInput(ctx context.Context) error {
	if p.LearnsFromEdges() {
		return p.blocks.BindHub(ctx)
	}
	input, err := p.JS.Stream(ctx, p.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return needs.Missing(p.Stream, p.Subject)
	}
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	p.Input, p.Created = input, input.CachedInfo().Created
	return nil
}

// hasAnswered reports whether a pipeline of this name, or one of its edges, has ever answered an input.
func (p *pipeline) hasAnswered(ctx context.Context) (bool, error) {
	switch {
	case p.Input == nil:
		return false, nil
	case p.LearnsFromEdges(): // the edges answer with its models
		used, err := summaries.HasLedger(ctx, p.JS, p.Name)
		return used, natsx.ExplainAPIError(err)
	}
	return p.relay.HasAnswered(ctx)
}

// serviceID is the identity of the pipeline's service; "" while there is none.
func (p *pipeline) serviceID() string {
	if s := p.service.Load(); s != nil {
		return s.ID()
	}
	return ""
}

// startService answers requests over NATS until run ends. If it cannot, the pipeline still answers inputs.
func (p *pipeline) startService(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(p.reopening, cancel)
	s, err := service.Start(ctx, p.operations)
	if err != nil {
		p.Log.Warn("the service of the pipeline cannot start; requests over NATS are not answered", "error", err)
		return
	}
	p.service.Store(s)
}

// errReopen is returned by run when the pipeline is to be opened again: its stored schema or its configuration changes.
var errReopen = errors.New("the pipeline has to be opened again")

// run serves until ctx is done, or the pipeline is to be opened again: then the error is errReopen.
func (p *pipeline) run(ctx, connClosed context.Context) error {
	err := p.serve(ctx, connClosed)
	if ctx.Err() != nil || p.reopening.Err() == nil {
		return err
	}
	if errors.Is(err, ErrDrain) && p.Input != nil { // what is not answered is redelivered
		p.Log.Warn("the pipeline is opened again before it has drained", "cause", err)
		err = nil
	}
	return cmp.Or(err, errReopen)
}

// serve serves until ctx or reopening is done, and then answers and acknowledges what was pulled, unless the connection
// is closed.
func (p *pipeline) serve(ctx, connClosed context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { p.isDraining.Store(true) })()
	defer context.AfterFunc(p.reopening, cancel)()
	defer p.replica.Start(ctx, &wg)()
	if s := p.service.Load(); s != nil {
		defer s.Stop()
	}
	if p.Input == nil {
		if p.training.Learns() {
			p.training.OpenFeed()
			wg.Go(func() { p.training.Run(ctx) })
		}
		return p.relay.ServeCore(ctx, connClosed)
	}
	followed := p.replica.FollowedKeys()
	if !p.LearnsFromEdges() {
		defer p.observer.Start(ctx)()
		followed = append(followed, p.relay.IdentityKey())
	}
	if len(followed) > 0 {
		defer p.State.Follow(ctx, p.Name, followed)()
	}
	if p.training.HasLateLabels() {
		wg.Go(func() { p.training.RunLabels(ctx) })
	}
	switch {
	case needs.HasSummaries(&p.Pipeline):
		wg.Go(func() { p.blocks.Run(ctx) })
	case p.training.Learns():
		p.training.OpenFeed()
		wg.Go(func() { p.training.Run(ctx) })
	}
	defer p.watch.Start(ctx)()
	if p.Role == RoleTrain {
		<-ctx.Done()
		return nil
	}
	return p.relay.Serve(ctx, connClosed)
}

// close ends training and then releases the trainer's lease, after which nothing is written.
func (p *pipeline) close() {
	p.Running.Close()
	p.replica.Close()
}

// progress describes how far the first model is, for /readyz and the status.
func (p *pipeline) progress() string {
	text := p.training.Progress()
	for _, more := range []string{p.blocks.Waiting(), p.replica.Event(), p.replica.TrainerText()} {
		if more != "" {
			text += "; " + more
		}
	}
	return text
}

// setDomain sets the JetStream domain of a leaf node whose models come from a hub.
func (p *pipeline) setDomain(ctx context.Context) error {
	if !p.ModelsFromHub() {
		return nil
	}
	account, err := p.JS.AccountInfo(ctx)
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	p.Domain = account.Domain
	return nil
}
