package registry

import (
	"cmp"
	"context"
	"fmt"
)

// Pin makes a version the live one and keeps it live; version "" pins the live one.
func (r *Registry) Pin(ctx context.Context, version string) (*Pointer, error) {
	return r.choose(ctx, func(p *Pointer) (string, error) {
		version = cmp.Or(version, p.Live)
		if version == "" {
			return "", &missing{fmt.Sprintf("pipeline %s has no model yet (%s)", r.pipeline, r.store)}
		}
		return version, nil
	}, true)
}

// Unpin lets training continue from the pinned version.
func (r *Registry) Unpin(ctx context.Context) (*Pointer, error) {
	return r.pointers.update(ctx, func(p *Pointer) error {
		if p.Pin == "" {
			return fmt.Errorf("%w: pipeline %s has none", ErrNotPinned, r.pipeline)
		}
		p.Pin = ""
		return nil
	})
}

// Rollback makes an earlier version the live one, from which training continues; version "" is the one before the
// live one.
func (r *Registry) Rollback(ctx context.Context, version string) (*Pointer, error) {
	return r.choose(ctx, func(p *Pointer) (string, error) {
		switch {
		case p.Pin != "":
			return "", fmt.Errorf("%w: %s; `embedd model unpin %s` first, or pin another version", ErrPinned, p.Pin, r.pipeline)
		case version != "":
			return version, nil
		case p.Previous == "":
			return "", &missing{fmt.Sprintf("no version of pipeline %s was live before %s", r.pipeline, orNone(p.Live))}
		}
		return p.Previous, nil
	}, false)
}

// choose makes a stored version the live one, after reading it as a start does.
func (r *Registry) choose(ctx context.Context, which func(*Pointer) (string, error), pin bool) (*Pointer, error) {
	p, _, err := r.pointers.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.pointers.upgrade(ctx, p); err != nil {
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
	if err != nil {
		return nil, err
	}
	if live := p.Find(p.Live); live != nil && !live.Bootstrap && live.Dim != 0 && live.Dim != m.Dim() {
		return nil, fmt.Errorf("%w: model %s has %d, and readers of the output rely on the %d of %s; choose another version",
			ErrDim, name, m.Dim(), live.Dim, live.Name)
	}
	return r.pointers.update(ctx, func(p *Pointer) error {
		good := m.Note().Created
		if name == p.Live {
			good = p.ConfirmedAt
		}
		v := p.Find(name)
		if v == nil {
			return &missing{fmt.Sprintf("version %s of pipeline %s was removed meanwhile", name, r.pipeline)}
		}
		if v.Epoch == 0 { // what an early embedd stored and did not list
			*v = Version{Name: name, Digest: m.Digest(), Epoch: int(m.Note().Epoch), Method: m.Method(), Dim: m.Dim(),
				Features: m.M(), Classes: len(m.Classes()), Params: m.Params(), Rows: m.Rows(), Created: v.Created, Size: v.Size}
		}
		p.choose(name, good)
		if pin {
			p.Pin = name
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
// previous one.
func (r *Registry) Retire(ctx context.Context) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	_, err := r.pointers.update(ctx, func(p *Pointer) error {
		if p.Pin != "" {
			return fmt.Errorf("%w: %s; `embedd model unpin %s` lets another take its place", ErrPinned, p.Pin, r.pipeline)
		}
		if err := r.fence(p); err != nil {
			return err
		}
		p.Previous, p.Live, p.State, p.StateOf = p.Live, "", nil, ""
		return nil
	})
	if err == nil {
		r.setLive(selection{})
		r.epoch = 0
	}
	return err
}
