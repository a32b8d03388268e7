package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/relay"
	"github.com/embedd/embedd/stream/spec"
)

func (p *Pipeline) status(context.Context, *Request) (any, error) { return p.report(), nil }

func (p *Pipeline) report() spec.Report {
	r := p.Status().Report()
	r.Instance = p.Service()
	return r
}

func (p *Pipeline) resume(ctx context.Context, q *Request) (any, error) {
	if p.Relay.Resume() { // else another replica is the one that is halted
		p.record(ctx, "resume", q)
	}
	return p.report(), nil
}

// Messages are the limit and the formats of messages.
type Messages struct {
	Limit         int64 // bytes
	Input, Output wire.Format
}

// Messages are what messages the pipeline takes and makes.
func (p *Pipeline) Messages() Messages {
	return Messages{int64(cmp.Or(p.Stage.Spec.Limits.Message, arrowio.DefaultLimits().Message)),
		cmp.Or(p.Stage.Spec.Format, wire.FormatArrow), cmp.Or(p.Stage.Output.Format, wire.FormatArrow)}
}

func (p *Pipeline) transform(ctx context.Context, q *Request) (any, error) {
	if q.First != nil && q.First.of != p { // its model may be of other features, its format another one
		return nil, WithCode(CodeConflict, errors.New("the pipeline was opened again in the middle of a stream, because its "+
			"configuration or schema changed: send it again"))
	}
	codec, err := p.codec(q)
	if err != nil {
		return nil, err
	}
	m, err := codec.Decode(q.Data)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	age, stale := p.Freshness.Age()
	marks, live := relay.StaleMark(age, stale), p.Running.Live()
	if first := q.First; first != nil {
		if p.WhenStale == spec.StalePass && stale != (first.Model == nil) {
			return nil, WithCode(CodeStale, errors.New("the model became stale, or fresh again, in the middle of a stream"))
		}
		marks, live = first.marks, first.Model
	}
	if stale {
		switch p.WhenStale {
		case spec.StaleHold:
			return nil, WithCode(CodeStale, errors.New(p.Relay.StaleReason(age)))
		case spec.StalePass:
			return Message{Data: q.Data, Format: cmp.Or(q.Input, p.Messages().Input),
				Pairs: append(slices.Clone(marks), wire.VersionPair()), marks: marks, of: p, codec: codec}, nil
		}
	}
	_, r, err := p.Relay.Project(ctx, codec, q.Data, m, live)
	if errors.Is(err, plugin.ErrNoModel) {
		return nil, WithCode(CodeNoModel, fmt.Errorf("%w: %s", err, p.Progress()))
	}
	if err != nil {
		return nil, err
	}
	if r.RejectedRows() > 0 {
		code, err := relay.RejectionOf(r)
		return nil, WithCode(string(code), err)
	}
	data, err := codec.Encode(r, marks...)
	if err != nil {
		return nil, err
	}
	return Message{data, cmp.Or(q.Output, p.Messages().Output), append(r.Live.Metadata(), marks...), r.Live, marks, p,
		codec}, nil
}

// codec is the codec of a transform, which is that of the answer that it continues.
func (p *Pipeline) codec(q *Request) (*stage.Codec, error) {
	if q.First != nil {
		return q.First.codec, nil
	}
	own := p.Messages()
	return stage.NewCodec(p.Running, cmp.Or(q.Input, own.Input), cmp.Or(q.Output, own.Output))
}
