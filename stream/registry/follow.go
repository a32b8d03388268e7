package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Follow calls adopt whenever somebody else made another version the live one, or pinned or unpinned it, until ctx is
// done. What this registry saved is not news. An error of adopt is logged, and the same choice is not offered again; what
// cannot be read now is read again.
func (r *Registry) Follow(ctx context.Context, adopt func(*Choice) error) {
	wait, leave := r.store.watch(r.pipeline)
	defer leave()
	for attempt := 0; ctx.Err() == nil; attempt++ {
		last, begin, err := r.store.last(ctx, r.pipeline)
		var revision uint64
		if err == nil {
			revision, err = r.look(ctx, adopt)
		}
		for quiet := true; err == nil && quiet && ctx.Err() == nil; {
			attempt = -1
			quiet, err = r.rest(ctx, wait, revision, last, begin)
		}
		if err == nil {
			continue
		}
		if ctx.Err() == nil {
			r.options.Logger.Debug("the model store cannot be followed; trying again", "error", err)
		}
		// Whoever failed together does not try again together.
		pause := min(50*time.Millisecond<<min(attempt+1, 8), r.options.Within/4)
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
		}
	}
}

// rest waits until the pointer may be another. Where nobody says so the store is asked whether anything was written since:
// that nothing was says that this process lives with what is live, for as long again.
func (r *Registry) rest(ctx context.Context, wait func(context.Context, uint64) error, revision, last uint64,
	read time.Time) (quiet bool, err error) {
	short, cancel := context.WithTimeout(ctx, r.options.Within/4)
	err = wait(short, revision)
	over := short.Err() != nil
	cancel()
	if err != nil || !over || ctx.Err() != nil {
		return false, err
	}
	now, begin, err := r.store.last(ctx, r.pipeline)
	if err != nil || now != last || r.reached.Load() < read.UnixNano() {
		return false, err
	}
	r.reach(begin)
	return true, nil
}

// reach notes that what this process lives with was what is live at a time.
func (r *Registry) reach(at time.Time) {
	for before := r.reached.Load(); at.UnixNano() > before && !r.reached.CompareAndSwap(before, at.UnixNano()); {
		before = r.reached.Load()
	}
}

// Reached is when what this process lives with was last known to be what the store says is live.
func (r *Registry) Reached() time.Time { return time.Unix(0, r.reached.Load()) }

// Trouble says why the model that is live in the store does not answer here, "" where it does.
func (r *Registry) Trouble() string {
	if text := r.trouble.Load(); text != nil {
		return *text
	}
	return ""
}

// refuse notes that a choice is not taken, until there is another.
func (r *Registry) refuse(what choice, text string) {
	if what == r.offered && r.trouble.Load() != nil {
		return
	}
	r.options.Logger.Error(text)
	r.offered = what
	r.trouble.Store(&text)
}

// CatchUp looks once, and returns the revision that it saw.
func (r *Registry) CatchUp(ctx context.Context, adopt func(*Choice) error) (uint64, error) {
	r.saving.Lock()
	defer r.saving.Unlock()
	return r.catchUp(ctx, adopt)
}

// errSaving says that what others chose is taken when a model is stored that this process stores.
var errSaving = errors.New("a model is being stored")

// look is CatchUp for who need not take over anything: while a model is stored, which may take long, it looks whether what
// this process lives with is still what is live.
func (r *Registry) look(ctx context.Context, adopt func(*Choice) error) (uint64, error) {
	if r.saving.TryLock() {
		defer r.saving.Unlock()
		return r.catchUp(ctx, adopt)
	}
	begin := time.Now()
	p, revision, err := r.read(ctx)
	if err != nil {
		return 0, err
	}
	if now := r.now.Load(); now == nil || *now != (choice{p.Live, p.Pin}) {
		return 0, errSaving
	}
	r.reach(begin)
	return revision, nil
}

func (r *Registry) catchUp(ctx context.Context, adopt func(*Choice) error) (uint64, error) {
	begin := time.Now()
	p, revision, err := r.read(ctx)
	if errors.Is(err, ErrNewer) {
		r.refuse(choice{live: fmt.Sprint("revision ", revision)}, err.Error()+"; the live model answers on")
		r.reach(begin)
		return revision, nil
	}
	if err != nil {
		return 0, err
	}
	if old, err := r.isOld(ctx, p, revision); err != nil {
		return r.revision.Load(), err
	} else if !old {
		r.older = sighting[uint64]{}
	} else if r.older.lasts(revision) < r.settled() {
		return 0, errOlder
	} else {
		r.options.Logger.Error("the model store says on and on what it said before: its last changes are lost, and what it says is followed",
			"revision", revision, "seen", r.revision.Load(), "store", r.store.String())
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
		if err == nil {
			r.reach(begin)
		}
		return revision, err
	}
	chosen := choice{p.Live, p.Pin}
	if p.Live == "" && r.known.live != "" {
		r.options.Logger.Error("the model store was emptied; the live model answers on, and a restart begins anew unless another is stored",
			"version", r.known.live, "store", r.store.String())
		r.lives(choice{})
	}
	r.term = p.Term
	r.revision.Store(revision)
	r.found.Store(&found{p.Live, p.Good})
	if p.Live == "" || chosen == r.known {
		r.trouble.Store(nil)
		r.offered = choice{}
		r.reach(begin)
		return revision, nil
	}
	if chosen != r.offered {
		c, err := r.choiceOf(ctx, p)
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrMissing) || ctx.Err() != nil {
			return 0, errors.Join(err, ctx.Err()) // it may be there the next time
		}
		if err != nil && r.missed.lasts(chosen) < r.settled() {
			// A server that follows may not have all of it yet.
			if r.goesOn(p) {
				r.reach(begin)
			}
			return 0, err
		}
		if err == nil {
			err = adopt(c)
		}
		if err == nil {
			r.lives(chosen)
			r.epoch = c.Live.Epoch
			r.trouble.Store(nil)
			r.reach(begin)
			return revision, nil
		}
		instead := "; the one before answers on"
		if r.epoch == 0 {
			instead = ", and none answers here"
		}
		r.refuse(chosen, fmt.Sprintf("the model that was chosen, %s, cannot go live%s: %v", p.Live, instead, err))
	}
	if r.goesOn(p) {
		r.reach(begin)
	}
	return revision, nil
}

// goesOn tells whether this process may go on beside a live model that it does not take: its outputs are comparable with
// those of that model, or it has no model, and so no outputs of an epoch that is over.
func (r *Registry) goesOn(p *Pointer) bool {
	v := p.Find(p.Live)
	return r.epoch == 0 || v != nil && v.Epoch == r.epoch
}

// settled is how long a cluster may take until all its servers say the same.
func (r *Registry) settled() time.Duration { return 2 * r.options.Within }

// sighting is what was seen at several looks, one after the other.
type sighting[T comparable] struct {
	what  T
	since time.Time
}

// lasts is for how long the same was seen, this look included.
func (s *sighting[T]) lasts(what T) time.Duration {
	if s.since.IsZero() || s.what != what {
		*s = sighting[T]{what, time.Now()}
	}
	return time.Since(s.since)
}

// errOlder says that a server does not know yet what another has said.
var errOlder = errors.New("the model store says what it said before its last change")

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
