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
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// Schema is the stored schema of the pipeline as this process has loaded it.
type Schema struct {
	*scope.Scope
	store  *schema.Store // nil: the schema is not stored
	record schema.Record // as it was loaded
	newest schema.Record // that was read since; used by one goroutine
	// isIncompatible is set if this replica, which is not the trainer, cannot use the stored schema.
	isIncompatible bool

	isTrainer func() bool
	addEvent  func(text string)
	reopen    func() // called when the schema was reset
}

// LoadSchema reads the stored schema. It is called before Open, which refuses a model of other features. A fixed
// model has its own schema, and on a leaf node it is that of the hub.
func (s *Schema) LoadSchema(ctx context.Context) (err error) {
	if s.Stage.Fixed != nil || s.ModelsFromHub() {
		return nil
	}
	switch {
	case s.State != nil:
		s.store = schema.In(s.State, s.Name)
	case s.Pipeline.Models.Directory != "":
		s.store = schema.Directory(s.Pipeline.Models.Directory, s.Name)
	default:
		return nil
	}
	if s.record, _, err = s.store.Read(ctx); err != nil {
		return fmt.Errorf("reading the schema of pipeline %s: %w", s.Name, err)
	}
	return nil
}

// CompleteSchema completes the stage's configuration with its schema: the one that schema.features fixes, else the
// stored one, else that of the live model, as a pipeline of an older version has one. The trainer stores it. When none
// of them exists, the stage counts messages and stores the winner with storeContract. It is called after Open.
func (s *Schema) CompleteSchema(ctx context.Context, live *plugin.Live) error {
	if s.SendsSummaries() {
		s.Stage.StoreContract = s.storeContract
	}
	if s.store == nil {
		return nil
	}
	stored, stage := s.record.Contract, &s.Stage
	stage.StoreContract, stage.Contract = s.storeContract, stored
	configured, isConfigured := stage.Spec.Contract()
	switch {
	case isConfigured && configured.Equal(stored):
		return nil
	case isConfigured:
		stage.Contract = configured
		return s.replace(ctx, configured, fmt.Sprintf("schema.features fixes the schema to %v", configured))
	case stored != nil && !stage.Spec.Accepts(stored.Elements()):
		stage.Contract = nil
		return s.replace(ctx, nil, fmt.Sprintf("the schema was %v, and schema.features asks for %s", stored,
			abbreviate(stage.Spec.Features)))
	case stored == nil && live != nil:
		contract, err := arrowio.NewContract(live.Model.Features(), stage.Spec.Label, stage.Spec.Key)
		if err != nil || !s.isTrainer() {
			return err // another replica stores it
		}
		stage.Contract, err = schema.Fix(ctx, s.store, s.record.Generation, contract)
		return err
	}
	return nil
}

// replace stores another schema than the one that was loaded; nil: messages are counted to find it. Only the trainer
// stores it.
func (s *Schema) replace(ctx context.Context, contract *arrowio.Contract, why string) (err error) {
	if !s.isTrainer() {
		s.isIncompatible = contract == nil
		if s.isIncompatible {
			s.addEvent(why + "; another replica is the trainer and keeps it: give all replicas the same configuration, or " +
				"the pipeline another name")
		}
		return nil
	}
	isFirst := s.record.Contract == nil && !s.record.IsReset()
	if isFirst && contract != nil {
		_, err = schema.Fix(ctx, s.store, s.record.Generation, contract)
		return err
	}
	s.record, err = schema.Replace(ctx, s.store, contract, 0, time.Time{})
	if err == nil && !isFirst {
		s.addEvent(why + ": the schema was replaced")
	}
	return err
}

// CountsAfter is the sequence number after which messages of the input stream are counted and learned, because the
// schema was reset there; 0: from the first.
func (s *Schema) CountsAfter() uint64 {
	if record := s.record; record.Stream.Equal(s.Created) {
		return record.After
	}
	return 0
}

// mismatch explains why a model cannot be used under the stored schema, "" when it can.
func (s *Schema) mismatch(features []string) string {
	if s.store == nil {
		return ""
	}
	record, err := s.newestRecord()
	switch {
	case err != nil:
		return fmt.Sprintf("cannot be compared with the stored schema: %v", err)
	case record.IsReset():
		return fmt.Sprintf("was fitted before the schema was reset after message %d", record.After)
	case record.Contract != nil && s.Stage.Spec.Accepts(record.Elements()) && !record.Contract.Has(features):
		return fmt.Sprintf("has the features %s, and the schema is %v", abbreviate(features), record.Contract)
	}
	return ""
}

// recordTimeout is how long a model that another replica fitted waits for the stored schema to be read.
const recordTimeout = 10 * time.Second

// newestRecord is the record that was loaded. After a reset it is read again: another replica may have stored the next
// schema, and a model of it, since then.
func (s *Schema) newestRecord() (schema.Record, error) {
	if !s.record.IsReset() {
		return s.record, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	record, _, err := s.store.Read(ctx)
	if err != nil || record.Generation != s.record.Generation { // then the pipeline is opened again
		return s.record, err
	}
	return record, nil
}

// contractPoll is how often a replica that is not the trainer checks whether the schema is fixed.
const contractPoll = 250 * time.Millisecond

// storeContract stores the contract that this process counted, and returns the one that is stored. A replica that is
// not the trainer waits for the trainer's, and a replica at an edge for that of the hub.
func (s *Schema) storeContract(ctx context.Context, counted *arrowio.Contract) (*arrowio.Contract, error) {
	for !s.isTrainer() || s.isIncompatible {
		if fixed := s.Running.Contract(); fixed != nil {
			return fixed, nil
		}
		if !natsx.Sleep(ctx, contractPoll) {
			return nil, ctx.Err()
		}
	}
	contract, err := schema.Fix(ctx, s.store, s.record.Generation, counted)
	if errors.Is(err, natsx.ErrConflict) {
		return nil, fmt.Errorf("the schema was reset, and the pipeline is opened again (%w)", err)
	}
	return contract, err
}

func (s *Schema) followedKey() natsx.FollowedKey {
	s.newest = s.record
	return natsx.FollowedKey{Key: statestore.ContractKey(s.Name), Read: s.refresh}
}

// refresh fixes the schema here when another replica has stored it, and has the pipeline opened again when it was
// reset.
func (s *Schema) refresh(ctx context.Context) (uint64, error) {
	record, revision, err := s.store.Read(ctx)
	switch {
	case err != nil:
		s.Log.Debug("the stored schema cannot be read; trying again", "error", err)
	case !record.IsStored && s.known().IsStored:
		return revision, s.restore(ctx, s.known(), revision)
	case record.Generation != s.record.Generation:
		s.Log.Warn("the schema was reset: the pipeline is opened again", "generation", record.Generation)
		s.reopen()
	case record.Contract != nil && !s.isIncompatible:
		s.newest = record
		if err := s.Running.FixContract(record.Contract); err != nil {
			s.Log.Warn("the stored schema is not the one of this replica", "error", err)
		}
	}
	return revision, err
}

// known is the newest schema that was read, or the one that this process stored as the trainer: its key can be
// overwritten before it is read.
func (s *Schema) known() schema.Record {
	record := s.newest
	if fixed := s.Running.Contract(); record.Contract == nil && fixed != nil && s.isTrainer() {
		record.Contract, record.IsStored = fixed, true
	}
	return record
}

// restore stores the schema again after its key was deleted or overwritten, and triggers a new read of it. The error is
// natsx.ErrConflict if another replica was first.
func (s *Schema) restore(ctx context.Context, record schema.Record, revision uint64) error {
	err := s.store.Write(ctx, record, revision)
	switch {
	case err == nil:
		s.Log.Warn("the stored schema was deleted or overwritten; it is stored again", "bucket", statestore.Bucket, "key",
			statestore.ContractKey(s.Name))
		s.State.Touch(statestore.ContractKey(s.Name))
	case !errors.Is(err, natsx.ErrConflict):
		s.Log.Debug("the stored schema cannot be stored again; trying again", "error", err)
	}
	return err
}
