package admin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// ModelReset is a reset of the live model that has been planned and not applied.
type ModelReset struct {
	Pipeline spec.Pipeline
	Live     registry.Version // the model that answers until the next one exists; no name: there is none
	Epoch    int              // the next one
	Changes  []spec.Change    // keys of the configuration that are not those with which the pipeline last ran
}

// ErrModelElsewhere is returned by PlanModelReset for a pipeline whose model is decided elsewhere, or is not stored.
var ErrModelElsewhere = errors.New("there is no model to reset")

// PlanModelReset checks that the live model of a pipeline can be reset, and returns what the reset would do. It changes
// nothing. js may be nil for a pipeline on core NATS.
func PlanModelReset(ctx context.Context, js jetstream.JetStream, p spec.Pipeline) (*ModelReset, error) {
	switch {
	case p.Stage.Fixed != nil:
		return nil, fmt.Errorf("the model of pipeline %s is a file: change model.file (%w)", p.Name, ErrModelElsewhere)
	case p.ModelsFromHub():
		return nil, fmt.Errorf("the models of pipeline %s come from the hub (JetStream domain %s): use 'embedd model reset' "+
			"there (%w)", p.Name, p.Models.Hub, ErrModelElsewhere)
	case p.Models.None || p.Stream == "" && p.Models.Directory == "":
		return nil, fmt.Errorf("the models of pipeline %s are not stored, and a restart begins without one (%w)", p.Name,
			ErrModelElsewhere)
	}
	return guard(ctx, js, "resetting the model", &p, func(ctx context.Context) (*ModelReset, error) {
		changes, pointer, err := compareConfiguration(ctx, js, &p)
		if err != nil {
			return nil, err
		}
		if pointer.Pin != "" {
			return nil, fmt.Errorf("model %s is pinned, so no other goes live: 'embedd model unpin %s' first (%w)", pointer.Pin,
				p.Name, registry.ErrPinned)
		}
		r := &ModelReset{Pipeline: p, Changes: changes, Epoch: pointer.Epochs + 1}
		if v := pointer.Find(pointer.Live); v != nil {
			r.Live, r.Epoch = *v, max(r.Epoch, v.Epoch+1)
		}
		return r, nil
	})
}

// Apply marks the live model as reset. Running daemons follow.
func (r *ModelReset) Apply(ctx context.Context, js jetstream.JetStream) error {
	_, err := guard(ctx, js, "resetting the model", &r.Pipeline, func(ctx context.Context) (any, error) {
		models, err := modelsOf(ctx, js, &r.Pipeline)
		if models == nil || err != nil {
			return nil, err
		}
		return models.Reset(ctx)
	})
	return err
}

// modelsOf returns the models of a pipeline; nil where none are stored, or no store exists yet.
func modelsOf(ctx context.Context, js jetstream.JetStream, p *spec.Pipeline) (*registry.Registry, error) {
	var store registry.Store
	var err error
	switch dir := p.Models.Directory; {
	case p.Models.None || p.Stage.Fixed != nil || p.ModelsFromHub() || p.Stream == "" && dir == "":
		return nil, nil
	case dir != "":
		if _, err := os.Stat(filepath.Join(dir, p.Name)); errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		store, err = registry.Directory(dir)
	default:
		store, err = registry.JetStream(ctx, js)
	}
	if errors.Is(err, registry.ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return registry.New(store, p.Name, registry.Options{}), nil
}

// pointerOf reads the pointer to the models of a pipeline; an empty one where none are stored, or no store exists yet.
func pointerOf(ctx context.Context, js jetstream.JetStream, p *spec.Pipeline) (*registry.Pointer, error) {
	models, err := modelsOf(ctx, js, p)
	if models == nil || err != nil {
		return &registry.Pointer{}, err
	}
	return models.Pointer(ctx)
}
