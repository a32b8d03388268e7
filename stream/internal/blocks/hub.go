package blocks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

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
	refused  map[string]string // by edge, why its last summary was refused
}

func newHubLearner(b *Blocks) *hubLearner {
	return &hubLearner{Blocks: b, created: b.Created, from: b.training.ReadFrom, refused: map[string]string{}}
}

// Run learns until ctx is done.
func (h *hubLearner) Run(ctx context.Context) { h.repeat(ctx, h.step) }

// SkipTo moves to where the window of the trainer began at the checkpoint of a model. Without a checkpoint it moves
// nothing: the stream may be an older copy that was restored, in which the numbers of the model mean other messages.
func (h *hubLearner) SkipTo(live *plugin.Live) {
	if live != nil && live.State != nil {
		h.from = max(h.from, needs.WindowStart(live, h.created))
	}
}

// step learns from the next summary, or skips it.
func (h *hubLearner) step(ctx context.Context) (progressed bool, err error) {
	if err := h.follow(ctx); err != nil {
		return false, err
	}
	if h.Running.Contract() == nil {
		if counted, err := h.count(ctx); counted || err != nil {
			return false, err
		}
	}
	one, err := h.receiver.Next(ctx, h.Name, h.next)
	if err != nil {
		return false, err
	}
	if one == nil {
		h.waiting.Store("learning waits for summaries of the edges")
		return false, nil
	}
	h.waiting.Store("")
	switch {
	case one.Bad:
		h.reportRefused(one, "its message is not the notice of a summary; run the same version of embedd at hub and edges")
		h.next = one.Seq + 1
		return true, nil
	case h.ledger.IsDuplicate(one):
		return true, h.skipDuplicate(ctx, one)
	case one.Seq < min(h.from, h.ledger.Next): // it was learned, and is before the window
		h.next = one.Seq + 1
		return true, nil
	}
	summary, unfit, err := h.read(ctx, one)
	switch {
	case errors.Is(err, errIncomplete):
		return false, nil
	case err != nil:
		return false, err
	case unfit != nil:
		return true, h.refuse(ctx, one, unfit)
	}
	return true, h.learn(ctx, one, summary)
}

// moveOn moves past a summary. The trainer stores the ledger before, so that a restart does not add entries that the
// model has learned.
func (h *hubLearner) moveOn(ctx context.Context, one *summaries.Received) error {
	if h.replica.IsTrainer() && h.ledger.Next != h.saved {
		if err := h.bucket.SaveLedger(ctx, h.Name, h.created, h.ledger); err != nil {
			return err
		}
		h.saved = h.ledger.Next
	}
	h.next, h.failures = one.Seq+1, 0
	return nil
}

// skipDuplicate skips a summary of messages that arrived before.
func (h *hubLearner) skipDuplicate(ctx context.Context, one *summaries.Received) error {
	h.ledger.Add(one)
	if err := h.moveOn(ctx, one); err != nil {
		return err
	}
	if one.Seq >= h.from {
		h.Series.Add(health.EdgeSummaries, 1, one.Edge, "duplicate")
	}
	return nil
}

// refuse skips a summary that cannot be learned from. Another one of its messages is accepted later.
func (h *hubLearner) refuse(ctx context.Context, one *summaries.Received, unfit error) error {
	h.ledger.Skip(one)
	if err := h.moveOn(ctx, one); err != nil {
		return err
	}
	if one.Seq >= h.from {
		h.Series.Add(health.Dropped, float64(one.Last-one.First+1), health.PathLearn)
		h.reportRefused(one, unfit.Error())
	}
	return nil
}

// learn enters a summary in the ledger and learns from it.
func (h *hubLearner) learn(ctx context.Context, one *summaries.Received, summary *stage.RemoteSummary) error {
	isNewStream := one.Seq >= h.ledger.Next && h.ledger.IsNewStream(one)
	missing := h.ledger.Add(one)
	if err := h.moveOn(ctx, one); err != nil {
		return err
	}
	h.Series.Add(health.Dropped, float64(missing), health.PathLearn)
	if isNewStream {
		h.training.SetEvent(fmt.Sprintf("edge %s sends summaries of another stream than before, created at %s; both "+
			"are learned", one.Edge, health.Timestamp(time.Unix(0, one.Created))))
	}
	switch {
	case one.Seq < h.from:
		return nil
	case h.previous.HasArrived(one):
		h.Series.Add(health.EdgeSummaries, 1, one.Edge, "duplicate")
		return nil
	}
	unread, err := h.Running.LearnRemoteSummary(plugin.Position{Created: h.created, Seq: one.Seq, Time: one.Time}, summary)
	switch {
	case errors.Is(err, plugin.ErrClosed):
		return err
	case err != nil: // a model with other features went live since it was read
		h.Series.Add(health.Dropped, float64(one.Last-one.First+1), health.PathLearn)
		h.reportRefused(one, err.Error())
		return nil
	}
	h.Series.Add(health.Dropped, float64(unread), health.PathLearn)
	h.Series.Add(health.EdgeSummaries, 1, one.Edge, "learned")
	delete(h.refused, one.Edge)
	return h.Running.Wait(ctx)
}

// errIncomplete is the error for a summary that must be read again: a missing part may be at another server.
var errIncomplete = errors.New("a summary of an edge is not complete yet")

// read reads a summary. unfit is why it cannot be learned from.
func (h *hubLearner) read(ctx context.Context, one *summaries.Received) (s *stage.RemoteSummary, unfit, err error) {
	if one.Settings != h.Running.Settings() {
		return nil, errOtherSettings, nil
	}
	text, err := h.receiver.Read(ctx, h.Name, one, h.Running.MaxSummary())
	if errors.Is(err, summaries.ErrDamaged) {
		if h.failures++; h.failures < maxReads {
			return nil, nil, errIncomplete
		}
		return nil, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	s, err = h.Running.ReadRemoteSummary(stage.Block{Created: time.Unix(0, one.Created), First: one.First,
		Last: one.Last}, text)
	if errors.Is(err, plugin.ErrFixed) {
		return nil, nil, err
	}
	return s, err, nil
}

// errOtherSettings rejects a summary of an edge that has another configuration.
var errOtherSettings = errors.New("its summaries have other settings; give hub and edge the same input.stream, " +
	"input.subject, schema, limits, training.block, training.holdout, and training.window.balance and bytes")

// reportRefused counts a summary that is not learned from, and reports why, once for each reason of an edge.
func (h *hubLearner) reportRefused(one *summaries.Received, reason string) {
	h.Series.Add(health.EdgeSummaries, 1, one.Edge, "rejected")
	if h.refused[one.Edge] == reason {
		return
	}
	h.refused[one.Edge] = reason
	h.training.SetEvent(fmt.Sprintf("nothing is learned from messages %d to %d of edge %s, seen at %s: %s", one.First,
		one.Last, one.Edge, health.Timestamp(time.Now()), reason))
}

// follow starts over when the stream was recreated, and creates it when it is missing. It loads the ledger once.
func (h *hubLearner) follow(ctx context.Context) error {
	now, err := h.RecentStream(ctx, summaries.HubStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return errors.Join(err, summaries.CreateHubStream(ctx, h.JS, h.Edges, needs.SummaryBytes(&h.Pipeline),
			h.Models.Replicas))
	}
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
	if h.ledger, err = h.bucket.LoadLedger(ctx, h.Name, h.created); err != nil {
		h.ledger = nil
		return err
	}
	h.saved, h.next = h.ledger.Next, min(h.from, h.ledger.Next)
	return nil
}
