package blocks

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/internal/training"
)

const (
	// maxAhead is how many blocks ahead of the next one to learn are summarised. It bounds the stored summaries.
	maxAhead = 64
	// maxAttempts is how many replicas may crash while they sum a block before it is left out.
	maxAttempts = 3
)

// errGone is the error for a block of which messages have left the stream.
var errGone = errors.New("messages of the block have left the stream")

// producer makes the summaries of blocks.
type producer struct {
	input
	claims *summaries.Claims
	stored map[uint64]bool // blocks whose summary was seen, from the next one to learn on

	// Blocks before replicated are at every server of the stream; those before observed were stored at observedAt.
	replicated, observed uint64
	observedAt           time.Time
}

// step makes the summary of the first block that has none and that no other replica has claimed.
func (p *producer) step(ctx context.Context) (isMade bool, err error) {
	isNewStream, err := p.refresh(ctx)
	if err != nil {
		return false, err
	}
	if isNewStream {
		p.claims, p.stored = p.collection.Claims(p.Instance, p.ClaimTTL), map[uint64]bool{}
		p.replicated, p.observed = 0, 0
	}
	progress, err := p.collection.Progress(ctx)
	if err != nil || progress == nil || !p.Running.Contract().Has(progress.Features) { // of a schema before this one
		return false, err
	}
	maps.DeleteFunc(p.stored, func(n uint64, _ bool) bool { return n < progress.Next })
	p.claims.Forget(progress.Next)
	end := min(p.replicatedEnd(p.end), progress.Next+maxAhead)
	for n := max(progress.Next, p.first); n < end; n++ {
		if p.stored[n] && n != progress.Next { // that one may have been deleted, because it could not be used
			continue
		}
		if p.stored[n], err = p.collection.Has(ctx, n); err != nil {
			return false, err
		}
		if p.stored[n] {
			continue
		}
		isClaimed, err := p.claims.Work(ctx, n, func(attempts int) error {
			return p.compute(ctx, n, progress.Features, attempts)
		})
		if errors.Is(err, errGone) {
			continue // the trainer skips it too
		}
		if isClaimed || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// replicatedEnd is the end of the complete blocks that every server of the stream has. A consumer on a server that does
// not have the newest messages yet would report that there are no more.
func (p *producer) replicatedEnd(end uint64) uint64 {
	if p.Conn.ConnectedClusterName() == "" {
		return end
	}
	if now := time.Now(); p.observedAt.IsZero() || now.Sub(p.observedAt) >= training.SettleTime {
		p.replicated, p.observed, p.observedAt = p.observed, end, now
	}
	return min(p.replicated, end)
}

// compute summarises a block and stores the summary.
func (p *producer) compute(ctx context.Context, n uint64, features []string, attempts int) error {
	b := p.block(n)
	sum, err := p.Running.SummaryBuilder(b, features)
	if err != nil {
		return err
	}
	if attempts > maxAttempts {
		p.Log.Error("replicas crashed while they summarised a block of the input; the block is not learned", "first", b.First,
			"last", b.Last, "replicas", attempts-1)
		sum.Omit(p.Stage.Training.Block)
	} else if err := p.training.ReadBlock(ctx, b, func(in *scope.Message) {
		sum.Add(plugin.Position{Created: b.Created, Seq: in.Origin.Seq, Time: in.Time}, in.Data)
	}); err != nil {
		return err
	}
	text, err := sum.Bytes(ctx)
	if err != nil {
		return err
	}
	input, err := p.JS.Stream(ctx, p.Stream)
	if err != nil {
		return err
	}
	now := input.CachedInfo()
	if !now.Created.Equal(p.created) || now.State.FirstSeq > b.First || now.State.LastSeq < b.Last {
		return errGone
	}
	if progress, err := p.collection.Progress(ctx); err != nil || progress != nil && n < progress.From {
		return err // it was learned in the meantime, and is not needed any more
	}
	isFirst, err := p.collection.Put(ctx, n, text)
	if err != nil {
		return err
	}
	result := "duplicate"
	if isFirst {
		result = "stored"
	}
	p.Series.Add(health.Summaries, 1, result)
	p.Log.Debug("a block of the input was summarised", "first", b.First, "last", b.Last, "bytes", len(text), "stored",
		isFirst)
	return nil
}
