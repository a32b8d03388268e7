package replica

import (
	"context"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/configured"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/spec"
)

// configuration compares the configuration of this process with the one in effect. The trainer stores that: when it is
// opened, when it becomes the trainer, and after a reset. The other replicas read it.
type configuration struct {
	*scope.Scope
	isTrainer func() bool
	entry     statestore.Entry // nil: it is not stored
	record    atomic.Pointer[configured.Record]
	applied   atomic.Pointer[[]spec.Change] // by this process
	isDue     atomic.Bool                   // the trainer has to store it
	wasReset  atomic.Bool                   // the live model was reset since it was stored
}

func newConfiguration(s *scope.Scope, isTrainer func() bool) *configuration {
	c := &configuration{Scope: s, isTrainer: isTrainer}
	c.applied.Store(&[]spec.Change{})
	return c
}

// open finds where the configuration in effect is stored, and compares it. isStored: the models of the pipeline are.
func (c *configuration) open(ctx context.Context, isStored bool) {
	switch {
	case len(c.Settings) == 0:
		return
	case c.ModelsFromHub(): // the hub stores it; the live model shows its number of outputs
		c.record.Store(&configured.Record{})
		return
	case c.State != nil:
		c.entry = statestore.Key(c.State, statestore.ConfiguredKey(c.Name))
	case isStored && c.Stage.Fixed == nil:
		c.entry = statestore.File(filepath.Join(c.Pipeline.Models.Directory, c.Name, "configured.json"))
	default:
		return
	}
	c.reconcile(ctx)
}

// actual is what the pipeline works with, besides the record.
func (c *configuration) actual() configured.Actual {
	a := configured.Actual{IsTrainer: c.isTrainer(), Contract: c.Running.Contract()}
	if l := c.Running.Live(); l != nil && !l.IsProvisional() {
		a.Dim = l.Model.Dim()
	}
	return a
}

// reconcileTimeout is how long a start waits for the record. Nothing but reports depends on it.
const reconcileTimeout = 5 * time.Second

// reconcile reads the record, and the trainer stores what it applies. It logs each change once.
func (c *configuration) reconcile(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	actual := c.actual()
	if c.wasReset.Swap(false) {
		actual.Dim = 0
	}
	var record configured.Record
	var changes []spec.Change
	err := c.Permissions.Guard(ctx, c.Permissions.IsServerRequest, func(ctx context.Context) (err error) {
		if c.isTrainer() {
			record, changes, err = configured.Apply(ctx, c.entry, &c.Pipeline, actual)
			return err
		}
		record, _, err = configured.Read(ctx, c.entry)
		changes = configured.Compare(&c.Pipeline, record, actual)
		return err
	})
	if err != nil {
		c.Log.Warn("the configuration cannot be compared with the one that is in effect", "error", err)
		return
	}
	before, applied := c.changes(), slices.Clone(*c.applied.Load())
	for _, change := range changes {
		attrs := []any{"key", change.Key, "was", change.Was, "now", change.Now, "effect", change.Effect}
		switch {
		case slices.Contains(before, change):
		case change.IsOpen():
			c.Log.Warn("a changed key of the configuration is not in effect: "+change.Text(c.Name), attrs...)
		default:
			c.Log.Info("a changed key of the configuration is applied", attrs...)
			applied = append(applied, change)
		}
	}
	c.applied.Store(&applied)
	c.keep(record)
}

// keep keeps what differs from the configuration of this process, which is little of the record or nothing.
func (c *configuration) keep(r configured.Record) {
	differences := map[string]string{}
	for _, s := range c.Settings {
		if was, isKnown := r.Values[s.Key]; isKnown && was != s.Value {
			differences[s.Key] = was
		}
	}
	r.Values = differences
	c.record.Store(&r)
}

// changes are the keys that are not in effect now, and those that this process applied.
func (c *configuration) changes() (all []spec.Change) {
	record := c.record.Load()
	if record == nil {
		return nil
	}
	for _, change := range configured.Compare(&c.Pipeline, *record, c.actual()) {
		if change.IsOpen() {
			all = append(all, change)
		}
	}
	return append(all, *c.applied.Load()...)
}

// apply has the trainer store the configuration again: what it works with has changed.
func (c *configuration) apply() {
	switch c.isDue.Store(true); {
	case c.entry == nil:
	case c.State != nil:
		c.State.Touch(statestore.ConfiguredKey(c.Name))
	default: // nothing follows it
		c.reconcile(context.Background())
	}
}

// applyReset is apply after a reset of the live model. The first model of the next epoch may be live before the
// configuration is stored.
func (c *configuration) applyReset() {
	c.wasReset.Store(true)
	c.apply()
}

func (c *configuration) followedKey() natsx.FollowedKey {
	return natsx.FollowedKey{Key: statestore.ConfiguredKey(c.Name), Read: c.refresh}
}

// refresh reads the record when the trainer has stored it, and stores it when apply was called.
func (c *configuration) refresh(ctx context.Context) (uint64, error) {
	if c.isDue.Swap(false) {
		c.reconcile(ctx)
	}
	record, revision, err := configured.Read(ctx, c.entry)
	if err == nil {
		c.keep(record)
	}
	return revision, err
}
