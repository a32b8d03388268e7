package stream

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/embedd/embedd/stream/internal/blocks"
	"github.com/embedd/embedd/stream/internal/observe"
	"github.com/embedd/embedd/stream/internal/relay"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/training"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/summaries"
)

// pipeline is a running pipeline: it composes the parts of its hot path, its learning path and their health.
type pipeline struct {
	*scope.Scope
	relay     *relay.Relay
	replica   *replica.Replica
	training  *training.Path
	observer  *observe.Observer
	blocks    *blocks.Blocks
	draining  atomic.Bool
	reopening chan struct{} // signalled by reopen
}

// hasAnswered reports whether a pipeline of this name has answered an input, or its edges have, whatever became of its
// models.
func (p *pipeline) hasAnswered(ctx context.Context) (bool, error) {
	switch {
	case p.Input == nil:
		return false, nil
	case p.LearnsFromEdges(): // the edges answer with what it learns
		used, err := summaries.HasLedger(ctx, p.JS, p.Name)
		return used, natsx.ExplainAPIError(err)
	}
	return p.relay.HasAnswered(ctx)
}

// errReopen is returned by run when what is stored has changed so that the pipeline must be opened again.
var errReopen = errors.New("the pipeline has to be opened again")

// reopen ends run with errReopen, after it has drained.
func (p *pipeline) reopen() {
	select {
	case p.reopening <- struct{}{}:
	default:
	}
}

// run serves until ctx is done, and then drains: what was pulled is answered and acknowledged, unless severed is done
// because the connection was closed.
func (p *pipeline) run(ctx, severed context.Context) (err error) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { p.draining.Store(true) })()
	wg.Go(func() {
		select {
		case <-p.reopening:
			cancel(errReopen)
		case <-ctx.Done():
		}
	})
	defer func() {
		if err == nil && errors.Is(context.Cause(ctx), errReopen) {
			err = errReopen
		}
	}()
	wg.Go(func() { p.replica.Run(ctx) })
	wg.Go(func() { p.relay.LogDeadLetters(ctx) })
	if s, err := p.startService(ctx); err != nil {
		p.Log.Warn("the pipeline answers no requests", "error", err)
	} else {
		defer s.stop()
	}
	if p.Input == nil {
		if p.Running.Learns() {
			p.training.OpenFeed()
			wg.Go(func() { p.training.Run(ctx) })
		}
		return p.relay.ServeCore(ctx, severed)
	}
	if !p.LearnsFromEdges() {
		wg.Go(func() { p.observer.Run(ctx) })
	}
	if p.training.HasLateLabels() {
		wg.Go(func() { p.training.RunLabels(ctx) })
	}
	switch {
	case p.blocks.IsUsed():
		wg.Go(func() { p.blocks.Run(ctx) })
	case p.training.Learns():
		p.training.OpenFeed()
		wg.Go(func() { p.training.Run(ctx) })
	}
	if p.Role == RoleTrain {
		<-ctx.Done()
		return nil
	}
	return p.relay.Serve(ctx, severed)
}

// close ends learning, and then releases the trainer's lease: nothing is written any more.
func (p *pipeline) close() {
	p.Running.Close()
	p.replica.Close()
}

// progress is the sentence that readiness shows while no model is live.
func (p *pipeline) progress() string {
	text := p.training.Progress()
	for _, more := range []string{p.blocks.Waiting(), p.replica.Event(), p.replica.TrainerText()} {
		if more != "" {
			text += "; " + more
		}
	}
	return text
}

// findDomain sets the JetStream domain of a leaf node whose models come from a hub.
func (p *pipeline) findDomain(ctx context.Context) error {
	if !p.ModelsFromHub() {
		return nil
	}
	isInfoRequest := func(one natsx.Permission) bool {
		return p.Permissions.IsServerRequest(one) && strings.HasSuffix(one.Subject, ".API.INFO")
	}
	return p.Permissions.Guard(ctx, isInfoRequest, func(ctx context.Context) error {
		account, err := p.JS.AccountInfo(ctx)
		if err != nil {
			return natsx.ExplainAPIError(err)
		}
		p.Domain = account.Domain
		return nil
	})
}
