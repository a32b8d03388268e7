package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
)

// Keep says which versions are kept beside the live, the previous and the pinned one. Zero fields mean the defaults.
type Keep struct {
	Versions int           // at most so many, those three included; default 20, at most 200
	Age      time.Duration // none older; 0: no bound
}

// Options say how a registry works. Zero fields mean the defaults.
type Options struct {
	Limit  int64 // most bytes of a model, in writing and in reading; default model.DefaultFileLimit
	Keep   Keep
	Strict bool             // a damaged pointer or model is an error of Live; else it goes on with what can be read
	Logger *slog.Logger     // default: no logs
	Clock  func() time.Time // default time.Now
	// Term is the term of the lease that this process holds, 0 where it holds none: then it stores nothing. nil: there
	// are no leases, and all who learn store.
	Term func() uint64
	// Stage is called with a version that is stored and about to go live, for replicas to have it by then; nil: not.
	Stage func(ctx context.Context, version string)
	// Within is how long who follows may not know what is live; default 10 s. It asks four times as often.
	Within time.Duration
}

// Within is the default of Options.Within.
const Within = 10 * time.Second

// Registry is what a store holds of one pipeline. Its methods may be called from many goroutines.
type Registry struct {
	store    Store
	pipeline string
	options  Options

	// saving is held while a model is written, and while what others chose is taken over: what this process makes live
	// by itself is not news to it.
	saving   sync.Mutex
	known    choice                 // what this process lives with; see lives
	now      atomic.Pointer[choice] // known, for who does not wait for a model to be stored
	offered  choice                 // what it was offered last and did not take
	missed   sighting[choice]       // what was chosen and could not be read
	older    sighting[uint64]       // a revision that is older than one that was seen
	term     uint64                 // of the newest pointer that was followed, or written here
	made     time.Time
	epoch    int // that this process answers in; 0: it has no model
	revision atomic.Uint64
	reached  atomic.Int64 // see Reached, in nanoseconds
	trouble  atomic.Pointer[string]
	found    atomic.Pointer[found]
	fetched  atomic.Pointer[fetched] // before it goes live
	origin   atomic.Pointer[fetched] // the first model of the epoch
}

// Revision is that of the newest pointer that this process lives with.
func (r *Registry) Revision() uint64 { return r.revision.Load() }

// found is when a live model was last found good, as the pointer says.
type found struct {
	live string
	good time.Time
}

// Good is when a version was last found good by who learns; zero where that is not known of it.
func (r *Registry) Good(version string) time.Time {
	if f := r.found.Load(); f != nil && f.live == version {
		return f.good
	}
	return time.Time{}
}

// lives notes what this process lives with.
func (r *Registry) lives(with choice) {
	r.known = with
	r.now.Store(&with)
}

// choice is what a follower has to follow.
type choice struct{ live, pin string }

// stored is a model as it lies in a store.
type stored struct {
	name string
	time time.Time
	size int64
}

// Of is the registry of one pipeline in a store. It opens nothing.
func Of(s Store, pipeline string, o Options) *Registry {
	if o.Limit == 0 {
		o.Limit = model.DefaultFileLimit
	}
	if o.Keep.Versions == 0 {
		o.Keep.Versions = 20
	}
	if o.Within == 0 {
		o.Within = Within
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Registry{store: s, pipeline: pipeline, options: o}
}

// Pipelines are the names of the pipelines of which a store has models.
func Pipelines(ctx context.Context, s Store) ([]string, error) {
	names, err := s.pipelines(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the pipelines of the model store (%s): %w", s, err)
	}
	return names, nil
}

// Pointer is what is known of the pipeline's models.
func (r *Registry) Pointer(ctx context.Context) (*Pointer, error) {
	p, _, err := r.read(ctx)
	return p, err
}

func (r *Registry) read(ctx context.Context) (*Pointer, uint64, error) {
	value, revision, err := r.store.load(ctx, r.pipeline)
	if err != nil {
		return nil, 0, fmt.Errorf("asking for the live model of %s (%s): %w", r.pipeline, r.store, err)
	}
	p, err := parse(value)
	if err == nil && len(value) > 0 {
		return p, revision, nil
	}
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, revision, fmt.Errorf("the pointer to the models of %s (%s, revision %d): %w", r.pipeline, r.store,
			revision,
			err)
	}
	p, err = r.rebuild(ctx, err)
	return p, revision, err
}

// maxSwaps is how often a change is tried while others move the pointer.
const maxSwaps = 20

// update changes the pointer, on what others left. change may be called more than once.
func (r *Registry) update(ctx context.Context, change func(*Pointer) error) (*Pointer, error) {
	for attempt := 0; ; attempt++ {
		p, revision, err := r.read(ctx)
		if err != nil {
			return nil, err
		}
		if err := r.upgrade(ctx, p); err != nil {
			return nil, err
		}
		if err := change(p); err != nil {
			return nil, err
		}
		p.Replaces = revision
		value, err := r.encode(p)
		if err != nil {
			return nil, err
		}
		next, err := r.swap(ctx, value, revision)
		if err == nil {
			r.revision.Store(next)
			return p, nil
		}
		if !errors.Is(err, errMoved) || attempt == maxSwaps {
			return nil, fmt.Errorf("moving the pointer to the models of %s (%s): %w", r.pipeline, r.store, err)
		}
	}
}

// maxReadBacks is how often a write is looked for that was not confirmed.
const maxReadBacks = 4

// swap writes the pointer if its revision is still the one given. A write that was not confirmed is read back: it may
// have come through, and to write once more what is there already would be refused, as if another had been first.
func (r *Registry) swap(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	next, err := r.store.swap(ctx, r.pipeline, value, revision)
	for attempt := 0; err != nil && !errors.Is(err, errMoved) && attempt < maxReadBacks; attempt++ {
		select {
		case <-time.After(20 * time.Millisecond << attempt):
		case <-ctx.Done():
			return 0, err
		}
		there, at, errRead := r.store.load(ctx, r.pipeline)
		switch {
		case errRead != nil:
		case at != revision && bytes.Equal(there, value):
			return at, nil
		case at != revision:
			return 0, errMoved
		default:
			next, err = r.store.swap(ctx, r.pipeline, value, revision)
		}
	}
	return next, err
}

// encode writes the pointer. Where a server takes only short messages the checkpoint stays behind first: a restart
// without one reads more rows and loses nothing.
func (r *Registry) encode(p *Pointer) ([]byte, error) {
	p.Format = Format
	value, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	if len(value) > r.store.most() && p.State != nil {
		r.options.Logger.Warn("the learner's checkpoint does not fit beside the pointer; a restart will read more rows",
			"bytes", len(value), "limit", r.store.most(), "cure", "raise the server's max_payload")
		p.State, p.StateOf = nil, ""
		if value, err = json.Marshal(p); err != nil {
			return nil, err
		}
	}
	if len(value) > r.store.most() {
		return nil, fmt.Errorf("what is known of %d versions of %s takes %d bytes, and the server takes %d a message: raise its max_payload, or lower model.keep.versions",
			len(p.Versions), r.pipeline, len(value), r.store.most())
	}
	return value, nil
}

// upgrade lists the models that an early embedd stored and did not list.
func (r *Registry) upgrade(ctx context.Context, p *Pointer) error {
	if p.Format != 1 {
		return nil
	}
	there, err := r.store.versions(ctx, r.pipeline)
	if err != nil {
		return fmt.Errorf("listing the models of %s (%s): %w", r.pipeline, r.store, err)
	}
	for _, s := range there {
		v := p.Find(s.name)
		if v == nil && numberOf(s.name) < p.Number {
			p.Versions = append(p.Versions, Version{Name: s.name})
			v = &p.Versions[len(p.Versions)-1]
		}
		if v != nil {
			v.Created, v.Size = s.time, s.size
		}
	}
	slices.SortFunc(p.Versions, func(a, b Version) int { return numberOf(a.Name) - numberOf(b.Name) })
	return nil
}

// Choice is a live model and how it came to be live.
type Choice struct {
	Live   *plugin.Live // State is the learner's newest checkpoint; nil where no model is live
	Pinned bool         // nothing may replace it
	Good   time.Time    // when it was last found good: made, or judged on labelled rows and kept
	Epochs int          // the highest epoch that is known
	New    bool         // there is no pointer that would know of epochs before
	Stream string       // that the pipeline's name is bound to; "": to none yet
	Damage string       // what of the store could not be read, and how it goes on; a sentence
}

// Live is the live model, read and checked; none before the first. Where the pointer or the live model is damaged it
// goes on with what can be read: the pointer before, the version before, the newest version that reads, or no model.
// Then the pointer says so from now on, and Damage tells what was done. With Options.Strict it is ErrDamaged.
func (r *Registry) Live(ctx context.Context) (*Choice, error) {
	r.saving.Lock()
	defer r.saving.Unlock()
	begin := time.Now()
	p, revision, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	if p.damage != "" && r.options.Strict {
		return nil, fmt.Errorf("%w: %s", ErrDamaged, p.damage)
	}
	damage, isNew := p.damage, p.rebuilt || p.Live == "" && p.Epochs == 0
	c, err := r.choiceOf(ctx, p)
	if (errors.Is(err, ErrDamaged) || errors.Is(err, ErrMissing)) && !r.options.Strict {
		var why string
		if p, why, err = r.goBack(ctx, p, err); err != nil {
			return nil, err
		}
		damage = strings.Trim(damage+"; "+why, "; ")
		c, err = r.choiceOf(ctx, p)
	} else if err == nil && damage != "" {
		p, err = r.update(ctx, func(*Pointer) error { return nil })
	}
	if err != nil {
		return nil, err
	}
	if r.made, err = r.store.made(ctx); err != nil {
		return nil, fmt.Errorf("asking when the model store was made (%s): %w", r.store, err)
	}
	r.lives(choice{p.Live, p.Pin})
	r.term = p.Term
	r.revision.Store(max(revision, r.revision.Load()))
	r.reach(begin)
	if c.Live != nil {
		r.epoch = c.Live.Epoch
	}
	c.New, c.Damage, c.Stream = isNew, damage, p.Stream
	return c, nil
}

// Drop leaves this process without the model that Live found, which it cannot live with. Who follows is offered it again,
// and Trouble says why it is not taken.
func (r *Registry) Drop() {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.lives(choice{})
	r.epoch = 0
}

// Bind binds the pipeline's name to an input stream, unless it is bound to another than was meanwhile. It returns the
// stream that the name is bound to then.
func (r *Registry) Bind(ctx context.Context, was, stream string) (bound string, err error) {
	_, err = r.update(ctx, func(p *Pointer) error {
		if bound = p.Stream; bound != was || bound == stream {
			return errUnchanged
		}
		p.Stream, bound = stream, stream
		return nil
	})
	return bound, unlessUnchanged(err)
}

// Retire leaves the pipeline without a live model: what is learned next is the first of a new epoch. The model that was
// live is the previous one.
func (r *Registry) Retire(ctx context.Context) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	_, err := r.update(ctx, func(p *Pointer) error {
		if p.Pin != "" {
			return fmt.Errorf("%w: %s; `embedd model unpin %s` lets another take its place", ErrPinned, p.Pin,
				r.pipeline)
		}
		if err := r.fence(p); err != nil {
			return err
		}
		p.Previous, p.Live, p.State, p.StateOf = p.Live, "", nil, ""
		return nil
	})
	if err == nil {
		r.lives(choice{})
		r.epoch = 0
	}
	return err
}

func (r *Registry) choiceOf(ctx context.Context, p *Pointer) (*Choice, error) {
	if p.Live == "" {
		return &Choice{Epochs: p.Epochs}, nil
	}
	v := p.Find(p.Live)
	m, err := r.get(ctx, *v)
	if err != nil {
		cure := "; no other version is known"
		if p.Previous != "" {
			cure = fmt.Sprintf("; `embedd model rollback %s` goes back to %s", r.pipeline, p.Previous)
		}
		return nil, fmt.Errorf("%w%s", err, cure)
	}
	l := &plugin.Live{Model: m, Version: v.Name, Epoch: v.Epoch, Epochs: p.Epochs, Bootstrap: v.Bootstrap}
	if l.Epoch == 0 {
		l.Epoch = max(int(m.Note().Epoch), 1)
	}
	if origin := p.originOf(v); origin != nil {
		// Without it the epoch is judged from this model on: that is no reason not to start.
		if l.Origin, err = r.get(ctx, *origin); err == nil {
			r.origin.Store(&fetched{origin.Name, l.Origin})
		} else {
			r.options.Logger.Warn("the first model of the epoch cannot be read; the epoch is judged from the live one on",
				"error", err)
		}
	}
	if p.StateOf == p.Live {
		l.State = p.State
	}
	return &Choice{Live: l, Pinned: p.Pin != "", Good: p.Good, Epochs: max(p.Epochs, l.Epoch)}, nil
}

// Model is a version of the pipeline; ErrMissing where the pointer lists none of that name.
func (r *Registry) Model(ctx context.Context, version string) (*model.Model, error) {
	p, _, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	v := p.Find(version)
	if v == nil {
		return nil, r.noVersion(p, version)
	}
	return r.get(ctx, *v)
}

func (r *Registry) noVersion(p *Pointer, name string) error {
	return &missing{fmt.Sprintf("pipeline %s has no version %q; it has %s", r.pipeline, name, p.names())}
}

// get reads a version as a start does.
func (r *Registry) get(ctx context.Context, v Version) (*model.Model, error) {
	if m := r.kept(v); m != nil {
		return m, nil
	}
	// A limit that was lowered since does not lock out what was stored before.
	m, err := read(ctx, r.store, r.pipeline, v.Name, max(r.options.Limit, v.Size))
	if err != nil {
		return nil, err
	}
	if v.Digest != "" && m.Digest() != v.Digest {
		return nil, &damaged{fmt.Errorf("model %s has digest %.16s, its pointer says %.16s; the store (%s) is damaged",
			v.Name, m.Digest(), v.Digest, r.store)}
	}
	return m, nil
}

// storeWait is how long a model may take to be stored, or to be read.
const storeWait = 5 * time.Minute

func read(ctx context.Context, s Store, pipeline, version string, limit int64) (*model.Model, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	object, err := s.get(ctx, pipeline, version)
	if errors.Is(err, errAbsent) {
		return nil, &missing{fmt.Sprintf("the store (%s) has no model %s", s, version)}
	}
	if err != nil {
		return nil, fmt.Errorf("reading model %s (%s): %w", version, s, err)
	}
	defer object.Close()
	from := &source{Reader: object}
	m, err := model.ReadLimit(from, limit)
	if err != nil && from.err != nil {
		return nil, fmt.Errorf("reading model %s (%s): %w", version, s, from.err)
	}
	if err != nil {
		return nil, &damaged{fmt.Errorf("reading model %s (%s): %w", version, s, err)}
	}
	return m, nil
}

// Read reads a model from a store: the live one of a pipeline, or a version by its name. Where the store has neither
// it is ErrMissing. The limit is that of a model file, or the size that the version was stored with.
func Read(ctx context.Context, s Store, name string) (*model.Model, error) {
	pipeline, isVersion := PipelineOf(name)
	candidates := []string{name}
	if isVersion {
		candidates = []string{pipeline, name}
	}
	for _, pipeline := range candidates {
		r := Of(s, pipeline, Options{})
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
	if isVersion {
		// The pointer of an early embedd does not list it.
		m, err := read(ctx, s, pipeline, name, model.DefaultFileLimit)
		if !errors.Is(err, ErrMissing) {
			return m, err
		}
	}
	return nil, &missing{fmt.Sprintf("the store (%s) has neither a model nor a pipeline %q", s, name)}
}

// missing is ErrMissing with a sentence of its own.
type missing struct{ text string }

func (e *missing) Error() string { return e.text }
func (e *missing) Unwrap() error { return ErrMissing }

// maxState bounds a checkpoint.
const maxState = 64 << 10

// Checkpoint keeps what the learner knows beside its window, once it has compared the live model with candidates from
// newer rows and kept it. Before a first model there is nothing that it would belong to, and it is let go.
func (r *Registry) Checkpoint(ctx context.Context, state []byte) error {
	if len(state) > maxState {
		return fmt.Errorf("a checkpoint of %d bytes is over the limit of %d", len(state), maxState)
	}
	r.saving.Lock()
	live := r.known.live
	r.saving.Unlock()
	_, err := r.update(ctx, func(p *Pointer) error {
		if p.Live == "" || p.Live != live {
			return errUnchanged
		}
		if err := r.fence(p); err != nil {
			return err
		}
		p.State, p.StateOf, p.Good = state, p.Live, r.options.Clock()
		return nil
	})
	return unlessUnchanged(err)
}

// errUnchanged ends an update that has nothing to change.
var errUnchanged = errors.New("unchanged")

func unlessUnchanged(err error) error {
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// Refuse keeps what became of a candidate that did not go live.
func (r *Registry) Refuse(ctx context.Context, f plugin.Outcome) error {
	one := Refusal{Time: r.options.Clock(), Rows: f.Rows, Score: figure(f.Candidate), LiveScore: figure(f.Previous),
		Reason: short(f.Reason)}
	if f.Live != nil {
		one.Live = f.Live.Version
	}
	_, err := r.update(ctx, func(p *Pointer) error {
		if err := r.fence(p); err != nil {
			return err
		}
		p.Refused = append(p.Refused, one)
		p.Refused = p.Refused[max(len(p.Refused)-maxRefused, 0):]
		if one.Live == p.Live {
			p.Good = one.Time
		}
		return nil
	})
	return err
}
