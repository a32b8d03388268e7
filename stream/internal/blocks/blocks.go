// Package blocks shares the cost of training among the replicas of a pipeline. Any replica makes the summary of a block
// of the input that has none yet, and the trainer learns from the summaries in the order of the blocks. Block n is the
// messages n*B+1 to (n+1)*B of the input stream, of whatever subjects, where B is training.block.
//
// At an edge whose hub is the trainer, a replica sends the summaries to the hub instead, in the same order. The hub has
// no rows: it learns from the summaries in the order in which its own stream has stored them.
package blocks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/internal/training"
)

// Blocks makes the block summaries of one pipeline, and learns from them or sends them to the hub.
type Blocks struct {
	*scope.Scope
	// ClaimLife is how long a claim stays unchanged before another replica takes the block.
	ClaimLife time.Duration

	replica  *replica.Replica
	training *training.Path
	bucket   *summaries.Bucket   // nil until it is opened
	receiver *summaries.Receiver // nil unless this is the hub of edges
	waiting  atomic.Value        // a string, see Waiting
	log      ratelog.Limiter
}

// New returns the part of a pipeline that shares training; Open opens it.
func New(s *scope.Scope, r *replica.Replica, t *training.Path) *Blocks {
	return &Blocks{Scope: s, ClaimLife: 20 * time.Second, replica: r, training: t}
}

// IsUsed reports whether this process learns from summaries, or makes them. At an edge that sends none it does not: the
// rows are sent to the hub.
func (b *Blocks) IsUsed() bool {
	return b.Stage.Training.Block > 0 && b.Stage.Fixed == nil && (!b.ModelsFromHub() || b.SendsSummaries())
}

// BindHub opens the stream of the edges' summaries, which is the input of a hub, and creates it where it is missing.
func (b *Blocks) BindHub(ctx context.Context) (err error) {
	if b.receiver, b.Input, err = summaries.OpenReceiver(ctx, b.JS, b.Edges, needs.SummaryBytes(&b.Pipeline),
		b.Models.Replicas); err != nil {
		return err
	}
	b.Created = b.Input.CachedInfo().Created
	if text := needs.SummaryLimit(&b.Pipeline, &b.Input.CachedInfo().Config); text != "" {
		b.Log.Warn(text)
	}
	return nil
}

// Open opens the bucket of the summaries, and creates it where it is missing. An edge transforms without it, so there
// Run opens it.
func (b *Blocks) Open(ctx context.Context) (err error) {
	if !b.IsUsed() || b.SendsSummaries() {
		return nil
	}
	if b.Input == nil || b.replica.Leases == nil {
		return errors.New("training.block shares learning through JetStream: it needs input.stream and " +
			"model.store auto; leave it out")
	}
	if err := b.checkRetention(); err != nil {
		return err
	}
	b.bucket, err = summaries.Open(ctx, b.JS, b.Models.Replicas)
	return err
}

// checkRetention returns an error if blocks cannot be read in addition to the hot path.
func (b *Blocks) checkRetention() error {
	if b.Input.CachedInfo().Config.Retention != jetstream.LimitsPolicy {
		return fmt.Errorf("training.block: stream %s keeps a message for one consumer, and blocks need another; leave "+
			"it out, or give the stream limits retention",
			b.Stream)
	}
	return nil
}

// Run makes summaries, and learns from them or sends them, until ctx is done.
func (b *Blocks) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	switch p := (&producer{Blocks: b}); {
	case b.SendsSummaries():
		wg.Go(func() {
			b.countMessages(ctx, func(ctx context.Context) { b.training.Read(ctx, b.training.Learn) })
		})
		b.repeat(ctx, (&forwarder{reader: reader{Blocks: b}, producer: p, counter: edgeCounter{Blocks: b}}).step)
		return
	case !b.LearnsFromEdges():
		wg.Go(func() { b.repeat(ctx, p.step) })
	}
	switch {
	case !b.training.Learns():
	case b.LearnsFromEdges():
		b.training.RunInTurn(ctx, newHubLearner(b))
	default:
		b.countMessages(ctx, b.training.Run)
		b.training.RunInTurn(ctx, newLearner(b))
	}
}

// minPoll is the minimum time between two polls for a block or its summary.
const minPoll = 300 * time.Millisecond

// repeat runs steps until ctx is done. It waits after a step that had nothing to do, and longer after each failure.
func (b *Blocks) repeat(ctx context.Context, step func(context.Context) (progressed bool, err error)) {
	for failures := 0; ctx.Err() == nil; {
		progressed, err := step(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
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

// Waiting is a sentence on what learning from summaries waits for, "" when it waits for nothing.
func (b *Blocks) Waiting() string {
	text, _ := b.waiting.Load().(string)
	return text
}

// blockRange is which blocks of the input stream are complete: from first to before end.
type blockRange struct {
	created    time.Time // of the stream
	first, end uint64
}

// complete asks the server which blocks are complete.
func (b *Blocks) complete(ctx context.Context) (blockRange, error) {
	input, err := b.RecentStream(ctx, b.Stream)
	if err != nil {
		return blockRange{}, err
	}
	info, size := input.CachedInfo(), b.blockSize()
	return blockRange{created: info.Created, first: (max(info.State.FirstSeq, 1) + size - 2) / size,
		end: info.State.LastSeq / size}, nil
}

// blockSize is the number of messages of a block.
func (b *Blocks) blockSize() uint64 { return uint64(b.Stage.Training.Block) }

// block is block n of a stream with a creation time.
func (b *Blocks) block(created time.Time, n uint64) stage.Block {
	return stage.Block{Created: created, First: n*b.blockSize() + 1, Last: (n + 1) * b.blockSize()}
}

// blockOf returns the number of the block that contains a sequence; sequence 0 counts as 1.
func (b *Blocks) blockOf(seq uint64) uint64 { return (max(seq, 1) - 1) / b.blockSize() }

// collection has the summaries of a stream with a creation time, made with the settings of this process.
func (b *Blocks) collection(created time.Time) *summaries.Collection {
	return b.bucket.Collection(b.Name, b.Running.Settings(), created)
}
