package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// What a start does with a damaged store: it continues. A pipeline that pages an operator answers with an older model
// rather than not at all, and reports it.

// rebuild replaces a pointer that cannot be read, or is gone while models are there. It is the newest earlier pointer
// that can be read, with the other models added to its list. Without one it is built from the models themselves, and
// the newest that can be read is live.
func (s *pointerStore) rebuild(ctx context.Context, cause error) (*Pointer, error) {
	there, err := s.store.versions(ctx, s.pipeline)
	if err != nil {
		return nil, fmt.Errorf("listing the models of %s (%s): %w", s.pipeline, s.store, err)
	}
	if cause == nil && len(there) == 0 {
		return parse(nil)
	}
	if cause == nil {
		cause = errors.New("it is gone")
	}
	older, err := s.store.history(ctx, s.pipeline)
	if err != nil {
		return nil, fmt.Errorf("asking for the pointers of %s before (%s): %w", s.pipeline, s.store, err)
	}
	p, how := &Pointer{Format: Format, rebuilt: true}, ""
	for _, value := range older {
		if before, err := parse(value); err == nil && len(value) > 0 {
			p, how = before, "the one before it is used instead"
			break
		}
	}
	for _, one := range there {
		if p.Find(one.name) != nil {
			continue
		}
		v := Version{Name: one.name, Created: one.time, Size: one.size}
		m, err := s.models.get(ctx, v)
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
		// The epochs that were used are unknown; the seconds since 1970 are a higher number.
		p.Epochs = max(p.Epochs, int(s.clock().Unix()))
		how = "no version can be read, and a first model is fitted"
		for _, v := range p.Versions {
			if !v.Damaged {
				p.choose(v.Name, v.Created)
				how = "the newest version that can be read is used"
			}
		}
	}
	p.damage = fmt.Sprintf("the pointer to the models of %s (%s) cannot be read: %v; %s; `embedd model ls %s` shows the "+
		"versions, `embedd model rollback VERSION` chooses another", s.pipeline, s.store, cause, how, s.pipeline)
	return p, nil
}

// fallBack makes the newest version that can be read the live one, the previous one first, and marks those that
// cannot be read. Readers rely on the dimensions and the input on the features, so it is one with the same. Without
// one there is no live model. A pin moves with it.
func (s *pointerStore) fallBack(ctx context.Context, p *Pointer, cause error) (*Pointer, string, error) {
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
		_, err := s.models.get(ctx, *v)
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
	p, err := s.update(ctx, func(p *Pointer) error {
		if moved = p.Live != live.Name; moved {
			return nil // another version was chosen meanwhile
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
	how := fmt.Sprintf("%s is used instead; `embedd model ls %s` shows the versions, `embedd model rollback VERSION` "+
		"chooses another", found, s.pipeline)
	if found == "" {
		how = "no other version of its features and dimensions can be read, and a first model is fitted"
	}
	return p, fmt.Sprintf("the live model %s cannot be read: %v; %s", live.Name, errors.Unwrap(cause), how), err
}
