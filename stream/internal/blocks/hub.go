package blocks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/internal/training"
)

// hubLearner learns from the summaries of the edges, in the order in which the hub's stream has stored them. The
// positions of what was learned are sequence numbers of that stream.
type hubLearner struct {
	*Blocks
	created  time.Time         // of the hub's stream
	next     uint64            // sequence number that is read next
	from     uint64            // first sequence number to learn from
	ledger   *summaries.Ledger // nil: not loaded yet
	saved    uint64            // ledger.Next when the ledger was last stored
	previous summaries.Ledger  // of the streams before this one, whose rows are in the window
	failures int               // times that the summary at next could not be read
	rejected map[string]string // by edge, why its last summary was rejected
}

func newHubLearner(b *Blocks) *hubLearner {
	return &hubLearner{Blocks: b, created: b.Created, from: b.training.ReadFrom, rejected: map[string]string{}}
}

// Run learns until ctx is done.
func (h *hubLearner) Run(ctx context.Context) { h.repeat(ctx, h.step, h.reopen) }

// SkipTo moves to where the window of the trainer began at the checkpoint of a model. Without a checkpoint it moves
// nothing: the stream may be an older copy that was restored, in which the numbers of the model mean other messages.
func (h *hubLearner) SkipTo(live *plugin.Live) {
	if live != nil && live.State != nil {
		h.from = max(h.from, needs.WindowStart(live, h.created))
	}
}

// step learns from the next summary, or skips it.
func (h *hubLearner) step(ctx context.Context) (progressed bool, err error) {
	if err := h.refresh(ctx); err != nil {
		return false, err
	}
	if h.Running.Contract() == nil {
		if isCounted, err := h.count(ctx); isCounted || err != nil {
			return false, err
		}
	}
	notice, err := h.receiver.Next(ctx, h.next)
	if err != nil {
		return false, err
	}
	if notice == nil {
		h.waiting.Store("learning waits for summaries of the edges")
		return false, nil
	}
	h.waiting.Store("")
	isInWindow, isDuplicate := notice.Seq >= h.from, h.ledger.IsDuplicate(notice)
	var summary *stage.RemoteSummary
	var unfit error // why the summary cannot be learned from
	if !isDuplicate && (notice.Seq >= h.ledger.Next || isInWindow) {
		if summary, unfit, err = h.read(ctx, notice); err != nil || summary == nil && unfit == nil {
			return false, err
		}
	}
	if err := h.recordArrival(ctx, notice, unfit != nil); err != nil {
		return false, err
	}
	switch {
	case !isInWindow: // it was learned
	case unfit != nil:
		h.reject(notice, unfit)
	case isDuplicate || h.previous.HasArrived(notice):
		h.Series.Add(health.EdgeSummaries, 1, notice.Edge, "duplicate")
	default:
		return true, h.learn(ctx, notice, summary)
	}
	return true, nil
}

// recordArrival moves past a summary, and adds it to the ledger. The trainer stores the ledger before it learns, so
// that a restart does not add entries that the model has learned.
func (h *hubLearner) recordArrival(ctx context.Context, notice *summaries.Received, isUnfit bool) error {
	missing, isNewStream := uint64(0), false
	if isUnfit {
		h.ledger.Skip(notice) // another summary of its messages is accepted later
	} else {
		isNewStream = notice.Seq >= h.ledger.Next && h.ledger.IsNewStream(notice)
		missing = h.ledger.Add(notice)
	}
	if h.replica.IsTrainer() && h.ledger.Next != h.saved {
		if err := h.bucket.SaveLedger(ctx, h.Name, h.created, h.ledger); err != nil {
			return err
		}
		h.saved = h.ledger.Next
	}
	h.next, h.failures = notice.Seq+1, 0
	h.Series.Add(health.Dropped, float64(missing), health.PathLearn)
	if isNewStream {
		h.training.SetEvent(fmt.Sprintf("edge %s sends summaries of another stream than before, created at %s; both "+
			"are learned", notice.Edge, health.Timestamp(time.Unix(0, notice.Created))))
	}
	return nil
}

func (h *hubLearner) learn(ctx context.Context, notice *summaries.Received, summary *stage.RemoteSummary) error {
	at := plugin.Position{Created: h.created, Seq: notice.Seq, Time: notice.Time}
	unread, err := h.Running.LearnRemoteSummary(at, summary)
	switch {
	case errors.Is(err, plugin.ErrClosed):
		return err
	case err != nil: // a model with other features went live since it was read
		h.reject(notice, err)
		return nil
	}
	h.Series.Add(health.Dropped, float64(unread), health.PathLearn)
	h.Series.Add(health.EdgeSummaries, 1, notice.Edge, "learned")
	delete(h.rejected, notice.Edge)
	return h.Running.Wait(ctx)
}

// reject counts a summary that is not learned from, and reports why, once for each reason of an edge.
func (h *hubLearner) reject(notice *summaries.Received, unfit error) {
	h.Series.Add(health.Dropped, float64(notice.Messages()), health.PathLearn)
	h.Series.Add(health.EdgeSummaries, 1, notice.Edge, "rejected")
	if h.rejected[notice.Edge] == unfit.Error() {
		return
	}
	h.rejected[notice.Edge] = unfit.Error()
	h.training.SetEvent(fmt.Sprintf("nothing is learned from messages %d to %d of edge %s, seen at %s: %s", notice.First,
		notice.Last, notice.Edge, health.Timestamp(time.Now()), unfit))
}

// Reasons to reject a summary of an edge.
var (
	errNoNotice = errors.New("its message is not the notice of a summary; run the same version of embedd at hub and " +
		"edges")
	errOtherSettings = errors.New("its summaries have other settings; give hub and edge the same input.stream, " +
		"input.subject, schema, limits, training.block, training.holdout, and training.window.balance and bytes")
)

// read reads a summary. unfit is why it cannot be learned from. Without any result the summary is not complete yet, and
// is to be read again: a missing part may be at another server.
func (h *hubLearner) read(ctx context.Context, notice *summaries.Received) (s *stage.RemoteSummary, unfit, err error) {
	switch {
	case notice.First == 0:
		return nil, errNoNotice, nil
	case notice.Settings != h.Running.Settings():
		return nil, errOtherSettings, nil
	}
	text, err := h.receiver.Read(ctx, notice, h.Running.MaxSummary())
	switch {
	case !errors.Is(err, summaries.ErrDamaged):
	case h.failures+1 < maxReads:
		h.failures++
		return nil, nil, nil
	default:
		return nil, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	s, err = h.Running.ReadRemoteSummary(stage.Block{Created: time.Unix(0, notice.Created), First: notice.First,
		Last: notice.Last}, text)
	if errors.Is(err, plugin.ErrFixed) {
		return nil, nil, err
	}
	return s, err, nil
}

// count adds up what the edges counted until the schema is known, and reports whether any has counted. An edge of an
// earlier version counts nothing and sends summaries at once: the schema is then that of the first.
func (h *hubLearner) count(ctx context.Context) (isCounted bool, err error) {
	for _, edge := range h.Edges {
		text, err := h.receiver.Counted(ctx, edge)
		if err != nil {
			return false, err
		}
		if text == nil {
			continue
		}
		if err := h.Running.CountRemote(edge, text); err != nil {
			h.log.Warn(h.Log, "what an edge counted cannot be read; run one version of embedd at hub and edges", "error", err)
			continue
		}
		isCounted = true
	}
	if isCounted {
		h.waiting.Store("the messages of the edges are counted until their schema is known")
	}
	return isCounted, nil
}

// reopen creates the streams again where they are missing.
func (h *hubLearner) reopen(ctx context.Context) error {
	return errors.Join(h.createBucket(ctx), summaries.Ensure(ctx, h.JS,
		summaries.HubConfig(h.Edges, needs.SummaryBytes(&h.Pipeline)), h.Models.Replicas, false))
}

// refresh starts over when the stream was recreated. It loads the ledger once.
func (h *hubLearner) refresh(ctx context.Context) error {
	now, err := h.RecentStream(ctx, summaries.HubStream)
	if err != nil {
		return err
	}
	if created := now.CachedInfo().Created; !created.Equal(h.created) {
		h.Series.Add(health.ReaderRestarts, 1, string(training.Recreated))
		h.training.SetEvent(fmt.Sprintf("the stream of the edges' summaries was recreated at %s; learning continues "+
			"with its new messages", health.Timestamp(created)))
		if h.ledger != nil {
			h.previous.Merge(h.ledger)
		}
		h.created, h.from, h.ledger = created, 0, nil
	}
	if h.ledger != nil {
		return nil
	}
	ledger, err := h.bucket.LoadLedger(ctx, h.Name, h.created)
	if err == nil {
		h.ledger, h.saved, h.next = ledger, ledger.Next, min(h.from, ledger.Next)
	}
	return err
}
