package stream

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
	"github.com/embedd/embedd/stream/internal/training"
	"github.com/embedd/embedd/stream/summaries"
)

// The hub of edges learns from the summaries that come from them (sending.go), in the order in which its own stream of
// them has stored them. It has no rows: that stream is what it reads to learn, and its numbers are the places of what
// was learned.

// bindEdges binds the stream of the edges' summaries, or makes it: it is ours.
func (p *pipeline) bindEdges(ctx context.Context) (err error) {
	if p.arrived, p.Input, err = summaries.OpenReceiver(ctx, p.JS, p.Edges, needs.SummaryBytes(&p.Pipeline),
		p.Models.Replicas); err != nil {
		return err
	}
	p.Created = p.Input.CachedInfo().Created
	if text := needs.SummaryLimit(&p.Pipeline, &p.Input.CachedInfo().Config); text != "" {
		p.Log.Warn(text)
	}
	return nil
}

// gatherer brings the learning side the summaries of the edges.
type gatherer struct {
	*pipeline
	created time.Time         // of the hub's stream
	next    uint64            // place that is looked at next
	from    uint64            // nothing is learned from what stands before
	ledger  *summaries.Ledger // nil: not read yet
	kept    uint64            // its Next as it was kept last
	had     summaries.Ledger  // of what came by the streams of the hub before this, the window has the rows
	bad     int               // times that what stands next could not be read
	refused map[string]string // of an edge, why what it sends is not learned from
}

func newGatherer(p *pipeline) *gatherer {
	return &gatherer{pipeline: p, created: p.Created, from: p.training.ReadFrom, refused: map[string]string{}}
}

func (g *gatherer) Run(ctx context.Context) { g.summarily(ctx, g.step) }

// SkipTo moves to where the window of a model begins.
func (g *gatherer) SkipTo(live *plugin.Live) {
	g.from = max(g.from, needs.WindowStart(live, g.created))
}

// step learns from the next summary where it is there.
func (g *gatherer) step(ctx context.Context) (learned bool, err error) {
	if err := g.follow(ctx); err != nil {
		return false, err
	}
	one, err := g.arrived.Next(ctx, g.Name, g.next)
	if err != nil {
		return false, err
	}
	if one == nil {
		text := "learning waits for summaries of the edges"
		g.awaited.Store(&text)
		return false, nil
	}
	g.awaited.Store(nil)
	if one.Bad {
		g.turnAway(one, "what it sends is no notice of a summary; run one version of embedd at hub and edges")
		g.next = one.Seq + 1
		return true, nil
	}
	switch {
	case g.ledger.IsDuplicate(one):
		return true, g.double(ctx, one)
	case one.Seq < min(g.from, g.ledger.Next): // it was learned, and is not needed any more
		g.next = one.Seq + 1
		return true, nil
	}
	arrived, unfit, err := g.read(ctx, one)
	if errors.Is(err, errAgain) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if unfit != nil {
		return true, g.refuse(ctx, one, unfit)
	}
	return true, g.enter(ctx, one, arrived)
}

// double passes over what had arrived before.
func (g *gatherer) double(ctx context.Context, one *summaries.Received) error {
	g.ledger.Add(one)
	if err := g.keep(ctx); err != nil {
		return err
	}
	g.next = one.Seq + 1
	if one.Seq >= g.from {
		g.Series.Add(health.EdgeSummaries, 1, one.Edge, edgeDoubled)
	}
	return nil
}

// refuse passes over what cannot be learned from. The ledger is none the wiser: another may come in its place.
func (g *gatherer) refuse(ctx context.Context, one *summaries.Received, unfit error) error {
	g.ledger.Skip(one)
	if err := g.keep(ctx); err != nil {
		return err
	}
	g.next, g.bad = one.Seq+1, 0
	if one.Seq >= g.from {
		g.Series.Add(health.Dropped, float64(one.Last-one.First+1), health.PathLearn)
		g.turnAway(one, unfit.Error())
	}
	return nil
}

// enter writes down what can be learned from, and learns from it.
func (g *gatherer) enter(ctx context.Context, one *summaries.Received, arrived *stage.RemoteSummary) error {
	follows := one.Seq >= g.ledger.Next && g.ledger.IsNewStream(one)
	missing := g.ledger.Add(one)
	if err := g.keep(ctx); err != nil {
		return err
	}
	g.next, g.bad = one.Seq+1, 0
	g.Series.Add(health.Dropped, float64(missing), health.PathLearn)
	if follows {
		g.training.SetEvent(fmt.Sprintf("edge %s sends what it summed up of another stream than before, made at %s; both "+
			"are learned from",
			one.Edge, health.Timestamp(time.Unix(0, one.Created))))
	}
	switch {
	case one.Seq < g.from:
		return nil
	case g.had.HasArrived(one):
		g.Series.Add(health.EdgeSummaries, 1, one.Edge, edgeDoubled)
		return nil
	}
	return g.learnArrived(ctx, one, arrived)
}

// learnArrived learns from a summary.
func (g *gatherer) learnArrived(ctx context.Context, one *summaries.Received, arrived *stage.RemoteSummary) error {
	unread, err := g.Running.LearnRemoteSummary(plugin.Position{Created: g.created, Seq: one.Seq, Time: one.Time}, arrived)
	switch {
	case errors.Is(err, plugin.ErrClosed):
		return err
	case err != nil: // a model of other features was chosen meanwhile
		g.Series.Add(health.Dropped, float64(one.Last-one.First+1), health.PathLearn)
		g.turnAway(one, err.Error())
		return nil
	}
	g.Series.Add(health.Dropped, float64(unread), health.PathLearn)
	g.Series.Add(health.EdgeSummaries, 1, one.Edge, edgeLearned)
	delete(g.refused, one.Edge)
	return g.Running.Wait(ctx)
}

// errAgain says that what stands next is to be read again: a part that is missing may be at another server.
var errAgain = errors.New("a summary of an edge is not whole yet")

// read reads a summary; unfit is why it cannot be learned from.
func (g *gatherer) read(ctx context.Context, one *summaries.Received) (arrived *stage.RemoteSummary, unfit, err error) {
	if one.Settings != g.Running.Settings() {
		return nil, errOtherSettings, nil
	}
	text, err := g.arrived.Read(ctx, g.Name, one, g.Running.MaxSummary())
	if errors.Is(err, summaries.ErrDamaged) {
		if g.bad++; g.bad < patienceBad {
			return nil, nil, errAgain
		}
		return nil, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	arrived, err = g.Running.ReadRemoteSummary(stage.Block{Created: time.Unix(0, one.Created), First: one.First,
		Last: one.Last}, text)
	if errors.Is(err, plugin.ErrFixed) {
		return nil, nil, err
	}
	return arrived, err, nil
}

// errOtherSettings is said of an edge whose configuration is another.
var errOtherSettings = errors.New("its summaries have other settings; give hub and edge the same input.stream, " +
	"input.subject, schema, limits, training.block, training.holdout, and training.window.balance and bytes")

// turnAway counts a summary that is not learned from, and says why, once for each reason.
func (g *gatherer) turnAway(one *summaries.Received, why string) {
	g.Series.Add(health.EdgeSummaries, 1, one.Edge, edgeRefused)
	if g.refused[one.Edge] == why {
		return
	}
	g.refused[one.Edge] = why
	g.training.SetEvent(fmt.Sprintf("nothing is learned from messages %d to %d of edge %s, seen at %s: %s",
		one.First, one.Last, one.Edge,
		health.Timestamp(time.Now()), why))
}

// follow looks whether the stream is still the one that was read, and reads the ledger where that was not done.
func (g *gatherer) follow(ctx context.Context) error {
	now, err := g.Streams.Stream(ctx, summaries.HubStream, func(ctx context.Context) (jetstream.Stream, error) {
		return g.JS.Stream(ctx, summaries.HubStream)
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// and looked at again
		return errors.Join(err, summaries.CreateHubStream(ctx, g.JS, g.Edges, needs.SummaryBytes(&g.Pipeline),
			g.Models.Replicas))
	}
	if err != nil {
		return err
	}
	if created := now.CachedInfo().Created; !created.Equal(g.created) {
		g.Series.Add(health.ReaderRestarts, 1, string(training.Recreated))
		g.training.SetEvent(fmt.Sprintf("the stream of the edges' summaries was recreated at %s; learning continues with "+
			"what is new in it",
			health.Timestamp(created)))
		if g.ledger != nil {
			g.had.Merge(g.ledger)
		}
		g.created, g.from, g.ledger = created, 0, nil
	}
	if g.ledger != nil {
		return nil
	}
	if g.ledger, err = g.summaries.LoadLedger(ctx, g.Name, g.created); err != nil {
		g.ledger = nil
		return err
	}
	g.kept, g.next = g.ledger.Next, min(g.from, g.ledger.Next)
	return nil
}

// keep writes the ledger down before what it says is learned, so that a restart enters nothing anew of which the model
// knows. Who learns does.
func (g *gatherer) keep(ctx context.Context) error {
	if !g.replica.IsTrainer() || g.ledger.Next == g.kept {
		return nil
	}
	if err := g.summaries.SaveLedger(ctx, g.Name, g.created, g.ledger); err != nil {
		return err
	}
	g.kept = g.ledger.Next
	return nil
}

// Results of a summary that came from an edge, for the metric.
const (
	edgeLearned = "learned"
	edgeDoubled = "doubled"
	edgeRefused = "refused"
)
