package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/task"
)

// Follow calls adopt whenever another process makes another version the live one, or pins or unpins it, until ctx is
// done or stop is called. It does not report what this registry saved. adopt must not call Save, Live or CatchUp. If it
// returns an error, Follow logs it and does not offer the same selection again. For twice Options.MaxStaleness, Follow
// reads a live model that is damaged or missing again. Between two reads it uses no goroutine.
func (r *Registry) Follow(ctx context.Context, adopt func(*Choice) error) (stop func()) {
	interval := r.options.MaxStaleness / 4
	return natsx.FollowKeys(ctx, natsx.KeySource{
		State: func(ctx context.Context) (natsx.KeySourceState, time.Time, error) {
			return r.store.state(ctx, r.pipeline)
		},
		Watch: func(notify func(natsx.Change)) (stop func()) {
			poll, stop := r.store.watch(r.pipeline, notify)
			interval = min(interval, poll)
			return stop
		},
		Poll: func() time.Duration { return task.UntilTick(interval) },
	}, []natsx.FollowedKey{{Key: r.pipeline, Read: func(ctx context.Context) (uint64, error) {
		revision, err := r.poll(ctx, adopt)
		if err != nil {
			r.options.Logger.Debug("the model store cannot be followed; trying again", "error", err)
		}
		return revision, err
	}, Unchanged: func(at time.Time) {
		if r.isCurrent.Load() {
			r.confirmedAt.advance(at)
		}
	}}})
}

// poll is CatchUp, but while a model is stored, which may take long, it only checks that the adopted one is still live.
// It returns the revision of the pointer, and an error if this process has to read it again.
func (r *Registry) poll(ctx context.Context, adopt func(*Choice) error) (revision uint64, err error) {
	begin := time.Now()
	if r.saving.TryLock() {
		defer r.saving.Unlock()
		return r.catchUp(ctx, adopt)
	}
	p, revision, err := r.read(ctx)
	if err != nil {
		return 0, err
	}
	if r.adopted.Load().selection != p.selection() {
		return 0, errSaving
	}
	r.confirm(true, begin)
	return revision, nil
}

// confirm records whether this process may answer with its model, as of a time at which that was known.
func (r *Registry) confirm(isCurrent bool, at time.Time) {
	if r.isCurrent.Store(isCurrent); isCurrent {
		r.confirmedAt.advance(at)
	}
}

// errSaving reports that the selection of another process has to wait until this one has stored a model.
var errSaving = errors.New("a model is being stored")

// CatchUp reads the pointer once, and calls adopt as Follow does. It waits for a running Save.
func (r *Registry) CatchUp(ctx context.Context, adopt func(*Choice) error) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	_, err := r.catchUp(ctx, adopt)
	return err
}

// catchUp reads the pointer, of which it returns the revision, and adopts its selection. The caller holds saving.
func (r *Registry) catchUp(ctx context.Context, adopt func(*Choice) error) (uint64, error) {
	begin := time.Now()
	p, revision, err := r.read(ctx)
	if errors.Is(err, ErrNewer) {
		r.reject(selection{live: fmt.Sprint("revision ", revision)}, err.Error()+"; the live model stays in use")
		r.confirm(true, begin)
		return revision, nil
	}
	if err == nil {
		err = r.checkOutdated(ctx, p, revision)
	}
	if err != nil {
		return 0, err
	}
	isCurrent := true
	if now := r.adopted.Load(); p.damage != "" && p.Find(now.live) != nil {
		err = r.restore(ctx, now, p.damage)
		isCurrent = err == nil
	} else {
		r.term = p.Term
		r.revision.Store(revision)
		isCurrent, err = r.adoptSelection(ctx, p, adopt)
	}
	r.confirm(isCurrent, begin)
	return revision, err
}

// errOutdated reports that a server has not yet replicated what another server has already returned.
var errOutdated = errors.New("the model store returns the pointer from before its last change")

// checkOutdated returns errOutdated if a pointer is older than one that this process knows: its revision is lower, as
// of a server that lags, or its term is, as of a former trainer that was suspended. It accepts a pointer that stays so
// for settleTime, since the store has lost later ones, and a lower revision of a stream that was created again.
func (r *Registry) checkOutdated(ctx context.Context, p *Pointer, revision uint64) error {
	newest := r.revision.Load()
	isOutdated := r.adopted.Load().live != "" && p.Live != "" && p.Term < r.term
	if revision < newest {
		store, _, err := r.store.state(ctx, r.pipeline)
		if err != nil {
			return err
		}
		if isOutdated = store.Created == r.created && revision != 0; !isOutdated {
			r.created, r.term = store.Created, 0
		}
	}
	switch {
	case !isOutdated:
		r.outdated = observation[uint64]{}
	case r.outdated.duration(revision) < r.settleTime():
		return errOutdated
	default:
		r.options.Logger.Error("the model store keeps returning an earlier pointer: later changes are lost, and the "+
			"earlier pointer is followed", "revision", revision, "seen", newest, "store", r.store.String())
	}
	return nil
}

// restore writes a damaged pointer again, with the live version of this process, which is newer than the history's.
func (r *Registry) restore(ctx context.Context, now *adoption, damage string) error {
	r.options.Logger.Error("the model store is damaged; the live model stays in use, and the pointer is written again",
		"version", now.live, "error", damage)
	_, err := r.update(ctx, func(p *Pointer) error {
		if p.damage == "" || p.Find(now.live) == nil {
			return errUnchanged
		}
		p.setLive(now.live, p.ConfirmedAt)
		p.Pin = now.pin
		return nil
	})
	return err
}

// adoptSelection calls adopt if a pointer selects something else than this process uses. isCurrent reports whether the
// model that this process has afterwards may still answer: it is the live one, or has comparable outputs.
func (r *Registry) adoptSelection(ctx context.Context, p *Pointer, adopt func(*Choice) error) (isCurrent bool,
	err error) {
	selected, now := p.selection(), r.adopted.Load()
	if p.Live == "" && now.live != "" {
		r.options.Logger.Error("the model store was emptied; the live model stays in use, and a restart begins without a "+
			"model unless another is stored", "version", now.live, "store", r.store.String())
	}
	if p.Live == "" || selected == now.selection {
		r.setAdopted(p, now.epoch)
		return true, nil
	}
	v := p.Find(p.Live)
	isCurrent = now.epoch == 0 || v.Epoch == now.epoch // there is no model, or its outputs are comparable
	if rejected := r.rejected.Load(); rejected != nil && rejected.selection == selected {
		return isCurrent, nil
	}
	c, err := r.choiceOf(ctx, p)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		err = adopt(c)
	case !isUnreadable(err):
		return false, err
	default:
		err = r.withRemedy(p, err)
		if r.unreadable.duration(selected) < r.settleTime() { // a server may not have replicated all of it yet
			return isCurrent, err
		}
	}
	if err == nil {
		r.setAdopted(p, c.Live.Epoch)
		return true, nil
	}
	instead := "; the previous one stays in use"
	if now.epoch == 0 {
		instead = ", and no model answers here"
	}
	r.reject(selected, fmt.Sprintf("the model that was chosen, %s, cannot go live%s: %v", p.Live, instead, err))
	return isCurrent, nil
}

// setAdopted records that this process uses what a pointer selects, with a model of an epoch. The caller holds saving.
func (r *Registry) setAdopted(p *Pointer, epoch int) {
	r.adopted.Store(&adoption{p.selection(), epoch, p.ConfirmedAt})
	r.rejected.Store(nil)
}

// rejection is a selection that this process does not use, and why.
type rejection struct {
	selection
	text string
}

// reject logs, once, that a selection is not adopted. It is not tried again until another one follows.
func (r *Registry) reject(refused selection, text string) {
	if before := r.rejected.Load(); before != nil && before.selection == refused {
		return
	}
	r.options.Logger.Error(text)
	r.rejected.Store(&rejection{refused, text})
}

// Problem says why this process does not use the model that is live in the store; "" if it does.
func (r *Registry) Problem() string {
	if rejected := r.rejected.Load(); rejected != nil {
		return rejected.text
	}
	return ""
}

// Refused returns the subjects of messages that were refused as the pointer of the pipeline in the last minutes, since
// no replica wrote them. Candidates that were not promoted are in Pointer.Refused.
func (r *Registry) Refused() []string { return r.store.refused(r.pipeline) }

// settleTime is how long the servers of a cluster may take to agree.
func (r *Registry) settleTime() time.Duration { return 2 * r.options.MaxStaleness }

// observation is a value that consecutive reads returned.
type observation[T comparable] struct {
	value T
	since time.Time
}

// duration records a value, and returns for how long no other has been recorded.
func (o *observation[T]) duration(value T) time.Duration {
	if o.since.IsZero() || o.value != value {
		*o = observation[T]{value, time.Now()}
	}
	return time.Since(o.since)
}
