package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// engineRun is one call of Engine.Run.
type engineRun struct {
	*Engine
	js          jetstream.JetStream
	permissions *natsx.PermissionMonitor
	pulls       *natsx.PullLimit
	receiver    *natsx.Receiver
	connClosed  context.Context // ends when the host closes the connection
}

// openAll opens the pipelines. It returns nil and no error if ctx is done first: nothing has started that could drain.
func (s *engineRun) openAll(ctx context.Context) ([]*pipeline, error) {
	until := time.Now().Add(s.options.Wait)
	if err := s.checkLimits(ctx); err != nil {
		return nil, err
	}
	open := make([]*pipeline, 0, len(s.options.Pipelines))
	for _, c := range s.options.Pipelines {
		p, err := s.open(ctx, c, until)
		if err != nil && ctx.Err() != nil {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("pipeline %s: %w", c.Name, err)
		}
		open = append(open, p)
		s.mu.Lock()
		s.running = slices.Clone(open)
		s.mu.Unlock()
	}
	for _, p := range open {
		if err := p.replica.BindName(ctx); err != nil {
			return nil, fmt.Errorf("pipeline %s: %w", p.Name, err)
		}
	}
	return open, nil
}

// checkLimits returns an error with the fix where the server or the account allows less than the pipelines need. Limits
// that this user may not ask for, or that the server does not report, are not checked.
func (s *engineRun) checkLimits(ctx context.Context) error {
	all := needs.For(needs.Config{Pipelines: s.options.Pipelines, APIPrefix: s.options.APIPrefix})
	if short, err := needs.SubscriptionShortage(ctx, s.options.Conn, all); err == nil && short != "" {
		return errors.New(short)
	}
	s.permissions.Refresh(ctx)
	if !s.permissions.IsKnown() || s.permissions.PublishDenied(natsx.APIPrefix(s.js)+"INFO") != nil {
		return nil
	}
	account, err := s.js.AccountInfo(ctx)
	if err != nil || account.Limits.MaxStreams <= 0 {
		return nil
	}
	missing, err := needs.MissingStreams(ctx, s.js, all)
	if short := needs.StreamShortage(account, missing); err == nil && short != "" {
		return errors.New(short)
	}
	return nil
}

// open opens a pipeline. After a transient error it tries again, until a time or, if that is zero, until ctx is done.
func (s *engineRun) open(ctx context.Context, c Pipeline, until time.Time) (p *pipeline, err error) {
	for attempt := 0; ; attempt++ {
		p, err = natsx.Guarded(ctx, s.permissions, func(ctx context.Context) (*pipeline, error) { return s.openOnce(ctx, c) })
		if err == nil || !s.isTransient(err) || !until.IsZero() && time.Now().After(until) || !natsx.Backoff(ctx, attempt) {
			return p, err
		}
		s.log.Warn("a pipeline cannot be opened yet; trying again", "pipeline", c.Name, "error", err)
	}
}

// isTransient reports whether an error is one of a server that is starting, or of a cluster that elects a leader.
func (s *engineRun) isTransient(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return slices.Contains([]jetstream.ErrorCode{natsx.ErrCodeNoCluster, natsx.ErrCodeNoLeader,
			natsx.ErrCodeNoServers}, api.ErrorCode)
	}
	if errors.Is(err, nats.ErrNoResponders) { // a server without JetStream has none either
		has, _ := s.options.Conn.ConnectedServerJetStream()
		return has
	}
	return errors.Is(err, natsx.ErrNotKnownYet) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// pollPerPipeline is what each pipeline adds to PollInterval: the rate of requests does not depend on their number.
const pollPerPipeline = 20 * time.Millisecond

// openOnce binds the streams of a pipeline, loads what is stored, and starts its stage.
func (s *engineRun) openOnce(ctx context.Context, c Pipeline) (*pipeline, error) {
	p := s.newPipeline(c)
	err := s.bind(ctx, p)
	if err == nil {
		err = s.startStage(ctx, p)
	}
	if err == nil {
		return p, nil
	}
	if p.Running != nil {
		p.Running.Close()
	}
	p.replica.Close() // a lease that was acquired would keep other replicas from training until it expires
	return nil, err
}

// bind finds the streams of a pipeline, opens the state bucket, and creates the consumer.
func (s *engineRun) bind(ctx context.Context, p *pipeline) error {
	if p.Stream == "" {
		return nil
	}
	if err := p.setDomain(ctx); err != nil {
		return err
	}
	if err := p.findInput(ctx); err != nil {
		return err
	}
	if err := s.openState(ctx, p); err != nil || p.LearnsFromEdges() {
		return err
	}
	if err := p.relay.Bind(ctx); err != nil || p.Partitions == 0 {
		return err
	}
	return p.relay.BindPartitions(ctx, s.stores.Leases)
}

// startStage loads what is stored of a pipeline, and starts its stage with it.
func (s *engineRun) startStage(ctx context.Context, p *pipeline) error {
	if err := p.configureStage(ctx, s.activity.Trainer()); err != nil {
		return err
	}
	err := p.loadStored(ctx, s.stores)
	if err != nil {
		return err
	}
	if p.Running, err = stage.New(p.Stage); err != nil {
		return err
	}
	if p.Input != nil { // they are not read again, and each of a thousand pipelines of a stream would keep all of them
		p.Input.CachedInfo().Config.Subjects = nil
	}
	if err := p.blocks.Open(ctx); err != nil {
		return err
	}
	p.Series.Watch(p.status)
	if err := p.replica.Started(); err != nil {
		return err
	}
	if p.training.HasLateLabels() && p.Input != nil {
		if err := p.training.ResumeLabels(ctx); err != nil {
			return err
		}
	}
	p.replica.ApplyConfiguration(ctx)
	return nil
}

// openState opens the state bucket, which the pipelines of the engine share.
func (s *engineRun) openState(ctx context.Context, p *pipeline) (err error) {
	if s.state == nil {
		s.state, err = natsx.Guarded(ctx, s.permissions, func(ctx context.Context) (*natsx.Bucket, error) {
			return statestore.Open(ctx, s.js, p.Models.Replicas)
		})
		if err == nil {
			s.state.AnnounceChanges()
		}
		if errors.Is(err, natsx.ErrPermissionDenied) {
			return fmt.Errorf("%w; the user of `embedd setup --apply` creates the bucket %s if it is missing", err,
				statestore.Bucket)
		}
	}
	p.State = s.state
	return err
}

// serveAll runs the pipelines until ctx is done, or one of them fails.
func (s *engineRun) serveAll(ctx context.Context, open []*pipeline) error {
	server := s.serverMonitor(open)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range open {
		p.startService(ctx)
	}
	if s.options.Reload != nil {
		requests, pipelines := s.subscribeReloads()
		wg.Go(func() { s.answerReloads(ctx, requests, pipelines) })
	}
	if s.options.Opened != nil {
		s.flush("the server may not know yet which requests are answered")
		s.options.Opened()
	}
	errs := make([]error, len(open))
	for i := range open {
		wg.Go(func() {
			if errs[i] = s.serve(ctx, i); errs[i] != nil {
				cancel() // a pipeline that cannot continue ends the process, so that an operator sees it
			}
		})
	}
	wg.Go(func() { s.updateMetrics(ctx) })
	if server != nil {
		wg.Go(func() { server.Run(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// serve runs one pipeline until ctx is done, and opens it again whenever run returns errReopen.
func (s *engineRun) serve(ctx context.Context, i int) error {
	for p := s.pipelines()[i]; ; {
		err := p.run(ctx, s.connClosed)
		if errors.Is(err, errReopen) {
			p.close()
			var next *pipeline
			if next, err = s.reopen(ctx, i, p); err == nil {
				p = next
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

// serverMonitor monitors the server for the pipelines that read a stream; nil if none does.
func (s *engineRun) serverMonitor(open []*pipeline) *health.ServerMonitor {
	m := &health.ServerMonitor{Conn: s.options.Conn, JS: s.js, Log: s.log, Permissions: s.permissions,
		Timeout: s.serverTimeout, Leave: s.options.Leave, Received: s.options.Received}
	for _, p := range open {
		if p.Input == nil {
			continue
		}
		if r := p.replica; r.Models != nil && r.Leases != nil { // its models are in JetStream of this server
			m.Confirmed = r.Models.ConfirmedAt
		}
		m.Subject = p.OutputPattern()
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
