package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/schema"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/spec"
)

// Schema is the schema of a pipeline: the features of its messages, and their label and key columns.
type Schema struct {
	Pipeline string            `json:"pipeline"`
	Contract *arrowio.Contract `json:"contract"` // null while messages are counted to find it
	Elements int               `json:"elements"` // of a row
	// Generation counts the schemas that were stored, from 1; 0: the schema is that of a model file and is not stored.
	Generation uint64 `json:"generation"`
	// After is the last message of the input stream that is not counted, as a reset stores it; 0: all messages count.
	After uint64 `json:"after,omitempty"`
}

// The errors of ReadSchema and PlanSchemaReset that a caller may want to distinguish.
var (
	// ErrSchemaElsewhere is returned for a pipeline that has the schema of a hub, of edges, or of a model file.
	ErrSchemaElsewhere = errors.New("the schema is decided elsewhere")
	// ErrSchemaNotStored is returned for a pipeline on core NATS without a directory of models: each start counts again.
	ErrSchemaNotStored = errors.New("the schema is not stored")
	// ErrSchemaPinned is returned for a reset while the live model is pinned, which no model of another schema replaces.
	ErrSchemaPinned = errors.New("the live model is pinned")
)

// ReadSchema reads the stored schema of a pipeline. It changes nothing. js may be nil for a pipeline on core NATS.
func ReadSchema(ctx context.Context, js jetstream.JetStream, p spec.Pipeline) (Schema, error) {
	if m := p.Stage.Fixed; m != nil {
		contract, err := p.Stage.Spec.ContractOf(m.Features())
		return schemaOf(p.Name, schema.Record{Contract: contract}), err
	}
	return guard(ctx, js, "reading the schema", &p, func(ctx context.Context) (Schema, error) {
		record, err := readSchema(ctx, js, &p)
		return schemaOf(p.Name, record), err
	})
}

// readSchema reads the stored schema of a pipeline: without a contract before the first start.
func readSchema(ctx context.Context, js jetstream.JetStream, p *spec.Pipeline) (record schema.Record, err error) {
	store, err := schemaStore(ctx, js, p)
	if errors.Is(err, jetstream.ErrBucketNotFound) { // the daemon creates it
		return schema.Record{Generation: 1}, nil
	}
	if err == nil {
		record, _, err = store.Read(ctx)
	}
	return record, err
}

func schemaOf(pipeline string, r schema.Record) Schema {
	return Schema{Pipeline: pipeline, Contract: r.Contract, Elements: r.Contract.Len(), Generation: r.Generation,
		After: r.After}
}

// SchemaReset is a reset of the schema that has been planned and not applied.
type SchemaReset struct {
	Pipeline spec.Pipeline
	Before   Schema // what is stored; without a contract while it is counted, or where it cannot be read
	// Contract is the new schema, which schema.features fixes outright; nil: messages are counted to find it.
	Contract *arrowio.Contract
	After    uint64 // last message of the input stream, which is not counted; 0 on core NATS
	created  time.Time
}

// PlanSchemaReset checks that the schema of a pipeline can be reset, and returns what the reset would do. It changes
// nothing. js may be nil for a pipeline on core NATS.
func PlanSchemaReset(ctx context.Context, js jetstream.JetStream, p spec.Pipeline) (*SchemaReset, error) {
	if p.Stage.Fixed != nil {
		return nil, fmt.Errorf("the schema of pipeline %s is that of its model file: change model.file (%w)", p.Name,
			ErrSchemaElsewhere)
	}
	if p.LearnsFromEdges() {
		return nil, fmt.Errorf("the edges count and read messages under the schema of the hub: set schema.features at the "+
			"hub and at each of them, with sizes (%w)", ErrSchemaElsewhere)
	}
	return guard(ctx, js, "resetting the schema", &p, func(ctx context.Context) (*SchemaReset, error) {
		r := &SchemaReset{Pipeline: p}
		r.Contract, _ = p.Stage.Spec.Contract()
		store, err := schemaStore(ctx, js, &p)
		if err == nil {
			err = checkUnpinned(ctx, js, &p)
		}
		if err == nil {
			// A record that cannot be read is replaced.
			if record, revision, errRead := store.Read(ctx); errRead == nil || revision != 0 {
				r.Before = schemaOf(p.Name, record)
			} else {
				err = errRead
			}
		}
		if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
			return nil, err
		}
		if p.Stream == "" {
			return r, nil
		}
		input, err := js.Stream(ctx, p.Stream)
		if err != nil {
			return nil, fmt.Errorf("input stream %s: %w", p.Stream, err)
		}
		r.After, r.created = input.CachedInfo().State.LastSeq, input.CachedInfo().Created
		return r, nil
	})
}

// Apply begins a new generation of the schema. Running daemons with an input stream open the pipeline again.
func (r *SchemaReset) Apply(ctx context.Context, js jetstream.JetStream) (Schema, error) {
	p := &r.Pipeline
	return guard(ctx, js, "resetting the schema", p, func(ctx context.Context) (s Schema, err error) {
		store, err := schemaStore(ctx, js, p)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			var bucket *natsx.Bucket
			if bucket, err = statestore.Open(ctx, js, p.Models.Replicas); err == nil {
				store = schema.In(bucket, p.Name)
			}
		}
		if err != nil {
			return s, err
		}
		record, err := schema.Replace(ctx, store, r.Contract, r.After, r.created)
		return schemaOf(p.Name, record), err
	})
}

// schemaStore opens the store of a pipeline's schema; before the first start the error may be ErrBucketNotFound.
func schemaStore(ctx context.Context, js jetstream.JetStream, p *spec.Pipeline) (*schema.Store, error) {
	switch {
	case p.ModelsFromHub():
		return nil, fmt.Errorf("the models come from the hub (JetStream domain %s), which decides their schema: use "+
			"'embedd schema' there (%w)", p.Models.Hub, ErrSchemaElsewhere)
	case p.Stream == "" && p.Models.Directory == "":
		return nil, fmt.Errorf("%w: each start counts messages again, since the pipeline has neither an input stream nor "+
			"a directory of models; set model.store, or fix the schema in schema.features", ErrSchemaNotStored)
	case p.Stream == "":
		return schema.Directory(p.Models.Directory, p.Name), nil
	}
	bucket, err := natsx.OpenBucketByKey(ctx, js, statestore.Bucket)
	if err != nil {
		return nil, err
	}
	return schema.In(bucket, p.Name), nil
}

// checkUnpinned refuses a pipeline whose live model is pinned: the daemon would not open it with another schema.
func checkUnpinned(ctx context.Context, js jetstream.JetStream, p *spec.Pipeline) error {
	pointer, err := pointerOf(ctx, js, p)
	if err == nil && pointer.Pin != "" {
		err = fmt.Errorf("model %s is pinned, and would never answer under another schema: 'embedd model unpin %s' first "+
			"(%w)", pointer.Pin, p.Name, ErrSchemaPinned)
	}
	return err
}
