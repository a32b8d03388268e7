package stream

import (
	"context"

	"github.com/embedd/embedd/stream/internal/needs"
)

// A pipeline's name is bound to its input stream: models are kept under the name alone, and two pipelines of one name
// would answer with each other's. What binds is the durable consumer, as it binds the name to a subject; the pointer of
// the model store says of which stream it is. On core NATS there is no consumer, and nothing is bound.

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
		return needs.NameTaken(&p.Pipeline, p.Domain, bound, "which was first just now")
	case err == nil && p.bound != "":
		p.Log.Warn("the pipeline's name belonged to another stream, which has no consumer of it any more; it goes on here with the models of its name",
			"before", p.bound, "stream", p.Stream)
	}
	return nil
}
