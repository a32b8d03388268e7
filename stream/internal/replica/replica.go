// Package replica makes a process one of the replicas of a pipeline: which of them is the trainer, which one is the
// standby, which model is live, and how a new one reaches all of them. It is built on the leases (package lease) and
// the model store (package registry).
package replica

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/internal/task"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// Replica is this process as a replica of one pipeline. Safe for concurrent use.
type Replica struct {
	*scope.Scope

	Models *registry.Registry // nil: models are not stored
	*Election
	*Schema
	*mirror // nil: the models do not come from a hub

	configuration *configuration

	boundTo string // stream that the model store binds the pipeline's name to; "" none

	confirmed    time.Time // when the live model was last confirmed, as Open has read it
	isPinned     atomic.Bool
	epoch        atomic.Int64            // of the live model; 0: none yet
	displacement atomic.Pointer[float64] // of the outputs by the last promotion; nil: none yet
	event        atomic.Value            // a string: what happened to the stored models

	refusedLog ratelog.Limiter
	hooks      Hooks
}

// Hooks are what a replica calls of the parts of the pipeline above it.
type Hooks struct {
	// HasAnswered reports whether the pipeline has ever answered an input, whatever became of its models.
	HasAnswered func(context.Context) (bool, error)
	// Reopen is called when what is stored has changed so that the pipeline must be opened again.
	Reopen func()
	// ElectionChanged is called when this process becomes the trainer or stops being it, and when ReadsForLearning or
	// MustEndStandby may have changed. A lease that expires causes no call.
	ElectionChanged func()
}

// New returns the replica of a pipeline whose models are not stored, until Open.
func New(s *scope.Scope, hooks Hooks) *Replica {
	r := &Replica{Scope: s, hooks: hooks}
	r.Election = &Election{Scope: s, standby: &standby{}, takeOver: r.takeOver, changed: hooks.ElectionChanged}
	r.Schema = &Schema{Scope: s, isTrainer: r.IsTrainer, addEvent: r.addEvent, reopen: hooks.Reopen}
	r.configuration = newConfiguration(s, r.IsTrainer)
	r.Election.afterTakeOver = r.configuration.apply
	return r
}

// Open opens the model store, loads the live model, and takes the trainer's lease when no replica holds it. It
// completes the configuration of the stage, which does not exist yet. It returns the live model, nil if there is none.
func (r *Replica) Open(ctx context.Context, stores *Stores) (*plugin.Live, error) {
	store, err := stores.models(ctx, r.Scope)
	if err != nil {
		return nil, err
	}
	// Replicas that use a directory are on one machine, and no replica trains if the models come from a hub.
	if r.Pipeline.Models.Directory == "" && r.Pipeline.Models.Hub == "" {
		if r.Leases, err = stores.Leases(ctx, r.Scope); err != nil {
			return nil, err
		}
	}
	if edge, ok := store.(*registry.Edge); ok {
		r.mirror = &mirror{Scope: r.Scope, edge: edge, opened: time.Now()}
	}
	r.Models = registry.New(store, r.Name, r.storeOptions())
	choice, err := r.Models.Live(ctx)
	if err != nil {
		return nil, err
	}
	r.boundTo = choice.Stream
	if err := needs.CheckName(ctx, r.JS, r.Permissions, &r.Pipeline, r.Domain, r.boundTo); err != nil {
		return nil, err
	}
	if err := r.applyForLease(ctx); err != nil {
		return nil, err
	}
	if r.trainer.Lease != nil {
		// What a former trainer stores until then is followed as any other model.
		if term := r.trainer.Term(); term != 0 {
			if err := r.seal(ctx, term, opened); err != nil && !errors.Is(err, registry.ErrFenced) {
				return nil, err
			}
		}
	}
	if err := r.accept(ctx, choice); err != nil {
		return nil, err
	}
	if r.IsTrainer() { // a version that another replica is writing must not be swept
		if err := r.Models.Sweep(ctx); err != nil {
			r.Log.Warn("versions that a crashed process left in the model store were not removed", "error", err)
		}
	}
	r.configureStage(choice.Live)
	return choice.Live, nil
}

// configureStage completes the configuration of the stage, which resumes from the live model.
func (r *Replica) configureStage(live *plugin.Live) {
	stage := &r.Stage
	if stage.Standby = !r.IsTrainer(); stage.Standby {
		r.trainer.current.Store(nil)
	}
	stage.Store, stage.Checkpoint, stage.SettleEpoch = r.Models.Save, r.Models.Checkpoint, r.Models.SettleEpoch
	stage.Resume = live
	if r.Input != nil {
		stage.Source = map[string]string{"stream": r.Stream, "created": r.Created.UTC().Format(time.RFC3339Nano),
			"subject": r.Subject}
	}
}

// ApplyConfiguration reports which keys of the configuration have changed since the pipeline last ran. It is called
// when the stage is open.
func (r *Replica) ApplyConfiguration(ctx context.Context) {
	r.configuration.open(ctx, r.StoresModels())
}

// storeOptions are the options of the model store. Only the trainer may write the pointer, and it announces a version
// to the other replicas first.
func (r *Replica) storeOptions() registry.Options {
	o := registry.Options{Limit: r.Pipeline.Models.Limit, Keep: r.Pipeline.Models.Keep, Strict: r.Pipeline.Models.Strict,
		Logger: r.Log, Clock: r.Clock, MaxStaleness: r.confirmInterval()}
	if r.Leases != nil {
		o.BeforePromote, o.Term = announcer{r.Scope}.announce, r.trainer.writeTerm
	}
	if r.Role == spec.RoleTransform {
		o.Term = func() uint64 { return 0 }
	}
	return o
}

// FollowedKeys are the keys of the pipeline's state that this replica follows. Those in a directory are not followed:
// its pipelines have one process that trains.
func (r *Replica) FollowedKeys() (keys []natsx.FollowedKey) {
	if r.Schema.store != nil && r.State != nil {
		keys = append(keys, r.Schema.followedKey())
	}
	if r.configuration.entry != nil && r.State != nil {
		keys = append(keys, r.configuration.followedKey())
	}
	return keys
}

// Start follows the model store and renews the leases until ctx is done or stop, which waits for the end. It prefetches
// announced versions until ctx is done, in goroutines of wg.
func (r *Replica) Start(ctx context.Context, wg *sync.WaitGroup) (stop func()) {
	var stops []func()
	if r.mirror != nil {
		r.mirror.sweeps = task.Every(ctx, 0, r.mirror.sweep)
		r.mirror.sweeps.Now()
		stops = append(stops, r.mirror.sweeps.Stop)
	}
	if r.Models != nil {
		stops = append(stops, r.Models.Follow(ctx, r.Adopt))
		if r.Leases != nil {
			announcer{r.Scope}.prefetch(ctx, wg, r.Models.Prefetch)
		}
	}
	if r.trainer.Lease != nil {
		if r.standby.lease != nil && !r.allRead() {
			r.standby.keep = task.Every(ctx, 0, r.keepStandby)
			r.standby.keep.Now()
		}
		stops = append(stops, r.trainer.Start(ctx, r.leaseChanged))
		if r.standby.keep != nil {
			stops = append(stops, r.standby.keep.Stop)
		}
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// Report fills in the part of a status about the replica and its model store.
func (r *Replica) Report(s *spec.Status) {
	s.Store = r.Event()
	s.Role, s.IsTrainer = r.Role, r.Running.Learns() && r.IsTrainer()
	s.Trainer, s.Term = r.TrainerText(), r.trainer.pointerTerm()
	s.Stage.Pinned, s.Displacement, s.Changes = r.IsPinned(), r.displacement.Load(), r.configuration.changes()
	if m := r.mirror; m != nil {
		s.Hub, s.LastHeard, s.HubSilence = m.edge.Domain(), m.edge.HubAnsweredAt(), m.silence()
	}
	if r.Models == nil {
		return
	}
	s.Revision = r.Models.Revision()
	if trouble := r.Models.Problem(); trouble != "" {
		if s.Store != "" {
			s.Store += "; "
		}
		s.Store += trouble
	}
}

// TrainerText is a sentence on which replica is the trainer, or the hub, "" when this replica is.
func (r *Replica) TrainerText() string {
	if r.mirror != nil {
		return r.mirror.text()
	}
	return r.otherTrainer()
}

// Event is what happened to the stored models, a sentence, "" when nothing did.
func (r *Replica) Event() string {
	text, _ := r.event.Load().(string)
	return text
}

// addEvent logs what happened to the stored models, for the status too.
func (r *Replica) addEvent(text string) {
	r.Log.Warn(text)
	if before := r.Event(); before != "" {
		text = before + "; " + text
	}
	r.event.Store(text)
}

// IsPinned reports whether the live model is pinned: nothing that is learned replaces it.
func (r *Replica) IsPinned() bool { return r.isPinned.Load() }
