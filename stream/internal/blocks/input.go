package blocks

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/summaries"
)

// input is the input stream, as it was when it was last requested, and the summaries of its blocks.
type input struct {
	*Blocks
	created    time.Time             // of the stream
	collection *summaries.Collection // of that stream, with the settings of this process
	first, end uint64                // complete blocks: from first to before end
}

// refresh asks the server which blocks are complete. isNewStream is true at first, and after the stream was recreated.
func (i *input) refresh(ctx context.Context) (isNewStream bool, err error) {
	stream, err := i.RecentStream(ctx, i.Stream)
	if err != nil {
		return false, err
	}
	info, size := stream.CachedInfo(), i.blockSize()
	i.first, i.end = (max(info.State.FirstSeq, 1)+size-2)/size, info.State.LastSeq/size
	if i.collection != nil && info.Created.Equal(i.created) {
		return false, nil
	}
	i.created, i.collection = info.Created, i.bucket.Collection(i.Name, i.Running.Settings(), info.Created)
	return true, nil
}

// blockSize is the number of messages of a block.
func (b *Blocks) blockSize() uint64 { return uint64(b.Stage.Training.Block) }

// blockOf returns the number of the block that contains a sequence; sequence 0 counts as 1.
func (b *Blocks) blockOf(seq uint64) uint64 { return (max(seq, 1) - 1) / b.blockSize() }

// block is block n of the stream.
func (i *input) block(n uint64) stage.Block {
	return stage.Block{Created: i.created, First: n*i.blockSize() + 1, Last: (n + 1) * i.blockSize()}
}

// reader reads the summaries of the input in the order of the blocks.
type reader struct {
	input
	next     uint64              // block
	progress *summaries.Progress // as this replica stored it last; nil: it has not, or another replica does
	stored   *summaries.Progress // as any replica has stored it, when the next summary was last missing
	unusable int                 // times that the summary of next could not be used
}

func (r *reader) moveTo(next uint64) {
	if r.next != next {
		r.next, r.unusable = next, 0
	}
}

// maxReads is how often an unusable summary is read before it is recomputed: the server that answers may not have all
// of it yet.
const maxReads = 3

// read passes the summary of the next block to use, which moves on, and reports whether there is one. A summary that
// cannot be used is deleted by the replica that stores the progress, so that it is made again.
func (r *reader) read(ctx context.Context, use func(b stage.Block, summary []byte) error) (isStored bool, err error) {
	summary, err := r.collection.Get(ctx, r.next, r.Running.MaxSummary())
	if summary == nil && err == nil {
		r.stored, err = r.collection.Progress(ctx)
		if err == nil && r.progress != nil && !reflect.DeepEqual(r.stored, r.progress) {
			r.progress = &summaries.Progress{} // it was overwritten, or the bucket was deleted: it is stored again
		}
		return false, err
	}
	if err == nil {
		err = use(r.block(r.next), summary)
	}
	if !errors.Is(err, summaries.ErrDamaged) && !errors.Is(err, stage.ErrSummary) {
		return true, err
	}
	if r.progress == nil {
		return true, nil
	}
	if r.unusable++; r.unusable < maxReads {
		return true, nil
	}
	r.unusable = 0
	r.Series.Add(health.Summaries, 1, "recomputed")
	r.Log.Warn("the summary of a block of the input is unusable; it is computed again", "block", r.next, "cause", err)
	return true, r.collection.Delete(ctx, r.next)
}

// setProgress records that the blocks from one on are needed, and deletes the summaries of earlier blocks, and the
// collections of other settings and streams.
func (r *reader) setProgress(ctx context.Context, from uint64) error {
	before, now := r.progress, &summaries.Progress{From: from, Next: r.next, Features: r.Running.Features()}
	if reflect.DeepEqual(before, now) {
		return nil
	}
	if err := r.collection.SetProgress(ctx, *now); err != nil {
		return err
	}
	// After a jump there may be millions of blocks between, without a summary: DeleteObsolete lists those that exist. It
	// also finds those that another replica stored late.
	if before == nil || from > before.From+maxAhead || r.next%maxAhead == 0 {
		if err := r.collection.DeleteObsolete(ctx, from); err != nil {
			return err
		}
	} else {
		for n := before.From; n < from; n++ {
			if err := r.collection.Delete(ctx, n); err != nil {
				return err
			}
		}
	}
	r.progress = now
	return nil
}
