package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/relay"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// versionRequest is the request of the endpoints about one model.
type versionRequest struct {
	Version string `json:"version"`
}

func versionOf(msg *nats.Msg) (string, error) {
	var r versionRequest
	if len(msg.Data) == 0 {
		return "", nil
	}
	if err := json.Unmarshal(msg.Data, &r); err != nil {
		return "", coded(CodeBadRequest, fmt.Errorf(`the request is not JSON as {"version":"..."}: %w`, err))
	}
	return r.Version, nil
}

func (s *Service) status(context.Context, *nats.Msg) (any, error) { return s.report(), nil }

func (s *Service) report() spec.Report {
	r := s.pipeline.Status().Report()
	r.Instance = s.micro.Info().ID
	return r
}

// errNotTrainer is returned by an endpoint that does not answer, because another replica does.
var errNotTrainer = errors.New("the trainer answers")

// retrain has the trainer fit a candidate. The other replicas do not answer.
func (s *Service) retrain(context.Context, *nats.Msg) (any, error) {
	p := s.pipeline
	if p.Running.Learns() && !p.Replica.IsTrainer() {
		if p.Replica.HasTrainer() {
			return nil, errNotTrainer
		}
		return nil, coded(CodeConflict,
			errors.New("no replica holds the trainer's lease yet; send the request again in some seconds"))
	}
	if p.Replica.IsPinned() {
		return nil, coded(CodePinned, fmt.Errorf(
			"%s is pinned, so no candidate goes live; `embedd model unpin %s` first",
			p.Running.Live().Version, p.Name))
	}
	if err := p.Running.Refit(); err != nil {
		return nil, err
	}
	return s.report(), nil
}

func (s *Service) resume(context.Context, *nats.Msg) (any, error) {
	s.pipeline.Relay.Resume() // another replica may be the one that is halted
	return s.report(), nil
}

func (s *Service) transform(ctx context.Context, msg *nats.Msg) (any, error) {
	p := s.pipeline
	m, err := p.Running.Decode(msg.Data)
	if err != nil {
		return nil, err
	}
	age, stale := p.Freshness.Age()
	marks := relay.StaleMark(age, stale)
	if stale {
		switch p.WhenStale {
		case spec.StaleHold:
			return nil, coded(CodeStale, errors.New(p.Relay.StaleReason(age)))
		case spec.StalePass:
			return reply{msg.Data, append(marks, wire.VersionPair())}, nil
		}
	}
	m, r, err := p.Relay.Project(ctx, msg.Data, m)
	if errors.Is(err, plugin.ErrNoModel) {
		return nil, coded(CodeNoModel, fmt.Errorf("%w: %s", err, p.Progress()))
	}
	if err != nil {
		return nil, err
	}
	if r.RejectedRows() > 0 {
		f := r.Faults[0]
		return nil, coded(string(wire.NonFinite),
			fmt.Errorf("%d of %d rows have features that cannot be projected: row %d, feature %q is %s; fix them, or set "+
				"schema.nulls to impute or skip",
				r.RejectedRows(), m.Rows(), f.Row, f.Feature, f.What))
	}
	data, err := p.Running.Encode(r, marks...)
	if err != nil {
		return nil, err
	}
	return reply{data, append(r.Live.Metadata(), marks...)}, nil
}

// store is the model store of the pipeline.
func (s *Service) store() (*registry.Registry, error) {
	switch p := s.pipeline; {
	case p.Replica.Models != nil:
		return p.Replica.Models, nil
	case p.Stage.Fixed != nil:
		return nil, plugin.ErrFixed
	}
	return nil, coded(CodeNoModel, errors.New("the pipeline stores no models; set model.store"))
}

func (s *Service) list(ctx context.Context, _ *nats.Msg) (any, error) {
	r, err := s.store()
	if err != nil {
		return nil, err
	}
	p, err := r.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{"models": p.List(s.pipeline.Name)}, nil
}

func (s *Service) show(ctx context.Context, msg *nats.Msg) (any, error) {
	version, err := versionOf(msg)
	if err != nil {
		return nil, err
	}
	live := s.pipeline.Running.Live()
	if version == "" || live != nil && version == live.Version {
		if live == nil {
			return nil, plugin.ErrNoModel
		}
		return live.Model, nil
	}
	r, err := s.store()
	if err != nil {
		return nil, err
	}
	return r.Model(ctx, version)
}

// conversion answers with the map from the outputs of the epoch before that of a version. The first version of an epoch
// has it.
func (s *Service) conversion(ctx context.Context, msg *nats.Msg) (any, error) {
	version, err := versionOf(msg)
	if err != nil {
		return nil, err
	}
	live := s.pipeline.Running.Live()
	if version == "" && live == nil {
		return nil, plugin.ErrNoModel
	}
	if version == "" || live != nil && version == live.Version {
		return registry.ConversionOf(live.First())
	}
	r, err := s.store()
	if err != nil {
		return nil, err
	}
	return r.Conversion(ctx, version)
}

func (s *Service) pin(ctx context.Context, msg *nats.Msg) (any, error) {
	return s.choose(msg, func(r *registry.Registry, version string) (*registry.Pointer, error) {
		return r.Pin(ctx, version)
	})
}

func (s *Service) unpin(ctx context.Context, msg *nats.Msg) (any, error) {
	return s.choose(msg, func(r *registry.Registry, _ string) (*registry.Pointer, error) { return r.Unpin(ctx) })
}

func (s *Service) rollback(ctx context.Context, msg *nats.Msg) (any, error) {
	return s.choose(msg, func(r *registry.Registry, version string) (*registry.Pointer, error) {
		return r.Rollback(ctx, version)
	})
}

// choose changes which model is live. This process follows the store, as all replicas do.
func (s *Service) choose(msg *nats.Msg,
	change func(*registry.Registry, string) (*registry.Pointer, error)) (any, error) {
	version, err := versionOf(msg)
	if err != nil {
		return nil, err
	}
	r, err := s.store()
	if err != nil {
		return nil, err
	}
	p, err := change(r, version)
	if err != nil {
		return nil, err
	}
	return p.Chosen(s.pipeline.Name), nil
}
