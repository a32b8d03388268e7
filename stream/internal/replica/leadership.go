package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/lease"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// leadership is this process's claim to be the trainer. One replica at a time holds the lease and trains; the others
// keep their windows full. The lease alone does not fence a former trainer: the pointer of the model store does, see
// registry.Seal.
type leadership struct {
	*lease.Lease               // nil: there are no leases, and every replica trains
	taken        atomic.Uint64 // term of the lease for which the pointer was sealed
	sealed       atomic.Uint64 // term of the pointer since then
}

// term is the term under which this process may write the pointer; 0: it may not.
func (l *leadership) term() uint64 {
	if l.Lease == nil {
		return 0
	}
	if term := l.Term(); term != 0 && term == l.taken.Load() {
		return l.sealed.Load()
	}
	return 0
}

// LeaseLife is how long a lease lives without renewal.
func (r *Replica) LeaseLife() time.Duration { return cmp.Or(r.Lease, lease.DefaultTTL) }

// IsTrainer reports whether this process may fit models now.
func (r *Replica) IsTrainer() bool {
	return r.Role != spec.RoleTransform && (r.trainer.Lease == nil || r.trainer.term() != 0)
}

// HasTrainer reports whether a replica is known to be the trainer. Without leases this one is.
func (r *Replica) HasTrainer() bool {
	return r.trainer.Lease == nil || r.trainer.Status().Holder.Holder != ""
}

// ObservesLag reports whether this replica has to observe the input's lag: the trainer does, and every replica while
// there is none. isKnown is false when this replica does not take part in the election.
func (r *Replica) ObservesLag() (observes, isKnown bool) {
	if r.Leases == nil || r.Stage.Fixed != nil {
		return true, true
	}
	if r.trainer.Lease == nil {
		return false, false
	}
	s := r.trainer.Status()
	return s.Term != 0 || s.Holder.Holder == "", true
}

// apply asks for the trainer's lease.
func (r *Replica) apply(ctx context.Context) error {
	r.trainer.Lease = r.Leases.Lease(lease.Options{Key: r.Name, Claim: lease.NewClaim(r.Instance, r.sharedSettings()),
		TTL: r.Lease, ShouldYield: r.hasStandbyAhead, Logger: r.Log})
	if r.Standby == spec.StandbyWarm {
		r.standby.lease = r.Leases.Lease(lease.Options{Key: needs.StandbyKey(r.Name), Claim: lease.NewClaim(r.Instance, nil),
			TTL: r.Lease, Logger: r.Log})
	}
	if err := r.trainer.Acquire(ctx); err != nil {
		return fmt.Errorf("asking for the trainer's lease (bucket %s): %w", lease.BucketName, err)
	}
	return nil
}

// sharedSettings are what the replicas of a pipeline must agree on, by configuration key.
func (r *Replica) sharedSettings() map[string]string {
	c := r.Stage
	return map[string]string{
		"input.stream": r.Stream, "input.subject": r.Subject, "input.labels": r.Labels,
		"input.partitions": strconv.Itoa(r.Partitions),
		"schema.features":  strings.Join(c.Spec.Features, ","), "schema.label": c.Spec.Label, "schema.key": c.Spec.Key,
		"schema.nulls": string(c.Nulls), "model.method": c.Fit.Method, "model.dim": fmt.Sprint(c.Fit.Dim),
		"model.scale": string(c.Fit.Scale), "model.params": fmt.Sprint(c.Fit.Params), "model.seed": fmt.Sprint(c.Fit.Seed),
		"training.block": fmt.Sprint(c.Training.Block),
	}
}

// takeTurn is called when the trainer's lease was taken or lost. A new trainer first seals the pointer, then continues
// from the model in the store, never from one of its own.
func (r *Replica) takeTurn(ctx context.Context, term uint64) {
	r.changeTurn(term != 0)
	if term == 0 {
		r.Running.Standby(true)
		return
	}
	for attempt := 0; r.trainer.Term() == term; attempt++ {
		err := r.takeOver(ctx, term)
		if err == nil {
			r.Running.Standby(false)
			return
		}
		if errors.Is(err, registry.ErrFenced) || ctx.Err() != nil {
			return // another replica has the lease, and this one will learn of it soon
		}
		r.leaseLog.Warn(r.Log, "this replica is the trainer, but the model store cannot be written; trying again", "error", err)
		if !natsx.Backoff(ctx, attempt) {
			return
		}
	}
}

func (r *Replica) takeOver(ctx context.Context, term uint64) error {
	if r.trainer.taken.Load() != term {
		if err := r.seal(ctx, term); err != nil {
			return err
		}
		r.Log.Info("this replica is the trainer now", "term", r.trainer.sealed.Load())
	}
	if r.Running.Live() == nil {
		return r.takeOverFirst(ctx)
	}
	_, err := r.Models.CatchUp(ctx, r.Adopt)
	return err
}

// takeOverFirst takes what the store has while this replica has no model: none, or one that the former trainer fitted.
func (r *Replica) takeOverFirst(ctx context.Context) error {
	choice, err := r.Models.Live(ctx)
	if err != nil {
		return err
	}
	if _, err := r.accept(ctx, choice); err != nil || choice.Live == nil {
		return err
	}
	return r.Adopt(choice)
}

// seal writes the term of the lease into the pointer.
func (r *Replica) seal(ctx context.Context, term uint64) error {
	sealed, err := r.Models.Seal(ctx, term, r.trainer.IsHolder)
	if err == nil {
		r.trainer.sealed.Store(sealed)
		r.trainer.taken.Store(term)
	}
	return err
}

// OtherTrainer is a sentence on which replica is the trainer, "" when this one is.
func (r *Replica) OtherTrainer() string {
	if r.Hub != nil {
		return r.hubText()
	}
	if r.Role == spec.RoleTransform && r.Stage.Fixed == nil {
		return "other replicas train: this one has role transform"
	}
	if r.trainer.Lease == nil || r.IsTrainer() {
		return ""
	}
	s := r.trainer.Status()
	if s.Holder.Holder == "" {
		return "no replica holds the trainer's lease yet"
	}
	text := fmt.Sprintf("the replica on %s is the trainer", s.Holder.Host)
	if len(s.DifferentSettings) > 0 {
		text += ", and its configuration differs in " + strings.Join(s.DifferentSettings, ", ") + "; give all replicas the same"
	}
	return text
}
