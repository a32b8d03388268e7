package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/natsx"
)

// pointerStore reads and writes the pointer of one pipeline.
type pointerStore struct {
	store    Store
	pipeline string
	models   *modelReader // to rebuild a pointer that cannot be read
	log      *slog.Logger
	clock    func() time.Time
	revision atomic.Uint64 // the newest that this process wrote or follows
}

// read reads the pointer, and rebuilds one that cannot be read.
func (s *pointerStore) read(ctx context.Context) (*Pointer, uint64, error) {
	value, revision, err := s.store.load(ctx, s.pipeline)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the pointer to the models of %s (%s): %w", s.pipeline, s.store, err)
	}
	p, err := parse(value)
	if err == nil && len(value) > 0 {
		return p, revision, nil
	}
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, revision, fmt.Errorf("the pointer to the models of %s (%s, revision %d): %w", s.pipeline, s.store,
			revision, err)
	}
	p, err = s.rebuild(ctx, err)
	return p, revision, err
}

// maxSwaps is how often a change is retried while other processes write the pointer.
const maxSwaps = 20

// update changes the pointer by compare-and-set. change may be called more than once.
func (s *pointerStore) update(ctx context.Context, change func(*Pointer) error) (*Pointer, error) {
	for attempt := 0; ; attempt++ {
		p, revision, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		if err := change(p); err != nil {
			return nil, err
		}
		p.Replaces = revision
		value, err := s.encode(p)
		if err != nil {
			return nil, err
		}
		next, err := s.swap(ctx, value, revision)
		if err == nil {
			s.revision.Store(next)
			return p, nil
		}
		if !errors.Is(err, errMoved) || attempt == maxSwaps {
			return nil, fmt.Errorf("moving the pointer to the models of %s (%s): %w", s.pipeline, s.store, err)
		}
	}
}

// maxReadBacks is how often an unconfirmed write is looked up, each after it has waited for swapWait at most: a
// confirmation that is lost with a connection never comes.
const (
	maxReadBacks = 4
	swapWait     = 5 * time.Second
)

// swap writes the pointer if its revision is still the given one. A write that was not confirmed is read back: it may
// be stored, and to repeat it would fail as if another process had been first.
func (s *pointerStore) swap(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	write := func() (uint64, error) {
		ctx, cancel := context.WithTimeout(ctx, swapWait)
		defer cancel()
		return s.store.compareAndSet(ctx, s.pipeline, value, revision)
	}
	next, err := write()
	for attempt := 0; err != nil && !errors.Is(err, errMoved) && attempt < maxReadBacks; attempt++ {
		if !natsx.Sleep(ctx, 20*time.Millisecond<<attempt) {
			return 0, err
		}
		there, at, errRead := s.store.load(ctx, s.pipeline)
		switch {
		case errRead != nil:
		case at != revision && bytes.Equal(there, value):
			return at, nil
		case at != revision:
			return 0, errMoved
		default:
			next, err = write()
		}
	}
	return next, err
}

// encode encodes the pointer. If it exceeds the server's payload limit, the checkpoint is left out: a restart without
// one reads more rows and loses nothing.
func (s *pointerStore) encode(p *Pointer) ([]byte, error) {
	p.Format = Format
	value, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	if len(value) > s.store.maxPointerBytes() && p.State != nil {
		s.log.Warn("the trainer's checkpoint does not fit into the message of the pointer; a restart will read more rows",
			"bytes", len(value), "limit", s.store.maxPointerBytes(), "fix", "raise the server's max_payload")
		p.State, p.StateOf = nil, ""
		if value, err = json.Marshal(p); err != nil {
			return nil, err
		}
	}
	if len(value) > s.store.maxPointerBytes() {
		return nil, fmt.Errorf("the pointer with %d versions of %s has %d bytes, and the server accepts messages of "+
			"up to %d: raise its max_payload, or lower model.keep.versions",
			len(p.Versions), s.pipeline, len(value), s.store.maxPointerBytes())
	}
	return value, nil
}

// find reads the pointer, and finds a version that it lists.
func (s *pointerStore) find(ctx context.Context, version string) (*Pointer, *Version, error) {
	p, _, err := s.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	v := p.Find(version)
	if v == nil {
		return nil, nil, s.noVersion(p, version)
	}
	return p, v, nil
}

func (s *pointerStore) noVersion(p *Pointer, name string) error {
	return &missing{fmt.Sprintf("pipeline %s has no version %q; it has %s", s.pipeline, name, p.names())}
}

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
		return nil, fmt.Errorf("reading earlier pointers to the models of %s (%s): %w", s.pipeline, s.store, err)
	}
	p, how := &Pointer{Format: Format, rebuilt: true}, ""
	for _, value := range older {
		if before, err := parse(value); err == nil && len(value) > 0 {
			p, how = before, "the previous pointer is used instead"
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
			p.turn(s.clock(), "repair", live.Name, "")
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
