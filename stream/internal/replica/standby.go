package replica

import (
	"context"
	"sync/atomic"

	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/scope"
)

// standby is the second lease: of the replicas that wait for the trainer's lease, its holder reads the input for
// learning, so that its window is full when it takes over. So a pipeline is read three times, however many replicas it
// has: by the hot paths together, by the trainer, and by the standby.
type standby struct {
	lease     *lease.Lease                       // nil: no waiting replica reads
	stop      atomic.Pointer[context.CancelFunc] // releases it, once this process is the trainer
	isWaiting chan struct{}                      // signalled when this process is the trainer no longer
	changed   chan struct{}                      // signalled when this process may have to read, or may not any more
}

func newStandby() *standby {
	return &standby{isWaiting: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// allRead reports whether all replicas read the input for learning: without leases, with late labels, whose two readers
// keep step, and when the hot path is the only reader.
func (e *Election) allRead() bool {
	return e.trainer.Lease == nil || e.Labels != "" || e.Input == nil || e.readsOnce()
}

// ReadsForLearning reports whether this process reads the input for learning now.
func (e *Election) ReadsForLearning() bool {
	return e.allRead() || e.trainer.Term() != 0 || e.IsStandby()
}

// IsStandby reports whether this process is the next trainer.
func (e *Election) IsStandby() bool { return e.standby.lease != nil && e.standby.lease.Term() != 0 }

// Changed is signalled when ReadsForLearning may have changed. A lease that expires signals nothing.
func (e *Election) Changed() <-chan struct{} { return e.standby.changed }

// hasStandbyAhead reports whether the standby is another replica, which is to be the next trainer.
func (e *Election) hasStandbyAhead() bool {
	if e.standby.lease == nil {
		return false
	}
	s := e.standby.lease.Status()
	return s.Term == 0 && s.Holder.Holder != ""
}

// keepStandby holds or waits for the second lease while this replica is not the trainer.
func (e *Election) keepStandby(ctx context.Context) {
	s := e.standby
	for ctx.Err() == nil {
		waiting, stop := context.WithCancel(ctx)
		s.stop.Store(&stop)
		if e.trainer.Term() == 0 {
			if err := s.lease.Acquire(waiting); err != nil && waiting.Err() == nil {
				e.Log.Debug("the standby's lease cannot be requested; trying again", "error", err)
			}
			s.lease.Run(waiting, func(context.Context, uint64) {
				e.trainer.Recheck() // the standby reads the trainer's lease more often
				scope.Signal(s.changed)
			})
			s.lease.Release(ctx)
			scope.Signal(s.changed)
		}
		stop()
		select {
		case <-s.isWaiting:
		case <-ctx.Done():
		}
	}
}

// changeTurn is called when this replica becomes the trainer or stops being it.
func (e *Election) changeTurn(isTrainer bool) {
	s := e.standby
	if stop := s.stop.Load(); isTrainer && stop != nil {
		(*stop)()
	} else if !isTrainer {
		scope.Signal(s.isWaiting)
	}
	scope.Signal(s.changed)
	e.changed()
}
