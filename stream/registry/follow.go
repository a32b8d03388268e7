package registry

import (
	"context"
	"time"
)

// Follow calls adopt whenever somebody else made another version the live one, or pinned or unpinned it, until ctx is
// done. What this registry saved is not news. An error of adopt is logged, and the same choice is not offered again.
func (r *Registry) Follow(ctx context.Context, adopt func(*Choice) error) {
	wait, leave := r.store.watch(r.pipeline)
	defer leave()
	for attempt := 0; ctx.Err() == nil; attempt++ {
		revision, err := r.CatchUp(ctx, adopt)
		if err == nil {
			err = wait(ctx, revision)
		}
		if err == nil {
			attempt = 0
			continue
		}
		if ctx.Err() == nil {
			r.options.Logger.Debug("the model store cannot be watched; trying again", "error", err)
		}
		select {
		case <-time.After(min(50*time.Millisecond<<min(attempt, 8), 10*time.Second)):
		case <-ctx.Done():
		}
	}
}

// CatchUp looks once, and returns the revision that it saw.
func (r *Registry) CatchUp(ctx context.Context, adopt func(*Choice) error) (uint64, error) {
	r.saving.Lock()
	defer r.saving.Unlock()
	p, revision, err := r.read(ctx)
	if err != nil {
		return 0, err
	}
	if old, err := r.isOld(ctx, p, revision); err != nil || old {
		return r.revision.Load(), err
	}
	if p.damage != "" && p.Find(r.known.live) != nil {
		// What this process lives with is known better than what a pointer before says.
		r.options.Logger.Error("the model store is damaged; the live model answers on, and the pointer is written anew",
			"version", r.known.live, "error", p.damage)
		_, err = r.update(ctx, func(p *Pointer) error {
			if p.damage != "" && p.Find(r.known.live) != nil {
				p.choose(r.known.live, p.Good)
				p.Pin = r.known.pin
			}
			return nil
		})
		return revision, err
	}
	chosen := choice{p.Live, p.Pin}
	if p.Live == "" && r.known.live != "" {
		r.options.Logger.Error("the model store was emptied; the live model answers on, and a restart begins anew unless another is stored",
			"version", r.known.live, "store", r.store.String())
		r.known = choice{}
	}
	r.term = p.Term
	r.revision.Store(revision)
	if p.Live == "" || chosen == r.known || chosen == r.offered {
		return revision, nil
	}
	c, err := r.choiceOf(ctx, p)
	if err == nil {
		err = adopt(c)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil {
		r.options.Logger.Error("the model that was chosen cannot go live; the one before answers on", "version", p.Live,
			"error", err)
		r.offered = chosen
		return revision, nil
	}
	r.known = chosen
	return revision, nil
}

// isOld tells whether a pointer is older than one that this process has seen: what a server says that does not know yet
// that another leads, or what somebody wrote who slept. Revisions that began anew are no old ones.
func (r *Registry) isOld(ctx context.Context, p *Pointer, revision uint64) (bool, error) {
	if revision >= r.revision.Load() {
		return r.known.live != "" && p.Live != "" && p.Term < r.term, nil
	}
	made, err := r.store.made(ctx)
	if err != nil || made.Equal(r.made) && revision != 0 {
		return err == nil, err
	}
	r.made, r.term = made, 0
	return false, nil
}
