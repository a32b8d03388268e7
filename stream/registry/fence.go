package registry

import (
	"context"
	"fmt"
)

// fence refuses what a process writes that learned, where it has no lease or another has taken it since, and marks the
// pointer with the term of the one it has.
func (r *Registry) fence(p *Pointer) error {
	if r.options.Term == nil {
		return nil
	}
	term := r.options.Term()
	switch {
	case term == 0:
		return fmt.Errorf("%w: this one does not hold the lease of pipeline %s", ErrFenced, r.pipeline)
	case p.Term > term:
		return fmt.Errorf("%w: it took the lease of pipeline %s with term %d, after this one with %d", ErrFenced,
			r.pipeline, p.Term, term)
	}
	p.Term = term
	return nil
}

// Seal is the first act of a new holder of the lease: it writes its term into the pointer, so that whatever a former
// holder knows of it is old, and what that has still to write is refused. Where the pointer has a later term although
// this process holds the lease, as holds tells, the numbers of the leases began anew, and the term is one more. Seal
// returns the term under which the pointer is sealed. What another has begun to write under an older one is removed.
func (r *Registry) Seal(ctx context.Context, term uint64, holds func(context.Context) (bool, error)) (uint64, error) {
	r.saving.Lock()
	defer r.saving.Unlock()
	sealed, abandoned := term, ""
	_, err := r.update(ctx, func(p *Pointer) error {
		sealed, abandoned = term, ""
		if p.damage != "" {
			r.options.Logger.Error("the model store is damaged, and its pointer is written anew", "error", p.damage)
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
