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

	"github.com/embedd/embedd/internal/killpoint"
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
}

// Registry is what a store holds of one pipeline. Its methods may be called from many goroutines.
type Registry struct {
	store    Store
	pipeline string
	options  Options

	// saving is held while a model is written, and while what others chose is taken over: what this process makes live
	// by itself is not news to it.
	saving   sync.Mutex
	known    choice // what this process lives with
	offered  choice // what it was offered last and did not take
	term     uint64 // of the newest pointer that was followed, or written here
	made     time.Time
	revision atomic.Uint64
}

// Revision is that of the newest pointer that this process lives with.
func (r *Registry) Revision() uint64 { return r.revision.Load() }

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
		return nil, 0, fmt.Errorf("the pointer to the models of %s (%s, revision %d): %w", r.pipeline, r.store,
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
	r.known, r.term = choice{p.Live, p.Pin}, p.Term
	r.revision.Store(max(revision, r.revision.Load()))
	c.New, c.Damage, c.Stream = isNew, damage, p.Stream
	return c, nil
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
		r.known = choice{}
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
		if l.Origin, err = r.get(ctx, *origin); err != nil {
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

// Save stores a model and makes it the live one: it claims a name, writes the model, reads it back as a start does, and
// moves the pointer. While a version is pinned it is ErrPinned, and ErrOvertaken where the live model is not r.Parent
// any more.
func (r *Registry) Save(ctx context.Context, release *plugin.Release) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	r.saving.Lock()
	defer r.saving.Unlock()
	name, err := r.claim(ctx, release)
	if err != nil {
		return "", err
	}
	killpoint.Here(killpoint.Claimed)
	size, err := r.write(ctx, name, release.Model)
	if err != nil {
		return "", err
	}
	killpoint.Here(killpoint.Written)
	now := r.options.Clock()
	var gone []string
	_, err = r.update(ctx, func(p *Pointer) error {
		if p.Find(name) != nil {
			return errUnchanged // it was written and not confirmed
		}
		if err := r.fence(p); err != nil {
			return err
		}
		if err := r.mayReplace(p, release); err != nil {
			return err
		}
		if p.Candidate != name {
			return fmt.Errorf("%w: another process learns pipeline %s and took the place of model %s; let one learn it",
				ErrOvertaken, r.pipeline, name)
		}
		p.Versions = append(p.Versions, versionOf(name, release, now, size))
		p.choose(name, now)
		p.Candidate, p.Epochs = "", max(p.Epochs, release.Epoch)
		if release.State != nil {
			p.State, p.StateOf = release.State, name
		}
		gone = p.prune(r.options.Keep, now)
		r.term = p.Term
		return nil
	})
	if errors.Is(err, ErrOvertaken) || errors.Is(err, ErrPinned) || errors.Is(err, ErrFenced) {
		r.discard(ctx, []string{name})
	}
	if err = unlessUnchanged(err); err != nil {
		return "", fmt.Errorf("making model %s the live one: %w", name, err)
	}
	killpoint.Here(killpoint.Pointed)
	r.known = choice{live: name}
	r.discard(ctx, gone)
	return name, nil
}

// claim takes a name that nobody else writes under, and clears what a crash left under the last claim.
func (r *Registry) claim(ctx context.Context, release *plugin.Release) (name string, err error) {
	var abandoned string
	_, err = r.update(ctx, func(p *Pointer) error {
		if err := r.fence(p); err != nil {
			return err
		}
		if err := r.mayReplace(p, release); err != nil {
			return err
		}
		p.Number++
		abandoned, name = p.Candidate, nameOf(r.pipeline, p.Number, p.Term, release.Model.Digest())
		p.Candidate = name
		return nil
	})
	if err != nil {
		return "", err
	}
	if abandoned != "" {
		r.discard(ctx, []string{abandoned})
	}
	return name, nil
}

// mayReplace tells whether a release may take the place of the live model. A store that has lost its models takes any.
func (r *Registry) mayReplace(p *Pointer, release *plugin.Release) error {
	switch {
	case p.Pin != "":
		return fmt.Errorf("%w: %s; `embedd model unpin %s` lets learning go on", ErrPinned, p.Pin, r.pipeline)
	case p.Live != "" && p.Live != release.Parent:
		return fmt.Errorf("%w: %s is live, and the model was to replace %s; somebody chose it, or another process learns pipeline %s",
			ErrOvertaken, p.Live, nothing(release.Parent), r.pipeline)
	}
	return nil
}

func nothing(version string) string {
	if version == "" {
		return "no model"
	}
	return version
}

// write stores a model under a claimed name and reads it back.
func (r *Registry) write(ctx context.Context, name string, m *model.Model) (size int64, err error) {
	note := m.Note()
	note.Version = name
	var file bytes.Buffer
	if err := model.Write(&file, m.WithNote(note)); err != nil {
		return 0, err
	}
	size = int64(file.Len())
	if size > r.options.Limit {
		return 0, fmt.Errorf("%w: it takes %s and limits.model allows %s; raise limits.model, or learn a smaller one: a linear method, or a smaller window.rows where the model holds rows",
			ErrTooLarge, mebibytes(size), mebibytes(r.options.Limit))
	}
	if err := r.store.put(ctx, r.pipeline, name, file.Bytes()); err != nil {
		return 0, fmt.Errorf("writing model %s (%s): %w", name, r.store, err)
	}
	if _, err := r.get(ctx, Version{Name: name, Digest: m.Digest()}); err != nil {
		return 0, fmt.Errorf("a model does not read back as it was written: %w", err)
	}
	return size, nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// discard removes models that the pointer does not name. What cannot be removed now is found by Sweep.
func (r *Registry) discard(ctx context.Context, names []string) {
	for _, name := range names {
		if err := r.store.remove(ctx, r.pipeline, name); err != nil {
			r.options.Logger.Debug("a model that nobody needs stays until the next start", "version", name,
				"error", err)
		}
	}
}

// Sweep removes what crashes left behind: models that the pointer does not name.
func (r *Registry) Sweep(ctx context.Context) error {
	// A name is claimed before it is written, so what lies there now and is not named by a later look is nobody's.
	there, err := r.store.versions(ctx, r.pipeline)
	if err != nil {
		return err
	}
	p, err := r.Pointer(ctx)
	if err != nil || p.Format == 1 {
		return err
	}
	for _, s := range there {
		if p.Find(s.name) == nil && s.name != p.Candidate {
			r.discard(ctx, []string{s.name})
		}
	}
	return r.store.tidy(ctx, r.pipeline, unfinished)
}

// unfinished is how long a model that is being written may stand still, before it is nobody's any more.
const unfinished = time.Hour

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
