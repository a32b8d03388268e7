package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/embedd/embedd/internal/natsx"
)

// Follow calls adopt whenever another process makes another version the live one, or pins or unpins it, until ctx is
// done. It does not report what this registry saved. An error of adopt is logged, and the same choice is not offered
// again; a choice that cannot be read now is read again.
func (r *Registry) Follow(ctx context.Context, adopt func(*Choice) error) {
	wait, leave := r.store.watch(r.pipeline)
	defer leave()
	for attempt := 0; ctx.Err() == nil; attempt++ {
		last, begin, err := r.store.lastSequence(ctx, r.pipeline)
		var revision uint64
		if err == nil {
			revision, err = r.poll(ctx, adopt)
		}
		for quiet := true; err == nil && quiet && ctx.Err() == nil; {
			attempt = -1
			quiet, err = r.waitForChange(ctx, wait, revision, last, begin)
		}
		if err == nil {
			continue
		}
		if ctx.Err() == nil {
			r.options.Logger.Debug("the model store cannot be followed; trying again", "error", err)
		}
		// Whoever failed together does not try again together.
		pause := min(50*time.Millisecond<<min(attempt+1, 8), r.options.MaxStaleness/4)
		natsx.Sleep(ctx, pause/2+rand.N(pause))
	}
}

// waitForChange waits until the pointer may have changed. Without a change it asks the store whether anything was
// written since: if not, this process still follows what is live.
func (r *Registry) waitForChange(ctx context.Context, wait func(context.Context, uint64) error, revision, last uint64,
	read time.Time) (quiet bool, err error) {
	short, cancel := context.WithTimeout(ctx, r.options.MaxStaleness/4)
	err = wait(short, revision)
	over := short.Err() != nil
	cancel()
	if err != nil || !over || ctx.Err() != nil {
		return false, err
	}
	now, begin, err := r.store.lastSequence(ctx, r.pipeline)
	if err != nil || now != last || r.confirmedAt.Load() < read.UnixNano() {
		return false, err
	}
	r.confirm(begin)
	return true, nil
}

// Problem says why this process does not use the model that is live in the store; "" if it does.
func (r *Registry) Problem() string {
	if text := r.problem.Load(); text != nil {
		return *text
	}
	return ""
}

// Refused returns what was refused in the last minutes as the pointer of the pipeline.
func (r *Registry) Refused() []natsx.Refusal { return r.store.refused(r.pipeline) }

// reject notes that a choice is not adopted, until there is another.
func (r *Registry) reject(what selection, text string) {
	if what == r.offered && r.problem.Load() != nil {
		return
	}
	r.options.Logger.Error(text)
	r.offered = what
	r.problem.Store(&text)
}

// CatchUp reads the pointer once, and returns its revision.
func (r *Registry) CatchUp(ctx context.Context, adopt func(*Choice) error) (uint64, error) {
	r.saving.Lock()
	defer r.saving.Unlock()
	return r.catchUp(ctx, adopt)
}

// errSaving reports that the choice of another process has to wait until this one has stored a model.
var errSaving = errors.New("a model is being stored")

// poll is CatchUp without waiting for a model to be stored, which may take long. It then only checks that this process
// still follows what is live.
func (r *Registry) poll(ctx context.Context, adopt func(*Choice) error) (uint64, error) {
	if r.saving.TryLock() {
		defer r.saving.Unlock()
		return r.catchUp(ctx, adopt)
	}
	begin := time.Now()
	p, revision, err := r.pointers.read(ctx)
	if err != nil {
		return 0, err
	}
	if now := r.now.Load(); now == nil || *now != p.selection() {
		return 0, errSaving
	}
	r.confirm(begin)
	return revision, nil
}

func (r *Registry) catchUp(ctx context.Context, adopt func(*Choice) error) (uint64, error) {
	begin := time.Now()
	p, revision, err := r.pointers.read(ctx)
	if errors.Is(err, ErrNewer) {
		r.reject(selection{live: fmt.Sprint("revision ", revision)}, err.Error()+"; the live model stays in use")
		r.confirm(begin)
		return revision, nil
	}
	if err != nil {
		return 0, err
	}
	if old, err := r.isStale(ctx, p, revision); err != nil {
		return r.pointers.revision.Load(), err
	} else if !old {
		r.stale = observation[uint64]{}
	} else if r.stale.duration(revision) < r.settleTime() {
		return 0, errStale
	} else {
		r.options.Logger.Error("the model store keeps returning an earlier pointer: later changes are lost, and the "+
			"earlier pointer is followed", "revision", revision, "seen", r.pointers.revision.Load(), "store", r.store.String())
	}
	if p.damage != "" && p.Find(r.known.live) != nil {
		// The live model of this process is more recent than an earlier pointer.
		r.options.Logger.Error("the model store is damaged; the live model stays in use, and the pointer is written again",
			"version", r.known.live, "error", p.damage)
		_, err = r.pointers.update(ctx, func(p *Pointer) error {
			if p.damage != "" && p.Find(r.known.live) != nil {
				p.choose(r.known.live, p.ConfirmedAt)
				p.Pin = r.known.pin
			}
			return nil
		})
		if err == nil {
			r.confirm(begin)
		}
		return revision, err
	}
	chosen := p.selection()
	if p.Live == "" && r.known.live != "" {
		r.options.Logger.Error("the model store was emptied; the live model stays in use, and a restart begins without a "+
			"model unless another is stored", "version", r.known.live, "store", r.store.String())
		r.setLive(selection{})
	}
	r.term = p.Term
	r.pointers.revision.Store(revision)
	r.confirmed.Store(&confirmation{p.Live, p.ConfirmedAt})
	if p.Live == "" || chosen == r.known {
		r.problem.Store(nil)
		r.offered = selection{}
		r.confirm(begin)
		return revision, nil
	}
	if chosen != r.offered {
		c, err := r.choiceOf(ctx, p)
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrMissing) || ctx.Err() != nil {
			return 0, errors.Join(err, ctx.Err()) // it may be there the next time
		}
		if err != nil && r.missed.duration(chosen) < r.settleTime() {
			// A server that follows may not have all of it yet.
			if r.mayContinue(p) {
				r.confirm(begin)
			}
			return 0, err
		}
		if err == nil {
			err = adopt(c)
		}
		if err == nil {
			r.setLive(chosen)
			r.epoch = c.Live.Epoch
			r.problem.Store(nil)
			r.confirm(begin)
			return revision, nil
		}
		instead := "; the previous one stays in use"
		if r.epoch == 0 {
			instead = ", and no model answers here"
		}
		r.reject(chosen, fmt.Sprintf("the model that was chosen, %s, cannot go live%s: %v", p.Live, instead, err))
	}
	if r.mayContinue(p) {
		r.confirm(begin)
	}
	return revision, nil
}

// mayContinue reports whether this process may keep its model next to a live model that it does not adopt: its
// outputs are comparable, or it has no model.
func (r *Registry) mayContinue(p *Pointer) bool {
	v := p.Find(p.Live)
	return r.epoch == 0 || v != nil && v.Epoch == r.epoch
}

// settleTime is how long the servers of a cluster may take to agree.
func (r *Registry) settleTime() time.Duration { return 2 * r.options.MaxStaleness }

// observation is what was seen in consecutive reads.
type observation[T comparable] struct {
	what  T
	since time.Time
}

// duration returns for how long the same value has been observed, including now.
func (o *observation[T]) duration(what T) time.Duration {
	if o.since.IsZero() || o.what != what {
		*o = observation[T]{what, time.Now()}
	}
	return time.Since(o.since)
}

// errStale reports that a server has not yet replicated what another server has already returned.
var errStale = errors.New("the model store returns the pointer from before its last change")

// isStale reports whether a pointer is older than one that this process has seen: of a server that does not know the
// new leader yet, or of a writer that slept. Revisions that began again are not stale.
func (r *Registry) isStale(ctx context.Context, p *Pointer, revision uint64) (bool, error) {
	if revision >= r.pointers.revision.Load() {
		return r.known.live != "" && p.Live != "" && p.Term < r.term, nil
	}
	made, err := r.store.created(ctx)
	if err != nil || made.Equal(r.createdAt) && revision != 0 {
		return err == nil, err
	}
	r.createdAt, r.term = made, 0
	return false, nil
}
