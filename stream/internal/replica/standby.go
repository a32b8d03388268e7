package replica

import (
	"context"
	"sync/atomic"

	"github.com/embedd/embedd/internal/task"
	"github.com/embedd/embedd/stream/internal/lease"
)

// standby is the second lease: of the replicas that wait for the trainer's lease, its holder reads the input for
// learning, so that its window is full when it takes over. So a pipeline is read three times, however many replicas it
// has: by the hot paths together, by the trainer, and by the standby.
type standby struct {
	lease *lease.Lease                       // nil: no waiting replica reads
	stop  atomic.Pointer[context.CancelFunc] // releases it, once this process is the trainer
	keep  *task.Task                         // keepStandby, once this process is the trainer no longer; nil before Start
}

// allRead reports whether all replicas read the input for learning: without leases, with late labels, whose two readers
// keep step, and when the hot path is the only reader.
func (e *Election) allRead() bool {
	return e.trainer.Lease == nil || e.Labels != "" || e.Input == nil || !e.HasLimitsRetention()
}

// ReadsForLearning reports whether this process reads the input for learning now.
func (e *Election) ReadsForLearning() bool {
	return e.allRead() || e.trainer.Term() != 0 || e.IsStandby()
}

// IsStandby reports whether this process is the next trainer.
func (e *Election) IsStandby() bool { return e.standby.lease != nil && e.standby.lease.Term() != 0 }

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
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	e.standby.stop.Store(&stop)
	if e.trainer.Term() != 0 {
		return
	}
	s := e.standby.lease
	s.Run(waiting, func(context.Context, uint64) {
		e.trainer.Recheck() // the standby reads the trainer's lease more often
		e.changed()
	})
	s.Release(ctx)
	e.changed()
}

// updateStandby releases the second lease when this replica becomes the trainer, and asks for it again when it stops.
func (e *Election) updateStandby(isTrainer bool) {
	s := e.standby
	if stop := s.stop.Load(); isTrainer && stop != nil {
		(*stop)()
	} else if !isTrainer && s.keep != nil {
		s.keep.Now()
	}
	e.changed()
}
