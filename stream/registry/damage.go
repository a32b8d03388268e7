package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// What a start does where the store is damaged. It goes on: a pipeline that is paged for answers with an older model
// rather than not at all, and says so.

// damaged is ErrDamaged with a sentence of its own.
type damaged struct{ error }

func (e *damaged) Is(target error) bool { return target == ErrDamaged }
func (e *damaged) Unwrap() error        { return e.error }

// unreachable is an error of who was asked for bytes, and none of the bytes.
type unreachable struct{ error }

func (e *unreachable) Unwrap() error { return e.error }

// source remembers that bytes could not be asked for.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if u := new(unreachable); errors.As(err, &u) {
		s.err = err
	}
	return n, err
}

// rebuild makes up for a pointer that cannot be read, or is gone while models are there: it is the newest one before it
// that can be read, and lists the models beside. Without one it is what the models say of themselves, and the newest
// that reads is live.
func (r *Registry) rebuild(ctx context.Context, cause error) (*Pointer, error) {
	there, err := r.store.versions(ctx, r.pipeline)
	if err != nil {
		return nil, fmt.Errorf("listing the models of %s (%s): %w", r.pipeline, r.store, err)
	}
	if cause == nil && len(there) == 0 {
		return parse(nil)
	}
	if cause == nil {
		cause = errors.New("it is gone")
	}
	older, err := r.store.earlier(ctx, r.pipeline)
	if err != nil {
		return nil, fmt.Errorf("asking for the pointers of %s before (%s): %w", r.pipeline, r.store, err)
	}
	p, how := &Pointer{Format: Format, rebuilt: true}, ""
	for _, value := range older {
		if before, err := parse(value); err == nil && len(value) > 0 {
			p, how = before, "the one before it serves instead"
			break
		}
	}
	for _, s := range there {
		if p.Find(s.name) != nil {
			continue
		}
		v := Version{Name: s.name, Created: s.time, Size: s.size}
		m, err := r.get(ctx, v)
		switch {
		case err == nil:
			v.Digest, v.Method, v.Dim, v.Features = m.Digest(), m.Method(), m.Dim(), m.M()
			v.Classes, v.Params, v.Rows, v.Epoch = len(m.Classes()), m.Params(), m.Rows(), int(m.Note().Epoch)
		case errors.Is(err, ErrDamaged), errors.Is(err, ErrMissing):
			v.Damaged = true
		default:
			return nil, err
		}
		p.Versions = append(p.Versions, v)
		p.Number, p.Epochs = max(p.Number, numberOf(v.Name)), max(p.Epochs, v.Epoch)
	}
	slices.SortFunc(p.Versions, func(a, b Version) int { return numberOf(a.Name) - numberOf(b.Name) })
	if p.rebuilt {
		// Which epochs there were nobody knows; the seconds since 1970 are more.
		p.Epochs = max(p.Epochs, int(r.options.Clock().Unix()))
		how = "no version can be read, and it begins anew"
		for _, v := range p.Versions {
			if !v.Damaged {
				p.choose(v.Name, v.Created)
				how = "the newest version that can be read serves"
			}
		}
	}
	p.damage = fmt.Sprintf("the pointer to the models of %s (%s) cannot be read: %v; %s; `embedd model ls %s` shows the versions, `embedd model rollback VERSION` chooses another",
		r.pipeline, r.store, cause, how, r.pipeline)
	return p, nil
}

// goBack makes the newest version that can be read the live one, the previous one first, and marks those that cannot.
// Readers rely on the dimensions and the input on the features: it is one of the same. Without one there is no live
// model. A pin moves with it.
func (r *Registry) goBack(ctx context.Context, p *Pointer, cause error) (*Pointer, string, error) {
	live, names := *p.Find(p.Live), []string{p.Previous}
	for i := len(p.Versions) - 1; i >= 0; i-- {
		names = append(names, p.Versions[i].Name)
	}
	bad, found := []string{p.Live}, ""
	for _, name := range names {
		v := p.Find(name)
		if name == "" || slices.Contains(bad, name) || v.Damaged ||
			live.Dim != 0 && v.Dim != 0 && (v.Dim != live.Dim || v.Features != live.Features) {
			continue
		}
		_, err := r.get(ctx, *v)
		if err == nil {
			found = name
			break
		}
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrMissing) {
			return nil, "", err
		}
		bad = append(bad, name)
	}
	moved := false
	p, err := r.update(ctx, func(p *Pointer) error {
		if moved = p.Live != live.Name; moved {
			return nil // somebody chose another meanwhile
		}
		pinned := p.Pin != ""
		for _, name := range bad {
			if v := p.Find(name); v != nil {
				v.Damaged = true
			}
		}
		p.Live, p.Pin, p.Previous, p.State, p.StateOf = "", "", "", nil, ""
		if v := p.Find(found); v != nil {
			p.choose(found, v.Created)
			if pinned {
				p.Pin = found
			}
		}
		return nil
	})
	if moved {
		return p, "", err
	}
	how := fmt.Sprintf("%s serves instead; `embedd model ls %s` shows the versions, `embedd model rollback VERSION` chooses another",
		found, r.pipeline)
	if found == "" {
		how = "no other version of its features and dimensions can be read, and it begins anew"
	}
	return p, fmt.Sprintf("the live model %s cannot be read: %v; %s", live.Name, errors.Unwrap(cause), how), err
}
