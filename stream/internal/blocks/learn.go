package blocks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/internal/training"
)

// reader reads the summaries of the input in the order of the blocks.
type reader struct {
	*Blocks
	created    time.Time // of the stream
	collection *summaries.Collection
	next       uint64              // block
	progress   *summaries.Progress // as this replica stored it last; nil: it has not yet
	unusable   int                 // times that the summary of next could not be used
}

// learner learns from the summaries of the input. The schema is known before it runs.
type learner struct {
	reader
	resumes bool // this process was the trainer before its restart, and continues from its checkpoint
}

func newLearner(b *Blocks) *learner {
	return &learner{reader{Blocks: b, created: b.Created, next: b.blockOf(b.training.ReadFrom)}, b.replica.IsTrainer()}
}

// Run learns until ctx is done.
func (l *learner) Run(ctx context.Context) { l.repeat(ctx, l.step) }

// SkipTo does nothing: the stored progress has the first block of the trainer's window, and the live model may be
// fitted on less.
func (l *learner) SkipTo(*plugin.Live) {}

// step learns from the next summary, or moves past blocks that will have none.
func (l *learner) step(ctx context.Context) (learned bool, err error) {
	complete, err := l.complete(ctx)
	if err != nil {
		return false, err
	}
	if l.collection == nil || !complete.created.Equal(l.created) {
		if !complete.created.Equal(l.created) {
			l.Series.Add(health.ReaderRestarts, 1, string(training.Recreated))
			l.training.SetEvent(fmt.Sprintf("the input stream was recreated at %s; learning continues from its first block",
				health.Timestamp(complete.created)))
			l.created, l.next = complete.created, 0
		}
		l.collection, l.progress = l.Blocks.collection(l.created), nil
	}
	if !l.replica.IsTrainer() {
		l.progress = nil // the trainer stores it
	} else if err := l.storeProgress(ctx, complete); err != nil {
		return false, err
	}
	text, err := l.collection.Get(ctx, l.next, l.Running.MaxSummary())
	if errors.Is(err, summaries.ErrMissing) {
		skipped, err := l.skip(ctx, complete)
		if err == nil && !skipped {
			l.reportWaiting(complete)
		}
		return skipped, err
	}
	unread := 0
	if err == nil {
		unread, err = l.Running.LearnSummary(l.block(l.created, l.next), l.Running.Features(), text)
	}
	if err != nil {
		return false, l.discardUnusable(ctx, err, l.replica.IsTrainer())
	}
	l.Series.Add(health.Dropped, float64(unread), health.PathLearn)
	l.next, l.unusable = l.next+1, 0
	l.waiting.Store("")
	return true, l.Running.Wait(ctx)
}

// reportWaiting reports which block learning waits for.
func (l *learner) reportWaiting(complete blockRange) {
	b := l.block(l.created, l.next)
	if l.next >= complete.end {
		l.waiting.Store(fmt.Sprintf("learning waits until message %d is stored, the last of the next block (training.block "+
			"is %d)", b.Last, l.Stage.Training.Block))
		return
	}
	l.waiting.Store(fmt.Sprintf("learning waits for the summary of messages %d to %d, which the replicas compute", b.First,
		b.Last))
}

// skip moves past blocks that will have no summary: messages have left the stream before they were summed, or the
// trainer does not need them any more.
func (l *learner) skip(ctx context.Context, complete blockRange) (skipped bool, err error) {
	to := max(l.next, complete.first)
	if l.progress != nil { // this is the trainer: they were to be learned
		l.Series.Add(health.Dropped, float64((to-l.next)*l.blockSize()), health.PathLearn)
	}
	if !l.replica.IsTrainer() {
		progress, err := l.collection.Progress(ctx)
		if err != nil {
			return false, err
		}
		if progress != nil {
			to = max(to, progress.From)
		}
	}
	if to == l.next {
		return false, nil
	}
	l.next, l.unusable = to, 0
	return true, nil
}

// maxReads is how often an unusable summary is read before it is recomputed: the server that answers may not have all
// of it yet.
const maxReads = 3

// discardUnusable deletes the summary of the next block when it cannot be used, so that it is made again. It returns
// other errors. Only the replica that owns the progress deletes; others wait.
func (r *reader) discardUnusable(ctx context.Context, cause error, isOwner bool) error {
	if !errors.Is(cause, summaries.ErrDamaged) && !errors.Is(cause, stage.ErrSummary) {
		return cause
	}
	if !isOwner {
		return nil
	}
	if r.unusable++; r.unusable < maxReads {
		return nil
	}
	r.unusable = 0
	r.Series.Add(health.Summaries, 1, "recomputed")
	r.Log.Warn("the summary of a block of the input is unusable; it is computed again", "block", r.next, "cause", cause)
	return r.collection.Delete(ctx, r.next)
}

// storeProgress stores which blocks are needed, and deletes those that are not any more: blocks before the window, and
// collections of other settings and streams.
func (l *learner) storeProgress(ctx context.Context, complete blockRange) error {
	before := l.progress
	if before == nil { // another replica may have stored it
		var err error
		if before, err = l.collection.Progress(ctx); err != nil {
			return err
		}
		if before == nil {
			before = &summaries.Progress{From: complete.first}
		}
		first := before.From
		if l.resumes { // at blocks that had left the window since
			first = min(first, complete.first)
		}
		l.next, l.resumes = max(l.next, first), false
	}
	from := l.next
	if first := l.Running.Status().ReadFrom; first > 0 {
		from = min(from, l.blockOf(first))
	}
	now := summaries.Progress{From: from, Next: l.next, Features: l.Running.Features()}
	if l.progress != nil && isSame(before, &now) {
		return nil
	}
	if err := l.collection.SetProgress(ctx, now); err != nil {
		return err
	}
	// After a jump there may be millions of blocks between, without a summary: DeleteObsolete lists those that exist.
	if l.progress == nil || now.From > before.From+maxAhead || now.Next%maxAhead == 0 {
		if err := l.collection.DeleteObsolete(ctx, now.From); err != nil {
			return err
		}
	} else {
		for n := before.From; n < now.From; n++ {
			if err := l.collection.Delete(ctx, n); err != nil {
				return err
			}
		}
	}
	l.progress = &now
	return nil
}

func isSame(a, b *summaries.Progress) bool {
	return a.Next == b.Next && a.From == b.From && slices.Equal(a.Features, b.Features)
}
