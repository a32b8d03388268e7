package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// leadership is this process's claim to be the trainer. One replica at a time holds the lease and trains; the others
// keep their windows full. The lease alone does not fence a former trainer: the pointer of the model store does, see
// registry.Seal.
type leadership struct {
	*lease.Lease                            // nil: there are no leases, and every replica trains
	current      atomic.Pointer[leaderTerm] // the newest for which the pointer was sealed; nil: none
}

// leaderTerm is a term of the lease as the trainer.
type leaderTerm struct {
	lease, pointer uint64 // the term of the lease, and that of the sealed pointer
	phase          phase
}

// phase is how far the stage has taken over.
type phase int

const (
	onStandby      phase = iota
	mustEndStandby       // the reader of the input has to end standby
	opened               // it was opened as trainer, and leaseChanged was not called yet
	training
)

// enter moves a term of the lease to a phase. It returns false if another term has begun, or this one has moved
// meanwhile.
func (l *leadership) enter(term uint64, to phase) bool {
	now := l.current.Load()
	return now != nil && now.lease == term && l.current.CompareAndSwap(now, &leaderTerm{now.lease, now.pointer, to})
}

// Election is the part of this process in the election of the trainer, and of the standby. Safe for concurrent use.
type Election struct {
	*scope.Scope
	Leases *lease.Bucket // nil: there are none, and every replica trains

	trainer       leadership
	standby       *standby
	takeOver      func(ctx context.Context, term uint64) error // seals the pointer and continues from the stored model
	afterTakeOver func()
	changed       func() // Hooks.ElectionChanged
	log           ratelog.Limiter
}

// pointerTerm is the term under which this process may write the pointer; 0: it may not.
func (l *leadership) pointerTerm() uint64 {
	if now := l.current.Load(); now != nil && now.lease == l.Term() {
		return now.pointer
	}
	return 0
}

// writeTerm is the term under which the stage may write the pointer; 0: it may not. What it has begun to fit under an
// earlier term is not stored: another trainer may have learned since then.
func (l *leadership) writeTerm() uint64 {
	if now := l.current.Load(); now != nil && now.phase >= opened && now.lease == l.Term() {
		return now.pointer
	}
	return 0
}

// LeaseTTL is how long a lease is held without renewal.
func (e *Election) LeaseTTL() time.Duration { return cmp.Or(e.Lease, lease.DefaultTTL) }

// IsTrainer reports whether this process may fit models now.
func (e *Election) IsTrainer() bool {
	return e.Role != spec.RoleTransform && (e.trainer.Lease == nil || e.trainer.pointerTerm() != 0)
}

// HasTrainer reports whether a replica is known to be the trainer. Without leases this one is.
func (e *Election) HasTrainer() bool {
	return e.trainer.Lease == nil || e.trainer.Status().Holder.Holder != ""
}

// ObservesLag reports whether this replica has to observe the input's lag: the trainer does, and every replica while
// there is none.
func (e *Election) ObservesLag() bool {
	return e.trainer.Lease == nil || e.Stage.Fixed != nil || e.trainer.Term() != 0 || !e.HasTrainer()
}

// applyForLease asks for the trainer's lease. A replica that may not train waits for it as the others, and never takes
// it.
func (e *Election) applyForLease(ctx context.Context) error {
	if e.Leases == nil {
		return nil
	}
	mayTrain := e.Role != spec.RoleTransform
	e.trainer.Lease = e.Leases.Lease(lease.Options{Key: e.Name, Claim: lease.NewClaim(e.Instance, nil), TTL: e.Lease,
		ShouldYield: func() bool { return !mayTrain || e.hasStandbyAhead() }, Logger: e.Log})
	if mayTrain && e.Standby == spec.StandbyWarm {
		e.standby.lease = e.Leases.Lease(lease.Options{Key: needs.StandbyKey(e.Name), Claim: lease.NewClaim(e.Instance, nil),
			TTL: e.Lease, Logger: e.Log, IsPatient: func() bool { return true }}) // the trainer's lease has others that wait
	}
	if err := e.trainer.Acquire(ctx); err != nil {
		return fmt.Errorf("acquiring the trainer's lease (bucket %s): %w", lease.BucketName, err)
	}
	return nil
}

// leaseChanged is called when the trainer's lease was taken or lost, or renewed after it had expired by the local
// clock. A new trainer first seals the pointer, then continues from the model in the store, never from one that it
// trained itself.
func (e *Election) leaseChanged(ctx context.Context, term uint64) {
	isOpened := false
	if now := e.trainer.current.Load(); now != nil {
		next := onStandby
		if isOpened = now.phase == opened && now.lease == term; isOpened {
			next = training
		}
		e.trainer.current.Store(&leaderTerm{now.lease, now.pointer, next})
	}
	e.updateStandby(term != 0)
	if term == 0 {
		e.Running.Standby(true)
		return
	}
	for attempt := 0; e.trainer.Term() == term; attempt++ {
		err := e.takeOver(ctx, term)
		if err == nil {
			if !isOpened {
				e.endStandby(term)
			}
			e.afterTakeOver()
			return
		}
		if errors.Is(err, registry.ErrFenced) || ctx.Err() != nil {
			return // another replica has the lease, and this one will learn of it soon
		}
		e.log.Warn(e.Log, "this replica is the trainer, but the model store cannot be written; trying again", "error", err)
		if !natsx.Backoff(ctx, attempt) {
			return
		}
	}
}

// endStandby has the stage train. Where the input can be read again, its reader does so, between two messages.
func (e *Election) endStandby(term uint64) {
	if e.Input == nil || !e.HasLimitsRetention() {
		e.trainer.enter(term, training) // before a fit that becomes due is stored
		e.Running.Standby(false)
		return
	}
	e.trainer.enter(term, mustEndStandby)
	e.changed()
}

// MustEndStandby returns the term for which the reader of the input has to end the stage's standby; 0: it has not to.
func (e *Election) MustEndStandby() uint64 {
	if now := e.trainer.current.Load(); now != nil && now.phase == mustEndStandby {
		return now.lease
	}
	return 0
}

// HasEndedStandby reports whether this process is the trainer and its stage fits.
func (e *Election) HasEndedStandby() bool {
	return e.trainer.Lease == nil || e.trainer.writeTerm() != 0
}

// RecordEndOfStandby records that standby was ended for a term, under which the stage may write then. It returns false
// if that term is over: then the stage must return to standby.
func (e *Election) RecordEndOfStandby(term uint64) bool {
	now := e.trainer.current.Load()
	return now != nil && now.lease == term && now.phase == mustEndStandby &&
		e.trainer.current.CompareAndSwap(now, &leaderTerm{term, now.pointer, training})
}

// otherTrainer is a sentence on which replica is the trainer, "" when this one is.
func (e *Election) otherTrainer() string {
	if e.Role == spec.RoleTransform && e.Stage.Fixed == nil {
		return "other replicas train: this one has role transform"
	}
	if e.trainer.Lease == nil || e.IsTrainer() {
		return ""
	}
	holder := e.trainer.Status().Holder
	if holder.Holder == "" {
		return "no replica holds the trainer's lease yet"
	}
	return fmt.Sprintf("the replica on %s is the trainer", holder.Host)
}

// Close releases the trainer's lease: another replica can take it at once. The stage must be closed before.
func (e *Election) Close() {
	if e.trainer.Lease != nil {
		e.trainer.Release(context.Background())
	}
}

// ReleaseTimeout is how long the end of a process waits for the server to take a lease back; after that it expires.
const ReleaseTimeout = lease.ReleaseTimeout
