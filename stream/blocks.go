package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/stream/summaries"
)

// The replicas of a pipeline share what learning costs: whoever has time sums up a block of the input (summing.go),
// and who learns reads the summaries in the order of the blocks (merging.go). Block n is the messages n*B+1 to
// (n+1)*B of the stream, whoever's they are.

// shares tells whether the pipeline is learned from summaries, and here. At an edge that sends none nothing is summed
// up: the rows come to the hub.
func (p *pipeline) shares() bool {
	return p.Stage.Training.Block > 0 && p.Stage.Fixed == nil && (!p.ModelsFromHub() || p.SendsSummaries())
}

// openSummaries binds the bucket of the summaries, or makes it. At an edge that is done beside the answers
// (sending.go).
func (p *pipeline) openSummaries(ctx context.Context) (err error) {
	if p.SendsSummaries() {
		return nil
	}
	if p.Input == nil || p.replica.Leases == nil {
		return errors.New("training.block shares learning through JetStream: it needs input.stream, model.store auto, and " +
			"a server from 2.11 on; leave it out")
	}
	if err := p.limited(); err != nil {
		return err
	}
	p.summaries, err = summaries.Open(ctx, p.JS, p.Models.Replicas)
	return err
}

// limited tells whether blocks can be read beside who answers.
func (p *pipeline) limited() error {
	if p.Input.CachedInfo().Config.Retention != jetstream.LimitsPolicy {
		return fmt.Errorf("training.block: stream %s keeps a message for one reader, and blocks are read beside it; leave "+
			"it out, or give the stream limits retention",
			p.Stream)
	}
	return nil
}

// stretch is the input stream as it stands: how much of it is whole blocks.
type stretch struct {
	created     time.Time
	first, last uint64 // blocks that are whole: from first to before last
}

// stretch asks how the input stands.
func (p *pipeline) stretch(ctx context.Context) (stretch, error) {
	input, err := p.Streams.Stream(ctx, p.Stream, func(ctx context.Context) (jetstream.Stream, error) {
		return p.JS.Stream(ctx, p.Stream)
	})
	if err != nil {
		return stretch{}, err
	}
	info, of := input.CachedInfo(), uint64(p.Stage.Training.Block)
	return stretch{created: info.Created, first: (max(info.State.FirstSeq, 1) + of - 2) / of,
		last: info.State.LastSeq / of}, nil
}

// block is block n of a stream that was made at a time.
func (p *pipeline) block(created time.Time, n uint64) stage.Block {
	of := uint64(p.Stage.Training.Block)
	return stage.Block{Created: created, First: n*of + 1, Last: (n + 1) * of}
}

// blockOf is the block of a message.
func (p *pipeline) blockOf(seq uint64) uint64 {
	return (max(seq, 1) - 1) / uint64(p.Stage.Training.Block)
}

func (p *pipeline) shelf(created time.Time) *summaries.Collection {
	return p.summaries.Collection(p.Name, p.Running.Settings(), created)
}

// calmBlocks is how long a replica waits before it looks again for a block, or for its summary.
const calmBlocks = 300 * time.Millisecond

func (p *pipeline) waitForBlocks(ctx context.Context) {
	select {
	case <-time.After(max(calmBlocks, p.PollInterval)):
	case <-ctx.Done():
	}
}

// learnSummaries learns from summaries while it is this replica's turn.
func (p *pipeline) learnSummaries(ctx context.Context) {
	if p.arrived != nil {
		p.training.RunInTurn(ctx, newGatherer(p))
		return
	}
	p.training.RunInTurn(ctx, newMerger(p))
}
