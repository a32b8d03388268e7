package registry

import (
	"context"
	"fmt"
	"strings"
)

// Pin makes a version the live one and keeps it so; version "" pins the live one.
func (r *Registry) Pin(ctx context.Context, version string) (*Pointer, error) {
	return r.choose(ctx, func(p *Pointer) (string, error) {
		if version == "" {
			version = p.Live
		}
		if version == "" {
			return "", &missing{fmt.Sprintf("pipeline %s has no model yet (%s)", r.pipeline, r.store)}
		}
		return version, nil
	}, true)
}

// Unpin lets learning go on from the version that was pinned.
func (r *Registry) Unpin(ctx context.Context) (*Pointer, error) {
	return r.update(ctx, func(p *Pointer) error {
		if p.Pin == "" {
			return fmt.Errorf("%w: pipeline %s learns", ErrNotPinned, r.pipeline)
		}
		p.Pin = ""
		return nil
	})
}

// Rollback makes an earlier version the live one, from which learning goes on; version "" is the one before the live
// one.
func (r *Registry) Rollback(ctx context.Context, version string) (*Pointer, error) {
	return r.choose(ctx, func(p *Pointer) (string, error) {
		switch {
		case p.Pin != "":
			return "", fmt.Errorf("%w: %s; `embedd model unpin %s` first, or pin another version", ErrPinned, p.Pin,
				r.pipeline)
		case version != "":
			return version, nil
		case p.Previous == "":
			return "", &missing{fmt.Sprintf("no version of pipeline %s was live before %s", r.pipeline,
				nothing(p.Live))}
		}
		return p.Previous, nil
	}, false)
}

// choose makes a stored version the live one, once it was read as a start would read it.
func (r *Registry) choose(ctx context.Context, which func(*Pointer) (string, error), pin bool) (*Pointer, error) {
	p, _, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.upgrade(ctx, p); err != nil {
		return nil, err
	}
	name, err := which(p)
	if err != nil {
		return nil, err
	}
	v := p.Find(name)
	if v == nil {
		return nil, r.noVersion(p, name)
	}
	m, err := r.get(ctx, *v)
	if err != nil {
		return nil, err
	}
	if live := p.Find(p.Live); live != nil && !live.Bootstrap && live.Dim != 0 && live.Dim != m.Dim() {
		return nil, fmt.Errorf("%w: model %s has %d, and readers of the output rely on the %d of %s; choose another version",
			ErrDim, name, m.Dim(), live.Dim, live.Name)
	}
	return r.update(ctx, func(p *Pointer) error {
		good := m.Note().Created
		if name == p.Live {
			good = p.Good
		}
		v := p.Find(name)
		if v == nil {
			return &missing{fmt.Sprintf("version %s of pipeline %s was removed meanwhile", name, r.pipeline)}
		}
		if v.Epoch == 0 { // what an early embedd stored and did not list
			*v = Version{Name: name, Digest: m.Digest(), Epoch: int(m.Note().Epoch), Method: m.Method(), Dim: m.Dim(),
				Features: m.M(), Classes: len(m.Classes()), Params: m.Params(), Rows: m.Rows(), Created: v.Created,
				Size: v.Size}
		}
		p.choose(name, good)
		if pin {
			p.Pin = name
		}
		return nil
	})
}

func (p *Pointer) names() string {
	if len(p.Versions) == 0 {
		return "none"
	}
	var names []string
	for _, v := range p.Versions {
		names = append(names, v.Name)
	}
	return strings.Join(names, ", ")
}
