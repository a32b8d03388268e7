package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/spec"
)

// A pipeline's name is bound to its input stream: models are kept under the name alone, and two pipelines of one name
// would answer with each other's. What binds is the durable consumer, as it binds the name to a subject; the pointer of
// the model store says of which stream it is. On core NATS there is no consumer, and nothing is bound.

// checkName refuses a name that is bound to another stream, as long as that has the consumer of the name.
func (p *pipeline) checkName(ctx context.Context, bound string) error {
	if p.Stream == "" || bound == "" || bound == p.Stream {
		return nil
	}
	p.Permissions.Refresh(ctx)
	asks := natsx.Permission{Action: natsx.Publish, Subject: consumerInfo(p.JS, bound, p.ConsumerName())}
	if p.Permissions.IsDenied(asks) {
		return p.nameTaken(bound, fmt.Sprintf("and this user may not ask whether anybody uses it there (%q)", asks.Subject))
	}
	_, err := p.JS.Consumer(ctx, bound, p.ConsumerName())
	switch {
	case err == nil:
		return p.nameTaken(bound, fmt.Sprintf("which has its consumer %s", p.ConsumerName()))
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	}
	return natsx.ExplainAPIError(err)
}

func (p *pipeline) nameTaken(bound, why string) error {
	return spec.Describe(fmt.Sprintf("the name %s and its models belong to stream %s, %s, and the pipeline is to read stream %s. Give the pipeline a name of its own; or, where nobody runs it on %s any more, 'nats consumer rm %s %s', and it goes on here with the models of its name",
		p.Name, bound, why, p.Stream, bound, bound, p.ConsumerName()), ErrConsumerTaken)
}

// bindName says in the model store whose the name is. Where the store does not take that, the pipeline runs all the
// same: its models would not be taken either, and that is told when there is one.
func (p *pipeline) bindName(ctx context.Context) error {
	if p.Stream == "" || p.models == nil || p.hub != nil || p.bound == p.Stream {
		return nil
	}
	var bound string
	err := p.Permissions.Guard(ctx, p.Permissions.IsServerRequest, func(ctx context.Context) (err error) {
		bound, err = p.models.Bind(ctx, p.bound, p.Stream)
		return err
	})
	switch {
	case err != nil && ctx.Err() == nil:
		p.Log.Warn("the model store does not note which stream the pipeline's name belongs to", "error", err)
	case err == nil && bound != p.Stream:
		return p.nameTaken(bound, "which was first just now")
	case err == nil && p.bound != "":
		p.Log.Warn("the pipeline's name belonged to another stream, which has no consumer of it any more; it goes on here with the models of its name",
			"before", p.bound, "stream", p.Stream)
	}
	return nil
}

// consumerInfo is where a server is asked for a consumer.
func consumerInfo(js jetstream.JetStream, stream, consumer string) string {
	next := natsx.PullSubject(js, stream, consumer)
	return strings.Replace(next, ".CONSUMER.MSG.NEXT.", ".CONSUMER.INFO.", 1)
}
