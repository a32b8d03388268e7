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
		return nil, 0, fmt.Errorf("asking for the live model of %s (%s): %w", s.pipeline, s.store, err)
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
		if err := s.upgrade(ctx, p); err != nil {
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

// maxReadBacks is how often an unconfirmed write is looked up.
const maxReadBacks = 4

// swap writes the pointer if its revision is still the given one. A write that was not confirmed is read back: it may
// be stored, and to repeat it would fail as if another process had been first.
func (s *pointerStore) swap(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	next, err := s.store.compareAndSet(ctx, s.pipeline, value, revision)
	for attempt := 0; err != nil && !errors.Is(err, errMoved) && attempt < maxReadBacks; attempt++ {
		select {
		case <-time.After(20 * time.Millisecond << attempt):
		case <-ctx.Done():
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
			next, err = s.store.compareAndSet(ctx, s.pipeline, value, revision)
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
			"bytes", len(value), "limit", s.store.maxPointerBytes(), "cure", "raise the server's max_payload")
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

// upgrade lists the models that a version of format 1 stored and did not list.
func (s *pointerStore) upgrade(ctx context.Context, p *Pointer) error {
	if p.Format != 1 {
		return nil
	}
	there, err := s.store.versions(ctx, s.pipeline)
	if err != nil {
		return fmt.Errorf("listing the models of %s (%s): %w", s.pipeline, s.store, err)
	}
	for _, one := range there {
		v := p.Find(one.name)
		if v == nil && numberOf(one.name) < p.Number {
			p.Versions = append(p.Versions, Version{Name: one.name})
			v = &p.Versions[len(p.Versions)-1]
		}
		if v != nil {
			v.Created, v.Size = one.time, one.size
		}
	}
	slices.SortFunc(p.Versions, func(a, b Version) int { return numberOf(a.Name) - numberOf(b.Name) })
	return nil
}

func (s *pointerStore) noVersion(p *Pointer, name string) error {
	return &missing{fmt.Sprintf("pipeline %s has no version %q; it has %s", s.pipeline, name, p.names())}
}
