package registry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
)

// Save stores a model, makes it the live one and returns its version: it claims a name, writes the model, reads it back
// as a start does, and moves the pointer, within storeWait. The error is ErrPinned while a version is pinned, ErrFenced
// without the lease, ErrOvertaken if release.Parent is no longer live, and ErrTooLarge over Options.Limit.
func (r *Registry) Save(ctx context.Context, release *plugin.Release) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	r.saving.Lock()
	defer r.saving.Unlock()
	name, err := r.claim(ctx, release)
	if err != nil {
		return "", err
	}
	killpoint.Here(killpoint.Claimed)
	size, err := r.put(ctx, name, release.Model)
	if err != nil {
		return "", err
	}
	killpoint.Here(killpoint.Written)
	if r.options.BeforePromote != nil {
		r.options.BeforePromote(ctx, name)
	}
	now, begin := r.options.Clock(), time.Now()
	removed, err := r.promote(ctx, release, versionOf(name, release, now, size))
	if err != nil {
		return "", fmt.Errorf("promoting model %s: %w", name, err)
	}
	killpoint.Here(killpoint.Pointed)
	r.adopted.Store(&adoption{selection{live: name, sameAs: release.SameAs, undecided: release.Undecided},
		release.Epoch, now})
	r.confirmedAt.advance(begin)
	r.discard(ctx, removed...)
	return name, nil
}

// claim reserves a name that no other process writes under, and removes the model that a crash left under the last one.
func (r *Registry) claim(ctx context.Context, release *plugin.Release) (name string, err error) {
	var abandoned string
	_, err = r.update(ctx, func(p *Pointer) error {
		if err := r.fenceFor(release, p); err != nil {
			return err
		}
		p.Number++
		abandoned, name = p.Candidate, nameOf(r.pipeline, p.Number, p.Term, release.Model.Digest())
		p.Candidate = name
		return nil
	})
	if err == nil {
		r.discard(ctx, abandoned)
	}
	return name, err
}

// promote makes a stored version the live one. It returns the names of the versions that the pointer lists no longer.
func (r *Registry) promote(ctx context.Context, release *plugin.Release, v Version) (removed []string, err error) {
	p, err := r.update(ctx, func(p *Pointer) error {
		if p.Find(v.Name) != nil {
			return errUnchanged // the write was stored and not confirmed
		}
		if err := r.fenceFor(release, p); err != nil {
			return err
		}
		if p.Candidate != v.Name {
			return fmt.Errorf("%w: another process trains pipeline %s and replaced model %s; let only one train it",
				ErrOvertaken, r.pipeline, v.Name)
		}
		was := p.Live
		p.Versions = append(p.Versions, v)
		p.setLive(v.Name, v.Created)
		p.turn(v.Created, "promote", was, "")
		p.Candidate, p.Epochs = "", max(p.Epochs, release.Epoch)
		if release.State != nil {
			p.State, p.StateOf = release.State, v.Name
		}
		removed = p.prune(r.options.Keep, v.Created)
		return nil
	})
	if errors.Is(err, ErrOvertaken) || errors.Is(err, ErrPinned) || errors.Is(err, ErrFenced) {
		r.discard(ctx, v.Name)
	}
	if err == nil {
		r.term = p.Term
	}
	return removed, err
}

// fenceFor fences the pointer, and returns an error if the release may not replace the live model: ErrFenced, ErrPinned
// or ErrOvertaken. If no model is live, because the store lost its models, any may.
func (c *catalog) fenceFor(release *plugin.Release, p *Pointer) error {
	switch err := c.fence(p, c.options.Term); {
	case err != nil:
		return err
	case p.Pin != "":
		return fmt.Errorf("%w: %s; `embedd model unpin %s` lets learning continue", ErrPinned, p.Pin, c.pipeline)
	case p.Live != "" && p.Live != release.Parent:
		return fmt.Errorf("%w: %s is live, and the new model replaces %s; an operator chose another one, or another "+
			"process trains pipeline %s", ErrOvertaken, p.Live, cmp.Or(release.Parent, "no model"), c.pipeline)
	case p.Live != "" && p.selection().wasReset != release.AfterReset:
		return fmt.Errorf("%w: the reset of %s began or ended while the new model was fitted", ErrOvertaken, p.Live)
	}
	return nil
}

// put writes a model under a claimed name and reads it back.
func (c *catalog) put(ctx context.Context, name string, m *model.Model) (size int64, err error) {
	note := m.Note()
	note.Version = name
	var file bytes.Buffer
	if err := model.Write(&file, m.WithNote(note)); err != nil {
		return 0, err
	}
	size = int64(file.Len())
	if size > c.options.Limit {
		return 0, fmt.Errorf("%w: it takes %s and limits.model allows %s; raise limits.model, or fit a smaller one: a "+
			"linear method, or a smaller window.rows where the model holds rows",
			ErrTooLarge, mebibytes(size), mebibytes(c.options.Limit))
	}
	if err := c.store.put(ctx, c.pipeline, name, file.Bytes()); err != nil {
		return 0, fmt.Errorf("writing model %s (%s): %w", name, c.store, err)
	}
	if _, err := c.get(ctx, Version{Name: name, Digest: m.Digest()}); err != nil {
		return 0, fmt.Errorf("a model that was read back differs from what was written: %w", err)
	}
	return size, nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// discard removes models that the pointer does not name. Those that cannot be removed now are found by Sweep.
func (c *catalog) discard(ctx context.Context, names ...string) {
	for _, name := range names {
		if name == "" {
			continue
		}
		if err := c.store.remove(ctx, c.pipeline, name); err != nil {
			c.options.Logger.Debug("a model that is not needed cannot be deleted; it stays until the next start", "version",
				name, "error", err)
		}
	}
}

// Sweep removes what crashed processes left behind: models that the pointer does not name, and unfinished writes.
func (c *catalog) Sweep(ctx context.Context) error {
	// A name is claimed before a model is written, so a model that exists now and that a later pointer lacks is unused.
	there, err := c.store.versions(ctx, c.pipeline)
	if err != nil {
		return err
	}
	p, err := c.Pointer(ctx)
	if err != nil {
		return err
	}
	for _, s := range there {
		if p.Find(s.Name) == nil && s.Name != p.Candidate {
			c.discard(ctx, s.Name)
		}
	}
	return c.store.tidy(ctx, c.pipeline, maxWriteIdle)
}

// maxWriteIdle is how long an unfinished write may make no progress before it is removed.
const maxWriteIdle = time.Hour

// maxState is the size limit of a checkpoint in bytes. That of a window of 100 million rows has 360 KiB at most.
const maxState = 512 << 10

// Checkpoint stores the state of the trainer with the live model, such as the evidence that it has collected. It also
// records that the live model was compared with newer candidates and kept. It stores nothing if no model is live, or
// this process uses another one. The error is ErrFenced without the lease.
func (r *Registry) Checkpoint(ctx context.Context, state []byte) error {
	if len(state) > maxState {
		return fmt.Errorf("a checkpoint of %d bytes is over the limit of %d", len(state), maxState)
	}
	r.saving.Lock()
	live := r.adopted.Load().live
	r.saving.Unlock()
	_, err := r.update(ctx, func(p *Pointer) error {
		if p.Live == "" || p.Live != live {
			return errUnchanged
		}
		p.State, p.StateOf, p.ConfirmedAt = state, p.Live, r.options.Clock()
		return r.fence(p, r.options.Term)
	})
	return err
}

// SettleEpoch records for all versions of the live model's epoch whether it is comparable with those before.
func (r *Registry) SettleEpoch(ctx context.Context, l *plugin.Live) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	now := *r.adopted.Load()
	_, err := r.update(ctx, func(p *Pointer) error {
		if err := r.fence(p, r.options.Term); err != nil {
			return err
		}
		if p.Live != l.Version || now.live != l.Version {
			return fmt.Errorf("%w: %s is live, not %s", ErrOvertaken, cmp.Or(p.Live, "no model"), l.Version)
		}
		for i := range p.Versions {
			if v := &p.Versions[i]; v.Epoch == l.Epoch {
				v.SameAs, v.Undecided = l.SameAs, l.Undecided
			}
		}
		return nil
	})
	if err == nil {
		now.sameAs, now.undecided = l.SameAs, l.Undecided // a pin or a reset meanwhile is still to be adopted
		r.adopted.Store(&now)
	}
	return err
}

// RecordRefusal records a candidate that was not promoted. If it was compared with the live model, that is confirmed.
func (c *catalog) RecordRefusal(ctx context.Context, f plugin.Outcome) error {
	one := Refusal{Time: c.options.Clock(), Rows: f.Rows, Score: finite(f.Candidate), LiveScore: finite(f.Previous),
		Reason: truncate(f.Reason)}
	if f.Live != nil {
		one.Live = f.Live.Version
	}
	_, err := c.update(ctx, func(p *Pointer) error {
		p.Refused = append(p.Refused, one)
		p.Refused = p.Refused[max(len(p.Refused)-maxRefused, 0):]
		if one.Live == p.Live {
			p.ConfirmedAt = one.Time
		}
		return c.fence(p, c.options.Term)
	})
	return err
}

// fence sets the term of the pointer to that of the trainer's lease. It returns ErrFenced if the trainer has no lease
// (0), or another process has acquired it since. Without leases it does nothing.
func (c *catalog) fence(p *Pointer, current func() uint64) error {
	if c.options.Term == nil {
		return nil
	}
	switch term := current(); {
	case term == 0:
		return fmt.Errorf("%w: this one does not hold the lease of pipeline %s", ErrFenced, c.pipeline)
	case p.Term > term:
		return fmt.Errorf("%w: it took the lease of pipeline %s with term %d, after this one with %d", ErrFenced,
			c.pipeline, p.Term, term)
	default:
		p.Term = term
	}
	return nil
}

// Seal is the first write of a new lease holder: it sets the term of the pointer, and returns it. Every revision that a
// former holder knows is then outdated, so its writes are rejected; a model that it has begun to write is removed. If
// the pointer has a later term although this process holds the lease, as holds reports, the terms of the leases began
// again, and the new term is one more; else the error is ErrFenced. Seal does not wait for a running Save of this
// process, which then returns ErrOvertaken or ErrFenced.
func (r *Registry) Seal(ctx context.Context, term uint64, holds func(context.Context) (bool, error)) (uint64, error) {
	var sealed uint64
	var abandoned string
	_, err := r.update(ctx, func(p *Pointer) error {
		sealed, abandoned = term, ""
		if p.damage != "" {
			r.options.Logger.Error("the model store is damaged, and its pointer is written again", "error", p.damage)
		}
		if p.Term == term {
			return errUnchanged
		}
		if p.Term > term {
			if isHolder, err := holds(ctx); err != nil {
				return err
			} else if !isHolder {
				return fmt.Errorf("%w: it took the lease of pipeline %s with term %d", ErrFenced, r.pipeline, p.Term)
			}
			sealed = p.Term + 1
		}
		p.Term, abandoned, p.Candidate = sealed, p.Candidate, ""
		return nil
	})
	if err != nil {
		return 0, err
	}
	r.discard(ctx, abandoned)
	return sealed, nil
}

// Retire leaves the pipeline without a live model: the next one is the first of a new epoch. The live model becomes the
// previous one. It writes under the term for which the pointer was sealed; 0 where there are no leases.
func (r *Registry) Retire(ctx context.Context, term uint64) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	_, err := r.update(ctx, func(p *Pointer) error {
		if p.Pin != "" {
			return fmt.Errorf("%w: %s; `embedd model unpin %s` lets another take its place", ErrPinned, p.Pin, r.pipeline)
		}
		if err := r.fence(p, func() uint64 { return term }); err != nil {
			return err
		}
		p.Previous, p.Live, p.State, p.StateOf = p.Live, "", nil, ""
		p.turn(r.options.Clock(), "retire", p.Previous, "")
		return nil
	})
	if err == nil {
		r.adopted.Store(&adoption{})
	}
	return err
}
