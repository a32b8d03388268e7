package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// catalog is what is stored of one pipeline: its pointer, and the models that it lists.
type catalog struct {
	store    Store
	pipeline string
	options  Options
	revision atomic.Uint64 // of the newest pointer that this process wrote or follows

	prefetched atomic.Pointer[cachedModel] // before it is live
	origin     atomic.Pointer[cachedModel] // the first model of the epoch
}

// Pointer returns what is known of the pipeline's models.
func (c *catalog) Pointer(ctx context.Context) (*Pointer, error) {
	p, _, err := c.read(ctx)
	return p, err
}

// read returns the pointer and its revision, also with ErrNewer. It rebuilds a pointer that cannot be read, in memory.
func (c *catalog) read(ctx context.Context) (*Pointer, uint64, error) {
	value, revision, err := c.load(ctx)
	if err != nil {
		return nil, 0, err
	}
	p, err := c.decode(ctx, value, revision)
	return p, revision, err
}

// load reads the stored pointer.
func (c *catalog) load(ctx context.Context) (value []byte, revision uint64, err error) {
	if value, revision, err = c.store.load(ctx, c.pipeline); err != nil {
		return nil, 0, fmt.Errorf("reading the pointer to the models of %s (%s): %w", c.pipeline, c.store, err)
	}
	return value, revision, nil
}

// decode decodes a stored pointer, or rebuilds one that cannot be decoded.
func (c *catalog) decode(ctx context.Context, value []byte, revision uint64) (*Pointer, error) {
	p, err := parse(value)
	if errors.Is(err, ErrNewer) {
		return nil, fmt.Errorf("the pointer to the models of %s (%s, revision %d): %w", c.pipeline, c.store, revision, err)
	}
	if err != nil || len(value) == 0 {
		return c.rebuild(ctx, err)
	}
	return p, nil
}

// find reads the pointer, and finds a version that it lists.
func (c *catalog) find(ctx context.Context, version string) (*Pointer, *Version, error) {
	p, _, err := c.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	v, err := c.versionIn(p, version)
	return p, v, err
}

// versionIn finds a version in a pointer. The error is ErrMissing if the pointer does not list it.
func (c *catalog) versionIn(p *Pointer, version string) (*Version, error) {
	if v := p.Find(version); v != nil {
		return v, nil
	}
	return nil, withKind(ErrMissing, fmt.Errorf("pipeline %s has no version %q; it has %s", c.pipeline, version,
		p.names()))
}

// update changes the pointer by compare-and-set, and returns what is stored then (see natsx.Modify). If change returns
// errUnchanged, update writes nothing and succeeds.
func (c *catalog) update(ctx context.Context, change func(*Pointer) error) (p *Pointer, err error) {
	write := func(ctx context.Context, value []byte, revision uint64) (uint64, error) {
		next, err := c.store.compareAndSet(ctx, c.pipeline, value, revision)
		if err != nil {
			err = fmt.Errorf("moving the pointer to the models of %s (%s): %w", c.pipeline, c.store, err)
		}
		return next, err
	}
	_, revision, err := natsx.Modify(ctx, c.load, write, func(value []byte, revision uint64) ([]byte, error) {
		if p, err = c.decode(ctx, value, revision); err != nil {
			return nil, err
		}
		if err := change(p); err != nil {
			return nil, err
		}
		p.Replaces = revision
		return c.encode(p)
	})
	switch {
	case errors.Is(err, errUnchanged):
		return p, nil
	case err != nil:
		return nil, err
	}
	c.revision.Store(revision)
	return p, nil
}

// encode encodes the pointer, without the checkpoint if it is too large for the server: a restart then reads more rows.
func (c *catalog) encode(p *Pointer) ([]byte, error) {
	p.Format = Format
	limit := c.store.maxPointerBytes()
	value, err := json.Marshal(p)
	if err == nil && len(value) > limit && p.State != nil {
		c.options.Logger.Warn("the trainer's checkpoint does not fit into the message of the pointer; a restart will read "+
			"more rows", "bytes", len(value), "limit", limit, "fix", "raise the server's max_payload")
		p.State, p.StateOf = nil, ""
		value, err = json.Marshal(p)
	}
	if err == nil && len(value) > limit {
		err = fmt.Errorf("the pointer with %d versions of %s has %d bytes, and the server accepts messages of up to %d: "+
			"raise its max_payload, or lower model.keep.versions", len(p.Versions), c.pipeline, len(value), limit)
	}
	return value, err
}

// rebuild returns a pointer in place of one that cannot be read because of cause, or that is gone (cause is nil) while
// models are stored: a pipeline answers with an older model rather than not at all, and reports it. It is the newest
// earlier pointer that can be read, with all models, or is built from the models: the newest readable one is live then.
func (c *catalog) rebuild(ctx context.Context, cause error) (*Pointer, error) {
	there, err := c.store.versions(ctx, c.pipeline)
	if err != nil {
		return nil, fmt.Errorf("listing the models of %s (%s): %w", c.pipeline, c.store, err)
	}
	if cause == nil {
		if len(there) == 0 {
			return &Pointer{Format: Format}, nil // of a new pipeline
		}
		cause = errors.New("it is gone")
	}
	older, err := c.store.history(ctx, c.pipeline)
	if err != nil {
		return nil, fmt.Errorf("reading earlier pointers to the models of %s (%s): %w", c.pipeline, c.store, err)
	}
	p, how := &Pointer{Format: Format, rebuilt: true}, "the previous pointer is used instead"
	for _, value := range older {
		if before, err := parse(value); err == nil && len(value) > 0 {
			p = before
			break
		}
	}
	if err := c.addUnlisted(ctx, p, there); err != nil {
		return nil, err
	}
	if p.rebuilt {
		// The epochs that were used are unknown; the seconds since 1970 are a higher number.
		p.Epochs = max(p.Epochs, int(c.options.Clock().Unix()))
		how = "no version can be read, and a first model is fitted"
		for _, v := range p.Versions {
			if !v.Damaged {
				p.setLive(v.Name, v.Created)
				how = "the newest version that can be read is used"
			}
		}
	}
	p.damage = fmt.Sprintf("the pointer to the models of %s (%s) cannot be read: %v; %s; `embedd model ls %s` shows the "+
		"versions, `embedd model rollback VERSION` chooses another", c.pipeline, c.store, cause, how, c.pipeline)
	return p, nil
}

// addUnlisted adds the stored models that a pointer does not list, with what the models say of themselves.
func (c *catalog) addUnlisted(ctx context.Context, p *Pointer, there []*jetstream.ObjectInfo) error {
	for _, one := range there {
		if p.Find(one.Name) != nil {
			continue
		}
		v := Version{Name: one.Name, Created: one.ModTime, Size: int64(one.Size)}
		m, err := c.get(ctx, v)
		if err != nil && !isUnreadable(err) {
			return err
		}
		if v.Damaged = err != nil; !v.Damaged {
			v.describe(m)
			v.Rows, v.Epoch = m.Rows(), int(m.Note().Epoch)
		}
		p.Versions = append(p.Versions, v)
		p.Number, p.Epochs = max(p.Number, numberOf(v.Name)), max(p.Epochs, v.Epoch)
	}
	slices.SortFunc(p.Versions, func(a, b Version) int { return numberOf(a.Name) - numberOf(b.Name) })
	return nil
}
