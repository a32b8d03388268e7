package blocks

import (
	"context"
	"fmt"

	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/training"
)

// learner learns from the summaries of the input. The schema is known before it runs.
type learner struct {
	reader
	resumes bool // this process was the trainer before its restart, and continues from its checkpoint
}

func newLearner(b *Blocks) *learner {
	return &learner{reader{input: input{Blocks: b, created: b.Created}, next: b.blockOf(b.training.ReadFrom)},
		b.replica.IsTrainer()}
}

// Run learns until ctx is done.
func (l *learner) Run(ctx context.Context) { l.repeat(ctx, l.step, l.createBucket) }

// SkipTo does nothing: the stored progress has the first block of the trainer's window, and the live model may be
// fitted on less.
func (l *learner) SkipTo(*plugin.Live) {}

// step learns from the next summary, or moves past blocks that will have none.
func (l *learner) step(ctx context.Context) (progressed bool, err error) {
	before := l.created
	isNewStream, err := l.refresh(ctx)
	if err != nil {
		return false, err
	}
	if !before.Equal(l.created) {
		l.Series.Add(health.ReaderRestarts, 1, string(training.Recreated))
		l.training.SetEvent(fmt.Sprintf("the input stream was recreated at %s; learning continues from its first block",
			health.Timestamp(l.created)))
		l.moveTo(0)
	}
	if isNewStream || !l.replica.IsTrainer() {
		l.progress = nil
	}
	if l.replica.IsTrainer() {
		if err := l.storeProgress(ctx); err != nil {
			return false, err
		}
	}
	isLearned := false
	isStored, err := l.read(ctx, func(b stage.Block, summary []byte) error {
		unread, err := l.Running.LearnSummary(b, l.Running.Features(), summary)
		l.Series.Add(health.Dropped, float64(unread), health.PathLearn)
		isLearned = err == nil
		return err
	})
	switch {
	case err != nil:
		return false, err
	case !isStored:
		return l.skip(), nil
	case !isLearned:
		return false, nil
	}
	l.moveTo(l.next + 1)
	l.waiting.Store("")
	return true, l.Running.Wait(ctx)
}

// skip moves past blocks that will have no summary: messages have left the stream before they were summed, or the
// trainer does not need them any more. Otherwise it reports which block learning waits for.
func (l *learner) skip() (skipped bool) {
	to := max(l.next, l.first)
	if l.progress != nil { // this is the trainer: they were to be learned
		l.Series.Add(health.Dropped, float64((to-l.next)*l.blockSize()), health.PathLearn)
	} else if l.stored != nil {
		to = max(to, min(l.stored.From, l.end))
	}
	b := l.block(l.next)
	switch {
	case to > l.next:
		l.moveTo(to)
		return true
	case l.next >= l.end:
		l.waiting.Store(fmt.Sprintf("learning waits until message %d is stored, the last of the next block (training.block "+
			"is %d)", b.Last, l.blockSize()))
	default:
		l.waiting.Store(fmt.Sprintf("learning waits for the summary of messages %d to %d, which the replicas compute",
			b.First, b.Last))
	}
	return false
}

// storeProgress stores that the blocks of the trainer's window are needed. A new trainer begins with the first block
// that is still there.
func (l *learner) storeProgress(ctx context.Context) error {
	if l.progress == nil { // another replica may have stored it
		stored, err := l.collection.Progress(ctx)
		if err != nil {
			return err
		}
		first := l.first
		if stored != nil && !(l.resumes && l.first < stored.From) { // then it resumes at blocks that had left the window
			first = min(stored.From, l.end)
		}
		l.next, l.resumes = max(l.next, first), false
	}
	from := l.next
	if first := l.Running.Status().ReadFrom; first > 0 {
		from = min(from, l.blockOf(first))
	}
	return l.setProgress(ctx, from)
}
