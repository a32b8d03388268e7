package blocks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/schema"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/internal/summaries"
)

// forwarder computes the summaries of an edge and sends them to the hub, in the order of the blocks, each once. Any
// replica may do it: the stream of sent summaries defines the next one, and accepts it only after the previous one.
// Until the hub knows the schema, it sends what was counted here instead.
type forwarder struct {
	reader
	producer *producer
	sender   *summaries.Sender // nil: not opened yet
	cause    string            // the reported reason why nothing is sent; "": none

	schema  *schema.Store // of the hub; nil: not opened yet
	counted int           // messages in the counts that were sent last
	begun   time.Time     // when the first counts were sent
	sentAt  time.Time     // when the last were
}

func newForwarder(p *producer) *forwarder {
	return &forwarder{reader: reader{input: input{Blocks: p.Blocks}}, producer: p}
}

// step sends the next summary, or makes one. Transforms never wait for it: what prevents it is reported and tried
// again.
func (f *forwarder) step(ctx context.Context) (progressed bool, err error) {
	isSent, err := f.send(ctx)
	f.report(ctx, err)
	if isSent || f.bucket == nil || f.Running.Contract() == nil {
		return isSent, err
	}
	isMade, errMade := f.producer.step(ctx)
	return isMade, errors.Join(err, errMade)
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
func (f *forwarder) send(ctx context.Context) (isSent bool, err error) {
	if f.sender == nil || f.Running.Contract() == nil {
		err := f.Permissions.Guard(ctx, f.Permissions.IsServerRequest, f.prepare)
		if err != nil || f.Running.Contract() == nil {
			return false, err
		}
	}
	isNewStream, err := f.refresh(ctx)
	if err != nil {
		return false, err
	}
	if isNewStream {
		f.progress = nil
	}
	last, after, err := f.sender.Last(ctx)
	if err != nil {
		return false, err
	}
	next := f.first
	if last != nil && last.Created == f.created.UnixNano() {
		next = max(next, (last.Last+f.blockSize()-1)/f.blockSize())
	}
	f.moveTo(next)
	if err := f.setProgress(ctx, next); err != nil {
		return false, err
	}
	_, err = f.read(ctx, func(b stage.Block, summary []byte) (err error) {
		settings := f.Running.Settings()
		if err = f.Running.CheckSummary(b, f.Running.Features(), summary); err == nil {
			isSent, err = f.sender.Send(ctx, summaries.Notice{Created: b.Created.UnixNano(), First: b.First, Last: b.Last,
				Settings: settings}, summary, after)
		}
		return err
	})
	if isSent {
		f.Series.Add(health.Summaries, 1, "sent")
		f.Log.Debug("a summary was sent to the hub", "block", f.next)
	}
	return isSent, err
}

// prepare opens the stream of what was sent and the bucket of the summaries, and creates them where they are missing.
// Then it finds the schema.
func (f *forwarder) prepare(ctx context.Context) (err error) {
	if f.sender == nil {
		if err = f.open(ctx); err != nil {
			return err
		}
	}
	if f.Running.Contract() != nil {
		return nil
	}
	f.waiting.Store("messages are counted until the hub knows their schema")
	if err = f.sendCounted(ctx); err == nil {
		err = f.useSchema(ctx)
	}
	if f.Running.Contract() != nil {
		f.waiting.Store("")
	}
	return err
}

// reopen makes the next step open its stream and bucket again.
func (f *forwarder) reopen(context.Context) error {
	f.sender = nil
	return nil
}

func (f *forwarder) open(ctx context.Context) error {
	account, err := f.JS.AccountInfo(ctx)
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	if text := needs.UnnamedEdge(account.Domain, f.Edges); text != "" {
		return errors.New(text) // the hub does not accept summaries from the domain of the server
	}
	if err := f.openBucket(ctx); err != nil {
		return err
	}
	sender, err := summaries.OpenSender(ctx, f.bucket, f.Name, needs.SummaryBytes(&f.Pipeline), f.Models.Replicas)
	if err == nil {
		f.sender = sender
		f.warnOfLimit(sender.Info())
	}
	return err
}

// sendCounted sends what was counted here if it has changed: every second at first, then at growing intervals. The hub
// adds up what all edges counted and decides on the schema.
func (f *forwarder) sendCounted(ctx context.Context) error {
	if time.Since(f.sentAt) < max(time.Second, f.sentAt.Sub(f.begun)/16) {
		return nil
	}
	text, messages, err := f.Running.Counted()
	if err != nil || messages == f.counted {
		return err
	}
	if err := f.sender.SendCounted(ctx, text); err != nil {
		return err
	}
	if f.sentAt = time.Now(); f.counted == 0 {
		f.begun = f.sentAt
	}
	f.counted = messages
	return nil
}

// useSchema makes the schema that the hub has stored that of this process.
func (f *forwarder) useSchema(ctx context.Context) error {
	if f.schema == nil {
		js, err := jetstream.NewWithAPIPrefix(f.Conn, natsx.DomainPrefix(f.Models.Hub))
		if err != nil {
			return err
		}
		bucket, err := natsx.OpenBucketByKey(ctx, js, statestore.Bucket)
		if err != nil {
			return fmt.Errorf("opening the schemas of the hub (bucket %s of JetStream domain %s): %w", statestore.Bucket,
				f.Models.Hub, natsx.ExplainAPIError(err))
		}
		f.schema = schema.In(bucket, f.Name)
	}
	record, _, err := f.schema.Read(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("reading the schema of the hub (JetStream domain %s): %w", f.Models.Hub, err)
	case record.Contract == nil:
		return nil
	case !f.Stage.Spec.Accepts(record.Elements()):
		return fmt.Errorf("the schema of the hub is %v, and schema.features is %v: give hub and edge the same schema",
			record.Contract, f.Stage.Spec.Features)
	}
	contract, err := arrowio.NewContract(record.Elements(), f.Stage.Spec.Label, f.Stage.Spec.Key)
	if err != nil {
		return err
	}
	return f.Running.FixContract(contract)
}
