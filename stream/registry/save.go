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

// Save stores a model and makes it the live one: it claims a name, writes the model, reads it back as a start does,
// and moves the pointer. While a version is pinned the error is ErrPinned; it is ErrOvertaken if the live model is no
// longer release.Parent.
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
	size, err := r.write(ctx, name, release.Model)
	if err != nil {
		return "", err
	}
	killpoint.Here(killpoint.Written)
	if r.options.BeforePromote != nil {
		r.options.BeforePromote(ctx, name)
	}
	now, begin := r.options.Clock(), time.Now()
	var gone []string
	p, err := r.pointers.update(ctx, func(p *Pointer) error {
		if p.Find(name) != nil {
			return errUnchanged // it was written and not confirmed
		}
		if err := r.fence(p); err != nil {
			return err
		}
		if err := r.mayReplace(p, release); err != nil {
			return err
		}
		if p.Candidate != name {
			return fmt.Errorf("%w: another process trains pipeline %s and replaced model %s; let only one train it",
				ErrOvertaken, r.pipeline, name)
		}
		p.Versions = append(p.Versions, versionOf(name, release, now, size))
		was := p.Live
		p.choose(name, now)
		p.turn(now, "promote", was, "")
		p.Candidate, p.Epochs = "", max(p.Epochs, release.Epoch)
		if release.State != nil {
			p.State, p.StateOf = release.State, name
		}
		gone = p.prune(r.options.Keep, now)
		r.term = p.Term
		return nil
	})
	if errors.Is(err, ErrOvertaken) || errors.Is(err, ErrPinned) || errors.Is(err, ErrFenced) {
		r.discard(ctx, []string{name})
	}
	if err = unlessUnchanged(err); err != nil {
		return "", fmt.Errorf("promoting model %s: %w", name, err)
	}
	killpoint.Here(killpoint.Pointed)
	followed := selection{live: name, sameAs: release.SameAs, undecided: release.Undecided}
	if p != nil {
		followed = p.selection()
	}
	r.setLive(followed)
	r.epoch = release.Epoch
	r.confirm(begin)
	r.discard(ctx, gone)
	return name, nil
}

// claim takes a name that no other process writes under, and removes what a crash left under the previous claim.
func (r *Registry) claim(ctx context.Context, release *plugin.Release) (name string, err error) {
	var abandoned string
	_, err = r.pointers.update(ctx, func(p *Pointer) error {
		if err := r.fence(p); err != nil {
			return err
		}
		if err := r.mayReplace(p, release); err != nil {
			return err
		}
		p.Number++
		abandoned, name = p.Candidate, nameOf(r.pipeline, p.Number, p.Term, release.Model.Digest())
		p.Candidate = name
		return nil
	})
	if err != nil {
		return "", err
	}
	if abandoned != "" {
		r.discard(ctx, []string{abandoned})
	}
	return name, nil
}

// mayReplace is an error if a release may not replace the live model. A store that lost its models accepts any.
func (r *Registry) mayReplace(p *Pointer, release *plugin.Release) error {
	switch {
	case p.Pin != "":
		return fmt.Errorf("%w: %s; `embedd model unpin %s` lets learning continue", ErrPinned, p.Pin, r.pipeline)
	case p.Live != "" && p.Live != release.Parent:
		return fmt.Errorf("%w: %s is live, and the new model replaces %s; an operator chose another one, or another "+
			"process trains pipeline %s", ErrOvertaken, p.Live, cmp.Or(release.Parent, "no model"), r.pipeline)
	case p.Live != "" && p.selection().wasReset != release.AfterReset:
		return fmt.Errorf("%w: the reset of %s began or ended while the new model was fitted", ErrOvertaken, p.Live)
	}
	return nil
}

// write stores a model under a claimed name and reads it back.
func (r *Registry) write(ctx context.Context, name string, m *model.Model) (size int64, err error) {
	note := m.Note()
	note.Version = name
	var file bytes.Buffer
	if err := model.Write(&file, m.WithNote(note)); err != nil {
		return 0, err
	}
	size = int64(file.Len())
	if size > r.options.Limit {
		return 0, fmt.Errorf("%w: it takes %s and limits.model allows %s; raise limits.model, or fit a smaller one: a "+
			"linear method, or a smaller window.rows where the model holds rows",
			ErrTooLarge, mebibytes(size), mebibytes(r.options.Limit))
	}
	if err := r.store.put(ctx, r.pipeline, name, file.Bytes()); err != nil {
		return 0, fmt.Errorf("writing model %s (%s): %w", name, r.store, err)
	}
	if _, err := r.models.get(ctx, Version{Name: name, Digest: m.Digest()}); err != nil {
		return 0, fmt.Errorf("a model that was read back differs from what was written: %w", err)
	}
	return size, nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// discard removes models that the pointer does not name. Those that cannot be removed now are found by Sweep.
func (r *Registry) discard(ctx context.Context, names []string) {
	for _, name := range names {
		if err := r.store.remove(ctx, r.pipeline, name); err != nil {
			r.options.Logger.Debug("a model that is not needed cannot be deleted; it stays until the next start", "version",
				name, "error", err)
		}
	}
}

// Sweep removes what crashes left behind: models that the pointer does not name.
func (r *Registry) Sweep(ctx context.Context) error {
	// A name is claimed before it is written, so an object that exists now and is not named by a later read is unused.
	there, err := r.store.versions(ctx, r.pipeline)
	if err != nil {
		return err
	}
	p, err := r.Pointer(ctx)
	if err != nil {
		return err
	}
	for _, s := range there {
		if p.Find(s.name) == nil && s.name != p.Candidate {
			r.discard(ctx, []string{s.name})
		}
	}
	return r.store.tidy(ctx, r.pipeline, maxWriteIdle)
}

// maxWriteIdle is how long an unfinished write may make no progress before it is removed.
const maxWriteIdle = time.Hour

// maxState is the size limit of a checkpoint. That of a window of 100 million rows has 360 KiB at most.
const maxState = 512 << 10

// Checkpoint stores what the trainer knows outside its window, after it compared the live model with candidates from
// newer rows and kept it. Before the first model there is nothing it could belong to, and it is dropped.
func (r *Registry) Checkpoint(ctx context.Context, state []byte) error {
	if len(state) > maxState {
		return fmt.Errorf("a checkpoint of %d bytes is over the limit of %d", len(state), maxState)
	}
	r.saving.Lock()
	live := r.known.live
	r.saving.Unlock()
	_, err := r.pointers.update(ctx, func(p *Pointer) error {
		if p.Live == "" || p.Live != live {
			return errUnchanged
		}
		if err := r.fence(p); err != nil {
			return err
		}
		p.State, p.StateOf, p.ConfirmedAt = state, p.Live, r.options.Clock()
		return nil
	})
	return unlessUnchanged(err)
}

// SettleEpoch records whether the epoch of the live model is comparable with those before, for all versions of the
// epoch.
func SettleEpoch(ctx context.Context, r *Registry, l *plugin.Live) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	p, err := r.pointers.update(ctx, func(p *Pointer) error {
		if err := r.fence(p); err != nil {
			return err
		}
		if p.Live != l.Version || r.known.live != l.Version {
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
		r.setLive(p.selection())
	}
	return err
}

// RecordRefusal notes a candidate that was not promoted.
func (r *Registry) RecordRefusal(ctx context.Context, f plugin.Outcome) error {
	one := Refusal{Time: r.options.Clock(), Rows: f.Rows, Score: figure(f.Candidate), LiveScore: figure(f.Previous),
		Reason: short(f.Reason)}
	if f.Live != nil {
		one.Live = f.Live.Version
	}
	_, err := r.pointers.update(ctx, func(p *Pointer) error {
		if err := r.fence(p); err != nil {
			return err
		}
		p.Refused = append(p.Refused, one)
		p.Refused = p.Refused[max(len(p.Refused)-maxRefused, 0):]
		if one.Live == p.Live {
			p.ConfirmedAt = one.Time
		}
		return nil
	})
	return err
}

// fence rejects a write of a trainer that has no lease, or whose lease another process has taken since, and marks the
// pointer with the term of its lease.
func (r *Registry) fence(p *Pointer) error {
	if r.options.Term == nil {
		return nil
	}
	return fenceAt(r, p, r.options.Term())
}

// fenceAt does so for a process whose lease has a term.
func fenceAt(r *Registry, p *Pointer, term uint64) error {
	switch {
	case r.options.Term == nil:
		return nil
	case term == 0:
		return fmt.Errorf("%w: this one does not hold the lease of pipeline %s", ErrFenced, r.pipeline)
	case p.Term > term:
		return fmt.Errorf("%w: it took the lease of pipeline %s with term %d, after this one with %d", ErrFenced,
			r.pipeline, p.Term, term)
	}
	p.Term = term
	return nil
}

// Seal is the first act of a new lease holder: it writes its term into the pointer. Every revision that a former
// holder knows is then outdated, so its writes are rejected. If the pointer has a later term although this process
// holds the lease, as holds reports, the terms of the leases began again, and the new term is one more. Seal returns
// the term of the pointer. It removes what a former holder has begun to write.
func (r *Registry) Seal(ctx context.Context, term uint64, holds func(context.Context) (bool, error)) (uint64, error) {
	r.saving.Lock()
	defer r.saving.Unlock()
	sealed, abandoned := term, ""
	_, err := r.pointers.update(ctx, func(p *Pointer) error {
		sealed, abandoned = term, ""
		if p.damage != "" {
			r.options.Logger.Error("the model store is damaged, and its pointer is written again", "error", p.damage)
		}
		if p.Term == term {
			return errUnchanged
		}
		if p.Term > term {
			yes, err := holds(ctx)
			if err != nil {
				return err
			}
			if !yes {
				return fmt.Errorf("%w: it took the lease of pipeline %s with term %d", ErrFenced, r.pipeline, p.Term)
			}
			sealed = p.Term + 1
		}
		p.Term, abandoned, p.Candidate = sealed, p.Candidate, ""
		return nil
	})
	if err = unlessUnchanged(err); err != nil {
		return 0, err
	}
	if abandoned != "" {
		r.discard(ctx, []string{abandoned})
	}
	return sealed, nil
}

// Pin makes a version the live one and keeps it live; without a version it pins the live one.
func (r *Registry) Pin(ctx context.Context, q Request) (*Pointer, error) {
	return r.choose(ctx, q, "pin", func(p *Pointer) (string, error) {
		q.Version = cmp.Or(q.Version, p.Live)
		if q.Version == "" {
			return "", &missing{fmt.Sprintf("pipeline %s has no model yet (%s)", r.pipeline, r.store)}
		}
		return q.Version, nil
	})
}

// Unpin lets training continue from the pinned version.
func (r *Registry) Unpin(ctx context.Context, q Request) (*Pointer, error) {
	return r.pointers.update(ctx, func(p *Pointer) error {
		if err := q.expects(p); err != nil {
			return err
		}
		if p.Pin == "" {
			return fmt.Errorf("%w: pipeline %s has none", ErrNotPinned, r.pipeline)
		}
		p.Pin = ""
		p.turn(r.options.Clock(), "unpin", "", q.By)
		return nil
	})
}

// Record records what an operator requested, if any version is stored.
func Record(ctx context.Context, r *Registry, what, by string) error {
	if p, _, err := r.pointers.read(ctx); err != nil || len(p.Versions) == 0 {
		return err
	}
	_, err := r.pointers.update(ctx, func(p *Pointer) error {
		p.turn(r.options.Clock(), what, "", by)
		return nil
	})
	return err
}

// Rollback makes an earlier version the live one, from which training continues; without a version it is the one
// before the live one.
func (r *Registry) Rollback(ctx context.Context, q Request) (*Pointer, error) {
	return r.choose(ctx, q, "rollback", func(p *Pointer) (string, error) {
		switch {
		case p.Pin != "":
			return "", fmt.Errorf("%w: %s; `embedd model unpin %s` first, or pin another version", ErrPinned, p.Pin, r.pipeline)
		case q.Version != "":
			return q.Version, nil
		case p.Previous == "":
			if p.Live == "" {
				return "", &missing{fmt.Sprintf("pipeline %s has no live model, and none to go back to", r.pipeline)}
			}
			return "", &missing{fmt.Sprintf("no version of pipeline %s was live before %s", r.pipeline, p.Live)}
		}
		return p.Previous, nil
	})
}

// choose makes a stored version the live one, after reading it as a start does. what is pin or rollback.
func (r *Registry) choose(ctx context.Context, q Request, what string, which func(*Pointer) (string, error)) (*Pointer,
	error) {
	p, _, err := r.pointers.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := q.expects(p); err != nil {
		return nil, err
	}
	name, err := which(p)
	if err != nil {
		return nil, err
	}
	v := p.Find(name)
	if v == nil {
		return nil, r.pointers.noVersion(p, name)
	}
	m, err := r.models.get(ctx, *v)
	if err == nil && q.Check != nil {
		err = q.Check(m)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; pipeline %s has the versions %s", err, r.pipeline, p.names())
	}
	if live := p.Find(p.Live); live != nil && !live.Bootstrap && !live.WasReset && live.Dim != 0 && live.Dim != m.Dim() {
		return nil, fmt.Errorf("%w: model %s has %d, and readers of the output rely on the %d of %s; choose another "+
			"version, or reset the live one first: `embedd model reset %s`", ErrDim, name, m.Dim(), live.Dim, live.Name,
			r.pipeline)
	}
	return r.pointers.update(ctx, func(p *Pointer) error {
		if err := q.expects(p); err != nil {
			return err
		}
		good := m.Note().Created
		if name == p.Live {
			good = p.ConfirmedAt
		}
		if p.Find(name) == nil {
			return &missing{fmt.Sprintf("version %s of pipeline %s was removed meanwhile", name, r.pipeline)}
		}
		was := p.Live
		p.choose(name, good)
		if what == "pin" {
			p.Pin = name
		}
		p.turn(r.options.Clock(), what, was, q.By)
		return nil
	})
}

// Reset has the next first model of the pipeline replace the live one and begin a new epoch, without evidence and with
// the number of outputs that is configured then. The live model stays until it exists; choosing a version ends the
// reset. Without a live model it changes nothing.
func (r *Registry) Reset(ctx context.Context) (*Pointer, error) {
	return r.pointers.update(ctx, func(p *Pointer) error {
		if p.Pin != "" {
			return fmt.Errorf("%w: %s; `embedd model unpin %s` first", ErrPinned, p.Pin, r.pipeline)
		}
		if v := p.Find(p.Live); v != nil {
			v.WasReset = true
			p.turn(r.options.Clock(), "reset", "", "")
		}
		return nil
	})
}

// Bind binds the pipeline's name to an input stream, unless it is no longer bound to the one given. It returns the
// stream that the name is bound to then.
func (r *Registry) Bind(ctx context.Context, was, stream string) (bound string, err error) {
	_, err = r.pointers.update(ctx, func(p *Pointer) error {
		if bound = p.Stream; bound != was || bound == stream {
			return errUnchanged
		}
		p.Stream, bound = stream, stream
		return nil
	})
	return bound, unlessUnchanged(err)
}

// Retire leaves the pipeline without a live model: the next one is the first of a new epoch. The live model becomes the
// previous one. It writes under the term for which the pointer was sealed; 0 where there are no leases.
func (r *Registry) Retire(ctx context.Context, term uint64) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	_, err := r.pointers.update(ctx, func(p *Pointer) error {
		if p.Pin != "" {
			return fmt.Errorf("%w: %s; `embedd model unpin %s` lets another take its place", ErrPinned, p.Pin, r.pipeline)
		}
		if err := fenceAt(r, p, term); err != nil {
			return err
		}
		p.Previous, p.Live, p.State, p.StateOf = p.Live, "", nil, ""
		p.turn(r.options.Clock(), "retire", p.Previous, "")
		return nil
	})
	if err == nil {
		r.setLive(selection{})
		r.epoch = 0
	}
	return err
}
