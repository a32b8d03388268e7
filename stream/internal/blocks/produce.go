package blocks

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/replica"
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
	*Blocks
	created    time.Time // of the stream
	collection *summaries.Collection
	claims     *summaries.Claims
	next       uint64          // block, as the trainer stored it last
	stored     map[uint64]bool // blocks from next on whose summary was seen

	// Blocks before replicated are at every server of the stream; those before observed were stored at observedAt.
	replicated, observed uint64
	observedAt           time.Time
}

// step makes the summary of the first block that has none and that no other replica has claimed.
func (p *producer) step(ctx context.Context) (made bool, err error) {
	complete, err := p.complete(ctx)
	if err != nil {
		return false, err
	}
	if p.collection == nil || !complete.created.Equal(p.created) {
		*p = producer{Blocks: p.Blocks, created: complete.created, collection: p.Blocks.collection(complete.created),
			stored: map[uint64]bool{}, observedAt: p.observedAt}
		p.claims = p.collection.Claims(p.Instance, p.ClaimLife)
	}
	progress, err := p.collection.Progress(ctx)
	if err != nil || progress == nil || !p.Running.Contract().Has(progress.Features) { // of a schema before this one
		return false, err
	}
	if progress.Next < p.next { // another replica became the trainer, and begins earlier
		p.stored = map[uint64]bool{}
	}
	maps.DeleteFunc(p.stored, func(n uint64, _ bool) bool { return n < progress.Next })
	p.next = progress.Next
	p.claims.Forget(progress.Next)
	end := min(p.replicatedEnd(complete.end), progress.Next+maxAhead)
	for n := max(progress.Next, complete.first); n < end; n++ {
		if p.stored[n] && n != progress.Next { // the trainer may have deleted that one
			continue
		}
		if p.stored[n], err = p.collection.Has(ctx, n); err != nil {
			return false, err
		}
		if p.stored[n] {
			continue
		}
		claim, err := p.claims.TryClaim(ctx, n)
		if err != nil {
			return false, err
		}
		if claim == nil {
			continue
		}
		err = p.compute(ctx, n, progress.Features, claim.Attempts)
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), replica.ReleaseTimeout)
		err = errors.Join(err, claim.Release(clean))
		cancel()
		if errors.Is(err, errGone) {
			continue // the trainer skips it too
		}
		return err == nil, err
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
	b := p.block(p.created, n)
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
