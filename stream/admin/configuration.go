package admin

import (
	"context"
	"errors"
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
	return guard(ctx, js, "reading the configuration in effect", &p,
		func(ctx context.Context) ([]spec.Change, error) {
			changes, _, err := compareConfiguration(ctx, js, &p)
			return changes, err
		})
}

// compareConfiguration is CompareConfiguration without guard, and returns the pointer to the models too.
func compareConfiguration(ctx context.Context, js jetstream.JetStream, p *spec.Pipeline) (changes []spec.Change,
	pointer *registry.Pointer, err error) {
	record, err := readConfiguration(ctx, js, p)
	if err != nil {
		return nil, nil, err
	}
	if pointer, err = pointerOf(ctx, js, p); err != nil {
		return nil, nil, err
	}
	actual := configured.Actual{IsTrainer: true}
	if v := pointer.Find(pointer.Live); v != nil && !v.Bootstrap && !v.WasReset {
		actual.Dim = v.Dim
	}
	if p.Stage.Fixed == nil && !p.ModelsFromHub() {
		stored, err := readSchema(ctx, js, p)
		if err != nil && !errors.Is(err, ErrSchemaNotStored) {
			return nil, nil, err
		}
		actual.Contract = stored.Contract
	}
	return configured.Compare(p, record, actual), pointer, nil
}

// readConfiguration reads the configuration in effect; an empty one where it is not stored.
func readConfiguration(ctx context.Context, js jetstream.JetStream, p *spec.Pipeline) (record configured.Record,
	err error) {
	var entry statestore.Entry
	switch {
	case p.ModelsFromHub(), p.Stream == "" && (p.Models.Directory == "" || p.Stage.Fixed != nil):
		return record, nil
	case p.Stream == "":
		entry = statestore.File(filepath.Join(p.Models.Directory, p.Name, "configured.json"))
	default:
		bucket, err := natsx.OpenBucketByKey(ctx, js, statestore.Bucket)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			return record, nil
		}
		if err != nil {
			return record, err
		}
		entry = statestore.Key(bucket, statestore.ConfiguredKey(p.Name))
	}
	record, _, err = configured.Read(ctx, entry)
	return record, err
}
