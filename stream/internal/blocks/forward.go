package blocks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/summaries"
)

// forwarder computes the summaries of an edge and sends them to the hub, in the order of the blocks, each once. Any
// replica may do it: the stream of sent summaries defines the next one, and accepts it only after the previous one.
type forwarder struct {
	reader
	producer *producer
	counter  edgeCounter
	sent     *summaries.Sender // nil: not opened yet
	cause    string            // the reported reason why nothing is sent; "": none
}

// step sends the next summary, or makes one. Transforms never wait for it: what prevents it is reported and tried
// again.
func (f *forwarder) step(ctx context.Context) (progressed bool, err error) {
	if err := f.open(ctx); err != nil {
		f.report(ctx, err)
		return false, err
	}
	if f.Running.Contract() == nil {
		err := f.counter.step(ctx, f.sent)
		f.report(ctx, err)
		return false, err
	}
	sent, err := f.send(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		f.sent = nil // it is created again if it is the edge's
	}
	f.report(ctx, err)
	if sent { // the producer would make it again before the progress is stored
		return true, err
	}
	made, errMade := f.producer.step(ctx)
	return made, errors.Join(err, errMade)
}

// open opens the stream of what was sent and the bucket of the summaries, and creates them where they are missing.
func (f *forwarder) open(ctx context.Context) error {
	if f.sent != nil {
		return nil
	}
	return f.Permissions.Guard(ctx, f.Permissions.IsServerRequest, func(ctx context.Context) (err error) {
		if err = f.checkRetention(); err == nil {
			err = f.checkDomain(ctx)
		}
		if err == nil && f.bucket == nil {
			f.bucket, err = summaries.Open(ctx, f.JS, f.Models.Replicas)
		}
		if err == nil {
			f.sent, err = summaries.OpenSender(ctx, f.JS, needs.SummaryBytes(&f.Pipeline), f.Models.Replicas)
		}
		if err != nil {
			return err
		}
		if c := f.sent.Config(); needs.SummaryLimit(&f.Pipeline, &c) != "" {
			f.Log.Warn(needs.SummaryLimit(&f.Pipeline, &c))
		}
		return nil
	})
}

// checkDomain returns an error if the hub does not accept summaries from the domain of the server.
func (f *forwarder) checkDomain(ctx context.Context) error {
	account, err := f.JS.AccountInfo(ctx)
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	if text := needs.UnnamedEdge(account.Domain, f.Edges); text != "" {
		return errors.New(text)
	}
	return nil
}

// report reports in the status why nothing is sent to the hub, once for each reason, and when that ends.
func (f *forwarder) report(ctx context.Context, err error) {
	cause := ""
	if err != nil {
		cause = err.Error()
	}
	if cause == f.cause || ctx.Err() != nil {
		return
	}
	f.cause = cause
	now := health.Timestamp(time.Now())
	if err == nil {
		f.training.SetEvent(fmt.Sprintf("summaries of the input are sent to the hub again, since %s", now))
		return
	}
	f.training.SetEvent(fmt.Sprintf("no summary of the input is sent to the hub, seen at %s, and that is tried again; "+
		"answers continue: %s", now, cause))
}

// send sends the summary that is next, if it is stored.
func (f *forwarder) send(ctx context.Context) (sent bool, err error) {
	complete, err := f.complete(ctx)
	if err != nil {
		return false, err
	}
	if f.collection == nil || !complete.created.Equal(f.created) {
		f.reader = reader{Blocks: f.Blocks, created: complete.created, collection: f.Blocks.collection(complete.created)}
	}
	after, err := f.seek(ctx, complete)
	if err != nil {
		return false, err
	}
	if err := f.storeSent(ctx); err != nil {
		return false, err
	}
	text, err := f.collection.Get(ctx, f.next, f.Running.MaxSummary())
	if errors.Is(err, summaries.ErrMissing) {
		return false, nil
	}
	b := f.block(f.created, f.next)
	if err == nil {
		err = f.Running.CheckSummary(b, f.Running.Features(), text)
	}
	if err != nil {
		return false, f.discardUnusable(ctx, err, true)
	}
	n := summaries.Notice{Created: f.created.UnixNano(), First: b.First, Last: b.Last, Settings: f.Running.Settings()}
	if sent, err = f.sent.Send(ctx, f.Name, n, text, after); err != nil || !sent {
		return false, err
	}
	if err := f.sent.SaveLast(ctx, f.bucket, f.Name, n); err != nil {
		return false, err
	}
	f.Series.Add(health.Summaries, 1, "sent")
	f.Log.Debug("a summary was sent to the hub", "first", b.First, "last", b.Last, "bytes", len(text))
	return true, f.collection.Delete(ctx, f.next)
}

// seek moves to the block after the last that was sent, and returns the sequence number of its notice.
func (f *forwarder) seek(ctx context.Context, complete blockRange) (after uint64, err error) {
	last, after, err := f.sent.LastNotice(ctx, f.Name)
	if err == nil && last == nil {
		last, err = f.sent.LoadLast(ctx, f.bucket, f.Name)
	}
	if err != nil {
		return 0, err
	}
	next := complete.first
	if last != nil && last.Created == complete.created.UnixNano() {
		next = max(next, (last.Last+f.blockSize()-1)/f.blockSize())
	}
	if f.next != next {
		f.next, f.unusable = next, 0
	}
	return after, nil
}

// storeSent stores which block is next, and from time to time deletes summaries of blocks that were sent: those from
// before this process, and those that another replica stored late.
func (r *reader) storeSent(ctx context.Context) error {
	now := summaries.Progress{From: r.next, Next: r.next, Features: r.Running.Features()}
	if r.progress != nil && isSame(r.progress, &now) {
		return nil
	}
	stored, err := r.collection.Progress(ctx)
	if err != nil {
		return err
	}
	if stored == nil || !isSame(stored, &now) {
		if err := r.collection.SetProgress(ctx, now); err != nil {
			return err
		}
	}
	if r.progress == nil || now.Next > r.progress.Next+1 || now.Next%maxAhead == 0 {
		if err := r.collection.DeleteObsolete(ctx, now.From); err != nil {
			return err
		}
	}
	r.progress = &now
	return nil
}
