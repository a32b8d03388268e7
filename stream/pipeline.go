package stream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/bytequeue"
	"github.com/embedd/embedd/stream/internal/observe"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/training"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/lease"
	"github.com/embedd/embedd/stream/summaries"
)

// pipeline is a pipeline that runs.
type pipeline struct {
	*scope.Scope
	letterLog *health.LetterLog
	replica   *replica.Replica
	training  *training.Path
	summaries *summaries.Bucket   // nil: this pipeline shares none
	arrived   *summaries.Receiver // at the hub of edges; else nil
	seats     *lease.Bucket       // of the partitions; nil: there are none
	earlier   []needs.Partition   // of other numbers, that the stream had before
	held      atomic.Int64        // how many partitions this process holds

	names struct { // of the model that answered last, for who answers
		live  *plugin.Live
		pairs []wire.Pair
	}
	whole        *lane                  // the input, or of one with partitions what came before it had any
	tail         *tail                  // nil on core NATS
	awaited      atomic.Pointer[string] // what learning from summaries waited for last
	limits       limits
	labelLetters *tail // of the dead letters of labels; nil when there are none
	parked       parked
	asking       [2]chan struct{} // held by the partition that asks whether they may begin, and by one of an earlier number
	over         sync.Map         // the partitions of before that have nothing left
	halt         health.Halt
	gate         gate

	drain     time.Duration
	severed   context.Context // it ends when the host closes the connection
	claimLife time.Duration
	told      struct{ lost, consumer, before, summing ratelog.Limiter }
	observer  *observe.Observer
	waiting   atomic.Pointer[bytequeue.Queue[*input]] // on core NATS, what is not answered
	pressure  *pressure                               // of the engine
	busy      atomic.Int64                            // when an input was last answered, in nanoseconds
	draining  atomic.Bool
	reopening chan struct{} // signalled by reopen
	spare     spare
}

// limits are what the servers accept, beside the connection's own payload limit.
type limits struct{ out, dead atomic.Int64 } // bytes of one stored message; 0: no limit of the stream's own

// errReopen is returned by run when what is stored has changed so that the pipeline must be opened again.
var errReopen = errors.New("the pipeline has to be opened again")

// reopen ends run with errReopen, after it has drained.
func (p *pipeline) reopen() { wake(p.reopening) }

// run serves until ctx is done, then drains: what was pulled is answered and acknowledged.
func (p *pipeline) run(ctx context.Context) (err error) {
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
	wg.Go(func() { p.letterLog.Run(ctx, time.Minute) })
	if s, err := p.startService(ctx); err != nil {
		p.Log.Warn("the pipeline answers no requests", "error", err)
	} else {
		defer s.stop()
	}
	if p.Input == nil {
		return p.runCore(ctx, &wg)
	}
	if p.arrived == nil {
		wg.Go(func() { p.observer.Run(ctx) })
	}
	if p.training.HasLateLabels() {
		wg.Go(func() { p.training.RunLabels(ctx) })
	}
	switch {
	case !p.shares() || p.arrived != nil:
	case p.SendsSummaries():
		wg.Go(func() { newSender(p).run(ctx) })
	default:
		wg.Go(func() { p.sumUp(ctx) })
	}
	switch {
	case !p.training.Learns():
	case p.shares():
		wg.Go(func() { p.learnSummaries(ctx) })
	default:
		p.training.OpenFeed()
		wg.Go(func() { p.training.Run(ctx) })
	}
	if p.Role == RoleTrain {
		<-ctx.Done()
		return nil
	}
	return p.serve(ctx)
}

// close ends learning, and then releases the trainer's lease: nothing is written any more.
func (p *pipeline) close() {
	p.Running.Close()
	p.replica.Close()
}

// progress is the sentence that readiness shows while no model is live.
func (p *pipeline) progress() string {
	text := p.training.Progress()
	if awaited := p.awaited.Load(); awaited != nil {
		text += "; " + *awaited
	}
	for _, more := range []string{p.replica.Event(), p.replica.TrainerText()} {
		if more != "" {
			text += "; " + more
		}
	}
	return text
}
