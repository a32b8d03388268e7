package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/training"
	"github.com/embedd/embedd/stream/summaries"
)

// merger brings the learning side the summaries of the input, one after another in the order of the blocks.
type merger struct {
	*pipeline
	created  time.Time
	shelf    *summaries.Collection
	next     uint64 // block
	features []string
	looked   uint64              // blocks before it have no message that says the features
	marked   *summaries.Progress // by this replica, while it learns
	bad      int                 // times that the summary of next could not be used
}

func newMerger(p *pipeline) *merger {
	return &merger{pipeline: p, created: p.Created, next: p.blockOf(p.training.ReadFrom)}
}

// Run reads until ctx is done.
func (m *merger) Run(ctx context.Context) { m.summarily(ctx, m.step) }

// summarily takes one step after another until ctx is done, and waits where there is nothing to do.
func (p *pipeline) summarily(ctx context.Context, step func(context.Context) (moved bool, err error)) {
	for attempt := 0; ctx.Err() == nil; {
		moved, err := step(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			p.told.summing.Warn(p.Log, "the summaries of the input cannot be passed on; trying again", "error", err)
			natsx.Backoff(ctx, attempt)
			attempt++
		case !moved:
			p.waitForBlocks(ctx)
			fallthrough
		default:
			attempt = 0
		}
	}
}

// step learns from the next summary where it is there.
func (m *merger) step(ctx context.Context) (learned bool, err error) {
	s, err := m.stretch(ctx)
	if err != nil {
		return false, err
	}
	if m.shelf == nil || !s.created.Equal(m.created) {
		if !s.created.Equal(m.created) {
			m.Series.Add(health.ReaderRestarts, 1, string(training.Recreated))
			m.training.SetEvent(fmt.Sprintf("the input stream was recreated at %s; learning continues from its first block",
				health.Timestamp(s.created)))
			m.created, m.next, m.looked = s.created, 0, 0
		}
		m.shelf, m.marked = m.pipeline.shelf(s.created), nil
	}
	if err := m.know(ctx, s); err != nil || m.features == nil {
		return false, err
	}
	if !m.replica.IsTrainer() {
		m.marked = nil // another does, and marks
	} else if err := m.mark(ctx, s); err != nil {
		return false, err
	}
	text, err := m.shelf.Get(ctx, m.next, m.Running.MaxSummary())
	switch {
	case errors.Is(err, summaries.ErrMissing):
		skipped, err := m.skip(ctx, s)
		if err == nil && !skipped {
			m.waits(s)
		}
		return skipped, err
	case errors.Is(err, summaries.ErrDamaged):
		return false, m.anew(ctx, err)
	case err != nil:
		return false, err
	}
	unread, err := m.Running.LearnSummary(m.block(m.created, m.next), m.features, text)
	if errors.Is(err, stage.ErrSummary) {
		return false, m.anew(ctx, err)
	}
	if err != nil {
		return false, err
	}
	m.Series.Add(health.Dropped, float64(unread), health.PathLearn)
	m.next, m.bad = m.next+1, 0
	m.awaited.Store(nil)
	return true, m.Running.Wait(ctx)
}

// waits says what learning waits for, for the status before a first model.
func (m *merger) waits(s stretch) {
	b := m.block(m.created, m.next)
	text := fmt.Sprintf("learning waits for the summary of messages %d to %d, which the replicas make", b.First, b.Last)
	if m.next >= s.last {
		text = fmt.Sprintf("learning waits until message %d is stored, the last of the next block (training.block is %d)",
			b.Last,
			m.Stage.Training.Block)
	}
	m.awaited.Store(&text)
}

// skip goes on behind what will not come: blocks of which messages have left the stream before they were summed up, and
// blocks that whoever learns does not need any more.
func (m *merger) skip(ctx context.Context, s stretch) (skipped bool, err error) {
	to := m.next
	if s.first > to {
		to = s.first
		if m.marked != nil { // they were to be learned, and here
			m.Series.Add(health.Dropped, float64((to-m.next)*uint64(m.Stage.Training.Block)), health.PathLearn)
		}
	}
	if !m.replica.IsTrainer() {
		mark, err := m.shelf.Progress(ctx)
		if err != nil {
			return false, err
		}
		if mark != nil {
			to = max(to, mark.From)
		}
	}
	if to == m.next {
		return false, nil
	}
	m.next, m.bad = to, 0
	return true, nil
}

// patienceBad is how often a summary is read that cannot be used, before it is made again: the server that is asked may
// not have all of it yet.
const patienceBad = 3

// anew has the summary of the next block made again. Who learns does that; the others wait.
func (m *merger) anew(ctx context.Context, cause error) error {
	if !m.replica.IsTrainer() {
		return nil
	}
	return m.again(ctx, cause)
}

// again has the summary of the next block made again, after it was read some times.
func (m *merger) again(ctx context.Context, cause error) error {
	if m.bad++; m.bad < patienceBad {
		return nil
	}
	m.bad = 0
	m.Series.Add(health.Summaries, 1, "anew")
	m.Log.Warn("the summary of a block of the input cannot be used; it is made again", "block", m.next, "cause", cause)
	return m.shelf.Delete(ctx, m.next)
}

// know finds out the features: those of the model, those that were marked, or those of the first message.
func (m *merger) know(ctx context.Context, s stretch) error {
	if live := m.Running.Live(); live != nil {
		m.features = live.Model.Features()
		return nil
	}
	mark, err := m.shelf.Progress(ctx)
	if err != nil {
		return err
	}
	if mark != nil && len(mark.Features) > 0 {
		m.features = mark.Features
		return nil
	}
	if features := m.Running.Features(); features != nil {
		m.features = features
	}
	if m.features != nil || s.last <= s.first {
		return nil
	}
	first := max(m.next, m.looked, s.first)
	if first >= s.last {
		return nil
	}
	all := m.block(m.created, first)
	all.Last = m.block(m.created, s.last-1).Last
	err = m.training.ReadBlock(ctx, all, func(in *scope.Message) bool {
		if message, err := m.Running.Decode(in.Data); err == nil {
			m.features = message.Contract().Elements()
		}
		m.looked = m.blockOf(in.Origin.Seq) // an error goes on there
		return m.features == nil
	})
	if err == nil {
		m.looked = s.last
	}
	return err
}

// mark says what is needed next, and removes what is not needed any more: blocks before the window, and shelves of
// other settings and streams.
func (m *merger) mark(ctx context.Context, s stretch) error {
	before := m.marked
	if before == nil { // another has marked before, or nobody
		var err error
		if before, err = m.shelf.Progress(ctx); err != nil {
			return err
		}
		if before == nil {
			before = &summaries.Progress{From: s.first}
		}
		m.next = max(m.next, min(before.From, s.first)) // of older blocks there is neither a summary nor a row
	}
	from := m.next
	if first := m.Running.Status().ReadFrom; first > 0 {
		from = min(from, m.blockOf(first))
	}
	now := summaries.Progress{From: from, Next: m.next, Features: m.features}
	if m.marked != nil && now.Next == before.Next && now.From == before.From && slices.Equal(now.Features,
		before.Features) {
		return nil
	}
	if err := m.shelf.SetProgress(ctx, now); err != nil {
		return err
	}
	// A sweep asks which blocks there are: after a jump there may be millions between, and a summary of none of them.
	if m.marked == nil || now.From > before.From+aheadBlocks || now.Next%aheadBlocks == 0 {
		if err := m.shelf.DeleteObsolete(ctx, now.From); err != nil {
			return err
		}
	} else {
		for n := before.From; n < now.From; n++ {
			if err := m.shelf.Delete(ctx, n); err != nil {
				return err
			}
		}
	}
	m.marked = &now
	return nil
}

// SkipTo moves to where the window of a model begins, as a reader of messages does.
func (m *merger) SkipTo(live *plugin.Live) {
	m.next = max(m.next, m.blockOf(needs.WindowStart(live, m.created)))
}
