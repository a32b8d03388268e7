package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/configured"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// CompareConfiguration returns the keys of a pipeline's configuration that are not those with which it last ran, and
// what a start makes of each. It changes nothing. js may be nil for a pipeline on core NATS.
func CompareConfiguration(ctx context.Context, js jetstream.JetStream, p spec.Pipeline) ([]spec.Change, error) {
	return guard(ctx, js, "reading the configuration in effect", p.Name,
		func(ctx context.Context) ([]spec.Change, error) {
			changes, _, err := compareConfiguration(ctx, js, &p)
			return changes, err
		})
}

func compareConfiguration(ctx context.Context, js jetstream.JetStream, p *spec.Pipeline) (changes []spec.Change,
	pointer *registry.Pointer, err error) {
	var record configured.Record
	if entry, err := configurationOf(ctx, js, p); err != nil {
		return nil, nil, err
	} else if entry != nil {
		if record, _, err = configured.Read(ctx, entry); err != nil {
			return nil, nil, err
		}
	}
	actual := configured.Actual{IsTrainer: true}
	models, err := modelsOf(ctx, js, p)
	if err != nil {
		return nil, nil, err
	}
	pointer = &registry.Pointer{}
	if models != nil {
		if pointer, err = models.Pointer(ctx); err != nil {
			return nil, nil, err
		}
	}
	if v := pointer.Find(pointer.Live); v != nil && !v.Bootstrap && !v.WasReset {
		actual.Dim = v.Dim
	}
	if p.Stage.Fixed == nil && !p.ModelsFromHub() {
		store, err := schemaStore(ctx, js, p, false)
		if err == nil {
			stored, _, err := store.Read(ctx)
			if err != nil {
				return nil, nil, err
			}
			actual.Contract = stored.Contract
		} else if !errors.Is(err, jetstream.ErrBucketNotFound) && !errors.Is(err, ErrSchemaNotStored) {
			return nil, nil, err
		}
	}
	return configured.Compare(p, record, actual), pointer, nil
}

// configurationOf returns where the configuration in effect is stored; nil where it is not.
func configurationOf(ctx context.Context, js jetstream.JetStream, p *spec.Pipeline) (statestore.Entry, error) {
	switch {
	case p.ModelsFromHub(), p.Stream == "" && (p.Models.Directory == "" || p.Stage.Fixed != nil):
		return nil, nil
	case p.Stream == "":
		return statestore.File(filepath.Join(p.Models.Directory, p.Name, "configured.json")), nil
	}
	bucket, err := natsx.OpenBucketByKey(ctx, js, statestore.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return statestore.Key(bucket, statestore.ConfiguredKey(p.Name)), nil
}

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
	return guard(ctx, js, "resetting the model", p.Name, func(ctx context.Context) (*ModelReset, error) {
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
	_, err := guard(ctx, js, "resetting the model", r.Pipeline.Name, func(ctx context.Context) (any, error) {
		models, err := modelsOf(ctx, js, &r.Pipeline)
		if models == nil || err != nil {
			return nil, err
		}
		return models.Reset(ctx)
	})
	return err
}
