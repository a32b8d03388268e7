package replica

import (
	"context"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
)

// A pipeline's name is bound to its input stream: models are stored under the name alone, and two pipelines of one name
// would answer with each other's. The durable consumer binds it, as it binds the name to a subject; the pointer of the
// model store names the stream. On core NATS there is no consumer, and nothing is bound.

// BindName records in the model store which stream the pipeline's name belongs to. When the store does not take that,
// the pipeline runs nevertheless: its models would not be taken either, which is reported when there is one.
func (r *Replica) BindName(ctx context.Context) error {
	if r.Stream == "" || r.Models == nil || r.mirror != nil || r.boundTo == r.Stream {
		return nil
	}
	bound, err := natsx.Guarded(ctx, r.Permissions, func(ctx context.Context) (string, error) {
		return r.Models.Bind(ctx, r.boundTo, r.Stream)
	})
	switch {
	case err != nil && ctx.Err() == nil:
		r.Log.Warn("the model store does not record which stream the pipeline's name belongs to", "error", err)
	case err == nil && bound != r.Stream:
		return needs.NameTaken(&r.Pipeline, r.Domain, bound, "which was first just now")
	case err == nil && r.boundTo != "":
		r.Log.Warn("the pipeline's name belonged to another stream, which no longer has its consumer; it continues here "+
			"with the models of its name", "before", r.boundTo, "stream", r.Stream)
	}
	return nil
}
