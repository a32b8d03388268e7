package replica

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/registry"
)

// StoresModels reports whether the models of the pipeline are stored anywhere.
func (r *Replica) StoresModels() bool {
	return !r.Pipeline.Models.None && (r.Input != nil || r.Pipeline.Models.Directory != "")
}

// accept decides what of the store's choice this replica uses: its live model, unless that has other features than the
// configuration, and epochs that were never used.
func (r *Replica) accept(ctx context.Context, c *registry.Choice) error {
	if c.Damage != "" {
		r.addEvent(c.Damage)
	}
	if c.New {
		used, err := r.hooks.HasAnswered(ctx)
		if err != nil {
			return err
		}
		if used {
			c.Epochs = max(c.Epochs, int(r.Clock().Unix()))
			r.addEvent(fmt.Sprintf("the model store has no models of the pipeline, which has answered before: epochs "+
				"continue after %d, the seconds since 1970, so that none is used twice", c.Epochs))
		}
	}
	r.Stage.Epochs = c.Epochs
	if c.Live == nil {
		return nil
	}
	c.Live.Epochs = max(c.Live.Epochs, c.Epochs)
	if mismatch := r.FeatureMismatch(c.Live.Model); mismatch != "" {
		return r.refuse(ctx, c, mismatch)
	}
	r.isPinned.Store(c.Pinned)
	r.confirmed = c.ConfirmedAt
	return nil
}

// refuse does not use the live model, which has other features. The trainer retires it.
func (r *Replica) refuse(ctx context.Context, c *registry.Choice, mismatch string) error {
	version, isReset := c.Live.Version, r.Schema.record.IsReset()
	if c.Pinned {
		return fmt.Errorf("model %s is pinned and %s: restore schema.features, or 'embedd model unpin %s' "+
			"and start again, so that a model of the new features is fitted", version, mismatch, r.Name)
	}
	c.Live = nil
	isTrainer := r.IsTrainer()
	if !isTrainer {
		r.Models.Forget()
	} else if err := r.Models.Retire(ctx, r.trainer.pointerTerm()); err != nil {
		return err
	}
	effect := fmt.Sprintf(": a first model of the new features is fitted, in a new epoch; to return to %s, restore "+
		"schema.features and 'embedd model rollback %s'", version, version)
	switch {
	case isReset && isTrainer:
		effect = ": it is retired, and the first model of the next schema begins a new epoch"
	case isReset:
		effect = ": it is not used"
	case !isTrainer:
		effect = "; another replica is the trainer and keeps it: give all replicas the same configuration, or the " +
			"pipeline another name"
	}
	r.addEvent("the live model " + mismatch + effect)
	return nil
}

// FeatureMismatch says which features a model has when they are not those of the configuration, else "".
func (r *Replica) FeatureMismatch(m *model.Model) string {
	features := m.Features()
	if r.Stage.Spec.Accepts(features) {
		return r.Schema.mismatch(features)
	}
	return fmt.Sprintf("has the features %s, and schema.features asks for "+
		"%s", abbreviate(features), abbreviate(r.Stage.Spec.Features))
}

func abbreviate(names []string) string {
	if len(names) > 4 {
		return fmt.Sprintf("%s ... (%d)", strings.Join(names[:3], ", "), len(names))
	}
	return strings.Join(names, ", ")
}

// Started records the live model of a new stage, and pins it if it is pinned in the store.
func (r *Replica) Started() error {
	l := r.Running.Live()
	if l == nil {
		return nil
	}
	r.WentLive(l, r.confirmed)
	r.Log.Info("a model is live", "version", l.Version, "method", l.Model.Method(), "dim", l.Model.Dim(), "epoch", l.Epoch)
	if !r.IsPinned() {
		return nil
	}
	return r.Running.Adopt(l, true)
}

// Adopt makes a model of the store the live one here. The registry calls it and waits for it.
func (r *Replica) Adopt(c *registry.Choice) error {
	l := c.Live
	if mismatch := r.FeatureMismatch(l.Model); mismatch != "" {
		return fmt.Errorf("it %s: restore schema.features", mismatch)
	}
	if err := r.Running.Adopt(l, c.Pinned); err != nil {
		return err
	}
	r.isPinned.Store(c.Pinned)
	r.WentLive(l, c.ConfirmedAt)
	event := "a model was adopted"
	if l.WasReset {
		event = "the live model was reset: it answers until the first model of the next epoch exists"
	}
	r.Log.Info(event, "version", l.Version, "method", l.Model.Method(), "dim", l.Model.Dim(), "epoch",
		l.Epoch, "pinned", c.Pinned)
	if r.mirror != nil && r.mirror.sweeps != nil { // else Start sweeps
		r.mirror.sweeps.Now()
	}
	if l.WasReset {
		r.configuration.applyReset()
	}
	return nil
}

// WentLive records a live model that the store brought, and when it was last confirmed.
func (r *Replica) WentLive(l *plugin.Live, confirmed time.Time) {
	if created := l.Model.Note().Created; created.After(confirmed) {
		confirmed = created
	}
	r.Freshness.Replace(confirmed)
	r.countEpoch(l)
}

// countEpoch counts a live model of another epoch than the one before.
func (r *Replica) countEpoch(l *plugin.Live) {
	if before := r.epoch.Swap(int64(l.Epoch)); before != 0 && before != int64(l.Epoch) {
		r.Series.Add(health.EpochChanges, 1)
	}
}

// refuseTimeout is how long learning waits for the store to record a rejected candidate.
const refuseTimeout = 5 * time.Second

// Record records the outcome of a candidate: its metrics, the freshness of the live model, and in the store, for
// `embedd model ls`, that it was rejected. Learning does not depend on the store.
func (r *Replica) Record(o plugin.Outcome) {
	traceFit(r.Scope, o)
	result := "rejected"
	switch {
	case o.Err != nil:
		result = "failed"
	case o.Promoted:
		result = "promoted"
		r.countEpoch(o.Live)
		r.Series.Add(health.Promotions, 1, o.Door)
		r.Series.Observe(health.FitSeconds, o.Duration.Seconds())
		r.displacement.Store(new(o.Displacement)) // not &: that would keep the whole outcome, with its model
		r.Freshness.Confirm(r.Clock())
	}
	r.Series.Add(health.Candidates, 1, result)
	if r.Models == nil || result != "rejected" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), refuseTimeout)
	defer cancel()
	if err := r.Models.RecordRefusal(ctx, o); err != nil {
		r.refusedLog.Warn(r.Log, "a rejected candidate was not recorded in the model store", "reason", o.Reason, "error", err)
	}
}

// RefreshAge updates the freshness of the live model: from the rows on which it was scored here, and from the store
// when another replica scores it. The hot path does not call it: the stage's status takes a lock that learning holds.
func (r *Replica) RefreshAge() {
	s := r.Running.Status()
	if s.Live != nil && !s.Newest.IsZero() {
		r.Freshness.Confirm(s.Newest)
	}
	if s.Live != nil && r.Models != nil {
		if confirmed := r.Models.GoodAsOf(s.Live.Version); !confirmed.IsZero() {
			r.Freshness.Confirm(confirmed)
		}
	}
}

// takeOver makes this replica the trainer under a term of the lease.
func (r *Replica) takeOver(ctx context.Context, term uint64) error {
	if now := r.trainer.current.Load(); now == nil || now.lease != term {
		if err := r.seal(ctx, term, onStandby); err != nil {
			return err
		}
		r.Log.Info("this replica is the trainer now", "term", r.trainer.pointerTerm())
	}
	if r.Running.Live() == nil {
		return r.adoptFirst(ctx)
	}
	return r.Models.CatchUp(ctx, r.Adopt)
}

// adoptFirst adopts what the store has while this replica has no model: none, or one that the former trainer fitted.
func (r *Replica) adoptFirst(ctx context.Context) error {
	choice, err := r.Models.Live(ctx)
	if err != nil {
		return err
	}
	if err := r.accept(ctx, choice); err != nil || choice.Live == nil {
		return err
	}
	return r.Adopt(choice)
}

// seal writes the term of the lease into the pointer, and begins the term in a phase.
func (r *Replica) seal(ctx context.Context, term uint64, in phase) error {
	sealed, err := r.Models.Seal(ctx, term, r.trainer.IsHolder)
	if err == nil {
		r.trainer.current.Store(&leaderTerm{term, sealed, in})
	}
	return err
}
