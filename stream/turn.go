package stream

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/summaries"
)

// learning is a reader of what is learned: of messages, or of summaries.
type learning interface {
	run(ctx context.Context)  // until ctx is done; it may be run again
	skipTo(live *plugin.Live) // to where the window of a model begins
}

// learnInTurn reads to learn whenever it is this replica's turn.
func (p *pipeline) learnInTurn(ctx context.Context) {
	var r learning
	switch {
	case p.arrived != nil:
		r = newGatherer(p)
	case p.shares():
		r = newMerger(p)
	default:
		// A lesson that was begun when the turn ends is learned: the place in the stream is behind it already.
		r = newReader(p, func(_ context.Context, l *lesson) { p.learn(ctx, l) })
	}
	every := time.NewTicker(p.replica.LeaseLife() / 3) // a lease ends in silence where it cannot be renewed
	defer every.Stop()
	for ctx.Err() == nil {
		p.resting.Store(!p.replica.ReadsForLearning())
		if p.resting.Load() {
			select {
			case <-every.C:
			case <-p.replica.Changed():
			case <-ctx.Done():
			}
			continue
		}
		r.skipTo(p.Running.Live())
		p.learnNow(ctx, r, every.C)
	}
}

// learnNow reads until it is another's turn.
func (p *pipeline) learnNow(ctx context.Context, r learning, every <-chan time.Time) {
	turn, over := context.WithCancel(ctx)
	defer over()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.run(turn)
	}()
	for p.replica.ReadsForLearning() && ctx.Err() == nil {
		select {
		case <-every:
		case <-p.replica.Changed():
		case <-ctx.Done():
		}
	}
	over()
	<-ended
}

// skipTo moves to where the window of a model begins: what is before it nobody needs any more.
func (r *reader) skipTo(live *plugin.Live) {
	r.at.next = max(r.at.next, windowOf(live, r.at.stream))
}

// windowOf is the number of the message with which the window of a model begins, in a stream that was made at a time; 0
// where the model is of another.
func windowOf(live *plugin.Live, made time.Time) uint64 {
	if live == nil || live.Model.Note().Source["created"] != made.UTC().Format(time.RFC3339Nano) {
		return 0
	}
	switch created, seq := stage.ReadFrom(live.State); created {
	case made.UnixNano():
		return seq
	case 0:
		return fittedFrom(live)
	}
	return 0 // it begins in the stream before
}

// windowStart is the sequence number from which the window of a model's fit can be filled again, windowEnd that of
// the last message it saw; 0 where the note does not say.
func fittedFrom(l *plugin.Live) uint64 { return sourceNumber(l, "first") }
func fittedTo(l *plugin.Live) uint64   { return sourceNumber(l, "last") }

func sourceNumber(l *plugin.Live, key string) uint64 {
	n, _ := strconv.ParseUint(l.Model.Note().Source[key], 10, 64)
	return n
}

// hasAnswered tells whether a pipeline of this name has answered, whatever became of its models: its consumer has
// acknowledged something, there is an output of its subject, or it has learned what edges answer with. The last output says
// which epoch was used last, but not which was the highest, and it may have aged out; so no more than that is asked.
func (p *pipeline) hasAnswered(ctx context.Context) (bool, error) {
	if p.Input == nil {
		return false, nil
	}
	if p.arrived != nil { // its edges answer with what it learns
		used, err := summaries.HasLedger(ctx, p.JS, p.Name)
		return used, natsx.ExplainAPIError(err)
	}
	c, err := p.Input.Consumer(ctx, p.ConsumerName())
	if err == nil && c.CachedInfo().AckFloor.Stream > 0 {
		return true, nil
	}
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, natsx.ExplainAPIError(err)
	}
	stream, err := p.tail.sinks[p.Output].look(ctx)
	if err != nil {
		return false, natsx.ExplainAPIError(err)
	}
	out, err := stream.Info(ctx, jetstream.WithSubjectFilter(p.Output))
	if err != nil {
		return false, natsx.ExplainAPIError(err)
	}
	return out.State.Subjects[p.Output] > 0, nil
}
