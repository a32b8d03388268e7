package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
)

// cachedModel is a model that this process has read, and its version.
type cachedModel struct {
	version string
	model   *model.Model
}

// storeWait is the time limit of storing or reading a model.
const storeWait = 5 * time.Minute

// get returns the model of a version, cached or from the store, with the digest and the epochs of the pointer.
func (c *catalog) get(ctx context.Context, v Version) (*model.Model, error) {
	m := c.cached(v)
	if m == nil {
		var err error
		// A limit that was lowered since does not lock out what was stored before.
		if m, err = c.fetch(ctx, v.Name, max(c.options.Limit, v.Size)); err != nil {
			return nil, err
		}
		if v.Digest != "" && m.Digest() != v.Digest {
			return nil, withKind(ErrDamaged, fmt.Errorf("model %s has digest %.16s, its pointer says %.16s; the store (%s) "+
				"is damaged", v.Name, m.Digest(), v.Digest, c.store))
		}
	}
	if note := m.Note(); note.SameAs != uint64(v.SameAs) {
		note.SameAs = uint64(v.SameAs)
		m = m.WithNote(note)
	}
	return m, nil
}

// cached returns a model that this process has read before; nil if it has not.
func (c *catalog) cached(v Version) *model.Model {
	for _, f := range []*cachedModel{c.prefetched.Load(), c.origin.Load()} {
		if f != nil && f.version == v.Name && f.model.Digest() == v.Digest {
			return f.model
		}
	}
	return nil
}

// fetch reads a model from the store, of limit bytes at most, within storeWait.
func (c *catalog) fetch(ctx context.Context, version string, limit int64) (*model.Model, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	m, err := c.store.get(ctx, c.pipeline, version, limit)
	if errors.Is(err, ErrMissing) {
		return nil, withKind(ErrMissing, fmt.Errorf("the store (%s) has no model %s", c.store, version))
	}
	if err != nil {
		return nil, fmt.Errorf("reading model %s (%s): %w", version, c.store, err)
	}
	return m, nil
}

// fetchDelay is the time over which replicas that are notified of a model at once begin to fetch it.
const fetchDelay = 100 * time.Millisecond

// Prefetch reads a model that is stored and not live yet, and caches it: when it is promoted, this process needs
// nothing more of the store. It retries until ctx is done, unless the model is damaged.
func (c *catalog) Prefetch(ctx context.Context, version string) error {
	if of, _ := PipelineOf(version); of != c.pipeline {
		return fmt.Errorf("%q is not a version of pipeline %s", version, c.pipeline)
	}
	for wait := rand.N(fetchDelay); natsx.Sleep(ctx, wait); wait = fetchDelay + rand.N(2*fetchDelay) {
		m, err := c.fetch(ctx, version, c.options.Limit)
		if err == nil {
			c.prefetched.Store(&cachedModel{version, m})
			return nil
		}
		if errors.Is(err, ErrDamaged) {
			return err
		}
	}
	return ctx.Err()
}

// Model reads a version of the pipeline; ErrMissing if the pointer does not list it.
func (c *catalog) Model(ctx context.Context, version string) (*model.Model, error) {
	_, v, err := c.find(ctx, version)
	if err != nil {
		return nil, err
	}
	return c.get(ctx, *v)
}

// Choice is a live model and why it is live.
type Choice struct {
	Live        *plugin.Live // State is the learner's newest checkpoint; nil where no model is live
	Pinned      bool         // nothing may replace it
	ConfirmedAt time.Time    // when it was last confirmed: fitted, or evaluated on labelled rows and kept
	Epochs      int          // the highest epoch that is known
	New         bool         // the store knows of no epoch of the pipeline: it is new, or its pointers are lost
	Stream      string       // input stream to which the pipeline's name is bound; "": none yet
	Damage      string       // what of the store could not be read, and what is used instead; a sentence
}

// withRemedy adds to an error of the live model how to have another one.
func (c *catalog) withRemedy(p *Pointer, err error) error {
	if p.Previous == "" {
		return fmt.Errorf("%w; no other version is known", err)
	}
	return fmt.Errorf("%w; `embedd model rollback %s` goes back to %s", err, c.pipeline, p.Previous)
}

// choiceOf reads the live model of a pointer, and the models with which candidates are compared, if these can be read.
func (c *catalog) choiceOf(ctx context.Context, p *Pointer) (*Choice, error) {
	choice := &Choice{Epochs: p.Epochs, New: p.rebuilt || p.Live == "" && p.Epochs == 0, Stream: p.Stream,
		Damage: p.damage}
	v := p.Find(p.Live)
	if v == nil {
		return choice, nil
	}
	m, err := c.get(ctx, *v)
	if err != nil {
		return nil, err
	}
	l := &plugin.Live{Model: m, Version: v.Name, Epoch: cmp.Or(v.Epoch, max(int(m.Note().Epoch), 1)), Epochs: p.Epochs,
		Bootstrap: v.Bootstrap, WasReset: v.WasReset, SameAs: v.SameAs, Undecided: v.Undecided}
	if v.Score != nil {
		l.Score = *v.Score
	}
	if origin := p.originOf(v); origin != nil {
		if l.Origin, err = c.get(ctx, *origin); err == nil {
			c.origin.Store(&cachedModel{origin.Name, l.Origin})
		} else {
			c.options.Logger.Warn("the first model of the epoch cannot be read; new models are compared with the live "+
				"one instead", "error", err)
		}
	}
	if first := p.firstOf(v.Undecided); v.Undecided > 0 && first != nil {
		if l.Before, err = c.get(ctx, *first); err != nil { // the epochs stay separate
			c.options.Logger.Warn("the first model of the epoch before cannot be read; whether it is comparable with the live "+
				"one is not decided any more", "error", err)
		}
	}
	if p.StateOf == p.Live {
		l.State = p.State
	}
	choice.Live, choice.Pinned, choice.ConfirmedAt = l, p.Pin != "", p.ConfirmedAt
	choice.Epochs = max(p.Epochs, l.Epoch)
	return choice, nil
}

// Newest reads the live model with the learner's newest checkpoint, nil if there is no model. It changes nothing.
func (c *catalog) Newest(ctx context.Context) (*plugin.Live, error) {
	p, err := c.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	choice, err := c.choiceOf(ctx, p)
	if err != nil {
		return nil, err
	}
	return choice.Live, nil
}

// Read reads a model from a store: the live one of a pipeline, or a version by its name. The error is ErrMissing if
// the store has neither. The limit is that of a model file, or the size that the version was stored with.
func Read(ctx context.Context, s Store, name string) (*model.Model, error) {
	candidates := []string{name}
	if pipeline, isVersion := PipelineOf(name); isVersion {
		candidates = []string{pipeline, name}
	}
	for _, pipeline := range candidates {
		r := New(s, pipeline, Options{})
		p, err := r.Pointer(ctx)
		if err != nil {
			return nil, err
		}
		v := p.Find(name)
		if v == nil && pipeline == name {
			v = p.Find(p.Live)
		}
		if v != nil {
			return r.get(ctx, *v)
		}
	}
	return nil, withKind(ErrMissing, fmt.Errorf("the store (%s) has neither a model nor a pipeline %q", s, name))
}

// Conversion is the map that leads to the outputs of an epoch from those of the one before.
type Conversion struct {
	Version string `json:"version"` // the first of the epoch, which has the map
	Epoch   uint64 `json:"epoch"`
	*model.Conversion
}

// ConversionOf returns the map of the first model of an epoch.
func ConversionOf(first *model.Model) (*Conversion, error) {
	note := first.Note()
	if note.Conversion == nil {
		return nil, fmt.Errorf("%w %d: it is the first one, or follows a reset, or its models have too many outputs; "+
			"request the outputs again", ErrNoConversion, note.Epoch)
	}
	return &Conversion{note.Version, note.Epoch, note.Conversion}, nil
}

// Conversion reads the map that leads to the epoch of a version.
func (c *catalog) Conversion(ctx context.Context, version string) (*Conversion, error) {
	p, v, err := c.find(ctx, version)
	if err != nil {
		return nil, err
	}
	if first := p.originOf(v); first != nil {
		v = first
	}
	m, err := c.get(ctx, *v)
	if err != nil {
		return nil, err
	}
	return ConversionOf(m)
}
