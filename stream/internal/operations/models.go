package operations

import (
	"context"
	"fmt"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/registry"
)

// list answers with the versions and rejected candidates, and with the changes of the live version.
func (p *Pipeline) list(ctx context.Context, _ *Request) (any, error) {
	r, err := p.store()
	if err != nil {
		return nil, err
	}
	pointer, err := r.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{"models": pointer.List(p.Name), "turns": append([]registry.Turn{}, pointer.Turns...),
		"dropped_turns": pointer.Dropped}, nil
}

func modelOf(live *plugin.Live) (*model.Model, error) { return live.Model, nil }

// conversionOf is the map from the outputs of the epoch before. The first version of an epoch has it.
func conversionOf(live *plugin.Live) (*registry.Conversion, error) {
	return registry.ConversionOf(live.First())
}

// find answers with what is read of a version: of the live one, which is the default, or of one in the store.
func find[T any](live func(*plugin.Live) (T, error),
	stored func(*registry.Registry, context.Context, string) (T, error)) do {
	return func(p *Pipeline, ctx context.Context, q *Request) (any, error) {
		now := p.Running.Live()
		switch {
		case q.Version == "" && now == nil:
			return nil, plugin.ErrNoModel
		case q.Version == "" || now != nil && q.Version == now.Version:
			return live(now)
		}
		r, err := p.store()
		if err != nil {
			return nil, err
		}
		return stored(r, ctx, q.Version)
	}
}

// choose changes which model is live. This process follows the store, as all replicas do.
func choose(what string,
	change func(*registry.Registry, context.Context, registry.Request) (*registry.Pointer, error)) do {
	return func(p *Pipeline, ctx context.Context, q *Request) (any, error) {
		r, err := p.store()
		if err != nil {
			return nil, err
		}
		pointer, err := change(r, ctx, registry.Request{Version: q.Version, Live: q.Live, By: q.By,
			Check: func(m *model.Model) error {
				if mismatch := p.Replica.FeatureMismatch(m); mismatch != "" {
					return WithCode(CodeBadRequest, fmt.Errorf("the model %s", mismatch))
				}
				return nil
			}})
		if err != nil {
			return nil, err
		}
		p.Log.Info("an operator chose the live model", "request", what, "live", pointer.Live, "pinned",
			pointer.Pin != "", "by", q.By)
		return pointer.Chosen(p.Name), nil
	}
}

// recordTimeout is how long it may take to keep a request with the models.
const recordTimeout = 5 * time.Second

// record logs what an operator requested, with attributes, and keeps it with the models. It is done already, so that an
// error is only logged, and that the request was canceled or took too long does not hide it.
func (p *Pipeline) record(ctx context.Context, what string, q *Request, attributes ...any) {
	p.Log.Info("an operator made a request", append([]any{"request", what, "by", q.By}, attributes...)...)
	if p.Replica.Models == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := p.Replica.Models.Record(ctx, what, q.By); err != nil {
		p.Log.Warn("the request of an operator is not recorded with the models", "request", what, "error", err)
	}
}

// retrain has the trainer fit a candidate. The other replicas do not answer.
func (p *Pipeline) retrain(ctx context.Context, q *Request) (any, error) {
	if err := p.onlyTrainer(); err != nil {
		return nil, err
	}
	now := "no version"
	if live := p.Running.Live(); live != nil {
		now = live.Version
	}
	if q.Live != "" && now != q.Live {
		return nil, WithCode(CodeConflict, fmt.Errorf("the request was made while %s was live, and %s is; look again, and "+
			"repeat the request", q.Live, now))
	}
	if p.Replica.IsPinned() {
		return nil, WithCode(CodePinned, fmt.Errorf("%s is pinned, so no candidate goes live; `embedd model unpin %s` first",
			now, p.Name))
	}
	if err := p.Running.Refit(); err != nil {
		return nil, err
	}
	p.record(ctx, "retrain", q)
	return p.report(), nil
}
