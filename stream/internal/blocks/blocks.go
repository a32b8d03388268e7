// Package blocks shares the cost of training among the replicas of a pipeline. Any replica makes the summary of a block
// of the input that has none yet, and the trainer learns from the summaries in the order of the blocks. Block n is the
// messages n*B+1 to (n+1)*B of the input stream, of whatever subjects, where B is training.block.
//
// At an edge whose hub is the trainer, a replica sends the summaries to the hub instead, in the same order. The hub has
// no rows: it learns from the summaries in the order in which its own stream has stored them.
//
// producer makes summaries. learner and forwarder read them in the order of the blocks, with a reader each, to learn
// from them and to send them. hubLearner reads what edges sent.
package blocks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/internal/training"
)

// Blocks makes the block summaries of one pipeline, and learns from them or sends them to the hub.
type Blocks struct {
	*scope.Scope
	// ClaimTTL is how long a claim stays unchanged before another replica takes the block.
	ClaimTTL time.Duration

	replica  *replica.Replica
	training *training.Path
	bucket   *summaries.Bucket   // nil until it is opened
	receiver *summaries.Receiver // nil unless this is the hub of edges
	waiting  atomic.Value        // a string, see Waiting
	log      ratelog.Limiter
	limitLog ratelog.Limiter
}

// New returns the part of a pipeline that shares training; Open opens it.
func New(s *scope.Scope, r *replica.Replica, t *training.Path) *Blocks {
	return &Blocks{Scope: s, ClaimTTL: 20 * time.Second, replica: r, training: t}
}

// BindHub opens the stream of the edges' summaries, which is the input of a hub, and creates it where it is missing.
func (b *Blocks) BindHub(ctx context.Context) (err error) {
	if b.receiver, err = summaries.OpenReceiver(ctx, b.JS, b.Name, b.Edges, needs.SummaryBytes(&b.Pipeline),
		b.Models.Replicas); err != nil {
		return err
	}
	b.Input, b.Created = b.receiver.Stream(), b.receiver.Info().Created
	b.warnOfLimit(b.receiver.Info())
	return nil
}

// warnOfLimit logs that a stream of summaries does not have the configured size limit.
func (b *Blocks) warnOfLimit(info *jetstream.StreamInfo) {
	if text := needs.SummaryLimit(&b.Pipeline, &info.Config); text != "" {
		b.limitLog.Warn(b.Log, text)
	}
}

// Open opens the bucket of the summaries, and creates it where it is missing. An edge transforms without it, so there
// Run opens it.
func (b *Blocks) Open(ctx context.Context) error {
	if !needs.HasSummaries(&b.Pipeline) || b.SendsSummaries() {
		return nil
	}
	if b.Input == nil || b.replica.Leases == nil {
		return errors.New("training.block shares learning through JetStream: it needs input.stream and " +
			"model.store auto; leave it out")
	}
	return b.openBucket(ctx)
}

func (b *Blocks) openBucket(ctx context.Context) (err error) {
	if !b.HasLimitsRetention() {
		return fmt.Errorf("training.block: stream %s keeps a message for one consumer, and blocks need another; leave "+
			"it out, or give the stream limits retention", b.Stream)
	}
	b.bucket, err = summaries.Open(ctx, b.JS, b.Models.Replicas)
	return err
}

// Run makes summaries, and learns from them or sends them, until ctx is done.
func (b *Blocks) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	p := &producer{input: input{Blocks: b}}
	switch {
	case b.SendsSummaries():
		wg.Go(func() {
			b.countMessages(ctx, func(ctx context.Context) { b.training.Read(ctx, b.training.Learn) })
		})
		f := newForwarder(p)
		b.repeat(ctx, f.step, f.reopen)
		return
	case !b.LearnsFromEdges():
		wg.Go(func() { b.repeat(ctx, p.step, b.createBucket) })
	}
	switch {
	case !b.training.Learns():
	case b.LearnsFromEdges():
		b.training.RunReader(ctx, newHubLearner(b))
	default:
		b.countMessages(ctx, b.training.Run)
		b.training.RunReader(ctx, newLearner(b))
	}
}

// countMessages reads the input until its schema is known: the stage counts the messages and keeps none. The blocks are
// then learned from the first on.
func (b *Blocks) countMessages(ctx context.Context, read func(context.Context)) {
	if b.Running.Contract() != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-b.Running.ContractFixed():
			stop()
		case <-ctx.Done():
		}
	}()
	read(ctx)
}

// minPoll is the minimum time between two polls for a block or its summary.
const minPoll = 300 * time.Millisecond

// repeat runs steps until ctx is done. It waits after a step that had nothing to do, and longer after each failure.
//
// When a stream is missing, reopen creates it again, but not at once: a server that is still deleting it deletes the
// files of the new one too (nats-server 2.15.2), which then stores nothing.
func (b *Blocks) repeat(ctx context.Context, step func(context.Context) (progressed bool, err error),
	reopen func(context.Context) error) {
	var failing time.Time // when the first of the failures was
	for failures := 0; ctx.Err() == nil; {
		progressed, err := step(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			if failures == 0 {
				failing = time.Now()
			}
			isMissing := natsx.IsNotFound(err) || errors.Is(err, nats.ErrNoResponders)
			if isMissing && time.Since(failing) >= training.SettleTime {
				err = errors.Join(err, reopen(ctx))
			}
			b.log.Warn(b.Log, "block summaries could not be made or read; trying again", "error", err)
			natsx.Backoff(ctx, failures)
			failures++
			continue
		case !progressed:
			natsx.Sleep(ctx, max(minPoll, b.PollInterval))
		}
		failures = 0
	}
}

// createBucket creates the bucket of the summaries where it is missing.
func (b *Blocks) createBucket(ctx context.Context) error {
	_, err := summaries.Open(ctx, b.JS, b.Models.Replicas)
	return err
}

// Waiting is a sentence on what learning from summaries waits for, "" when it waits for nothing.
func (b *Blocks) Waiting() string {
	text, _ := b.waiting.Load().(string)
	return text
}
