package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/schema"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// schemaState is the stored schema of the pipeline as this process has loaded it.
type schemaState struct {
	store  schema.Store // nil: the schema is not stored
	record schema.Record
	// isOther: the stored schema is not one that the configuration of this replica can read, and another replica is the
	// trainer.
	isOther bool
}

// LoadSchema reads the stored schema. It is called before Open, which refuses a model of other features. A fixed model has
// its own schema; on a leaf node it is that of the hub's model, and on a hub of edges that of their summaries.
func (r *Replica) LoadSchema(ctx context.Context) (err error) {
	if r.Stage.Fixed != nil || r.ModelsFromHub() || r.LearnsFromEdges() {
		return nil
	}
	switch {
	case r.State != nil:
		r.schema.store = schema.In(r.State, r.Name)
	case r.Pipeline.Models.Directory != "":
		r.schema.store = schema.Directory(r.Pipeline.Models.Directory, r.Name)
	default:
		return nil
	}
	err = r.guard(ctx, func(ctx context.Context) (err error) {
		r.schema.record, _, err = r.schema.store.Read(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the schema of pipeline %s: %w", r.Name, err)
	}
	return nil
}

// guard runs requests to the server, and ends them when the server refuses one: the error then names the permission.
func (r *Replica) guard(ctx context.Context, do func(context.Context) error) error {
	return r.Permissions.Guard(ctx, r.Permissions.IsServerRequest, do)
}

// SettleSchema completes the stage's configuration with its schema: the one that schema.features fixes, else the stored
// one, else that of the live model, as a pipeline of an older version has one. The trainer stores it. When none of them
// exists, the stage counts messages and stores the winner with storeContract. It is called after Open.
func (r *Replica) SettleSchema(ctx context.Context, live *plugin.Live) error {
	s := &r.schema
	if s.store == nil {
		return nil
	}
	stored, stage := s.record.Contract, &r.Stage
	stage.StoreContract, stage.Contract = r.storeContract, stored
	configured, isConfigured := stage.Spec.Contract()
	switch {
	case isConfigured && configured.Equal(stored):
		return nil
	case isConfigured:
		stage.Contract = configured
		return r.replaceSchema(ctx, configured, fmt.Sprintf("schema.features fixes the schema to %v", configured))
	case stored != nil && !stage.Spec.Accepts(stored.Elements()):
		stage.Contract = nil
		return r.replaceSchema(ctx, nil, fmt.Sprintf("the schema was %v, and schema.features asks for %s", stored,
			abbreviate(stage.Spec.Features)))
	case stored == nil && live != nil:
		contract, err := arrowio.NewContract(live.Model.Features(), stage.Spec.Label, stage.Spec.Key)
		if err != nil || !r.IsTrainer() {
			return err // another replica stores it
		}
		return r.guard(ctx, func(ctx context.Context) (err error) {
			stage.Contract, err = schema.Fix(ctx, s.store, s.record.Generation, contract)
			return err
		})
	}
	return nil
}

// replaceSchema stores another schema than the one that was loaded, nil: none yet. Only the trainer does.
func (r *Replica) replaceSchema(ctx context.Context, contract *arrowio.Contract, why string) error {
	s := &r.schema
	if !r.IsTrainer() {
		s.isOther = contract == nil
		if s.isOther {
			r.addEvent(why + "; another replica is the trainer and keeps it: give all replicas the same configuration, or the pipeline another name")
		}
		return nil
	}
	isFirst := s.record.Contract == nil && !s.record.IsReset()
	err := r.guard(ctx, func(ctx context.Context) (err error) {
		if isFirst && contract != nil {
			_, err = schema.Fix(ctx, s.store, s.record.Generation, contract)
			return err
		}
		s.record, err = schema.Replace(ctx, s.store, contract, 0, time.Time{})
		return err
	})
	if err == nil && !isFirst {
		r.addEvent(why + ": the schema was replaced")
	}
	return err
}

// CountsAfter is the sequence number after which messages of the input stream are counted and learned, because the schema
// was reset there; 0: from the first.
func (r *Replica) CountsAfter() uint64 {
	if s := r.schema.record; s.Stream.Equal(r.Created) {
		return s.After
	}
	return 0
}

// otherSchema says why a model cannot be used under the stored schema, "" when it can.
func (r *Replica) otherSchema(features []string) string {
	s := r.schema
	switch {
	case s.store == nil:
		return ""
	case s.record.IsReset():
		return fmt.Sprintf("was fitted before the schema was reset after message %d", s.record.After)
	case s.record.Contract != nil && r.Stage.Spec.Accepts(s.record.Elements()) && !s.record.Contract.Has(features):
		return fmt.Sprintf("has the features %s, and the schema is %v", abbreviate(features), s.record.Contract)
	}
	return ""
}

// contractPoll is how often a replica that is not the trainer looks whether the schema is fixed.
const contractPoll = 250 * time.Millisecond

// storeContract stores the contract that this process counted, and returns the one that is stored. A replica that is not
// the trainer waits for the trainer's.
func (r *Replica) storeContract(ctx context.Context, counted *arrowio.Contract) (*arrowio.Contract, error) {
	for !r.IsTrainer() || r.schema.isOther {
		if fixed := r.Running.Contract(); fixed != nil {
			return fixed, nil
		}
		select {
		case <-time.After(contractPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	contract, err := schema.Fix(ctx, r.schema.store, r.schema.record.Generation, counted)
	if errors.Is(err, schema.ErrConflict) {
		return nil, fmt.Errorf("%w: it was reset; the pipeline is opened again", err)
	}
	return contract, err
}

// followSchema fixes the schema here when another replica has stored it, and has the pipeline opened again when it was
// reset, until ctx is done. A directory is not followed: its pipelines have one process that trains.
func (r *Replica) followSchema(ctx context.Context) {
	if r.schema.store == nil || r.State == nil {
		return
	}
	watch := r.State.Watch(statestore.ContractKey(r.Name), r.Log)
	defer watch.Stop()
	for attempt := 0; ctx.Err() == nil; {
		record, revision, err := r.schema.store.Read(ctx)
		switch {
		case err != nil:
			r.Log.Debug("the stored schema cannot be read; trying again", "error", err)
			natsx.Backoff(ctx, attempt)
			attempt++
			continue
		case record.Generation != r.schema.record.Generation:
			r.Log.Warn("the schema was reset: the pipeline is opened again", "generation", record.Generation)
			r.hooks.Reopen()
			return
		case record.Contract != nil && !r.schema.isOther:
			if err := r.Running.FixContract(record.Contract); err != nil {
				r.Log.Warn("the stored schema is not the one of this replica", "error", err)
			}
		}
		attempt = 0
		watch.Wait(ctx, revision)
	}
}
