package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model"
)

// modelReader reads the models of one pipeline, and keeps the two that the next start or promotion needs.
type modelReader struct {
	store    Store
	pipeline string
	limit    int64                        // most bytes of a model
	fetched  atomic.Pointer[fetchedModel] // before it is live
	origin   atomic.Pointer[fetchedModel] // the first model of the epoch
}

// fetchedModel is a model that this process has read, and its version.
type fetchedModel struct {
	version string
	model   *model.Model
}

// get reads a version as a start does. The pointer says with which epochs its own is recorded as one.
func (m *modelReader) get(ctx context.Context, v Version) (*model.Model, error) {
	read, err := m.read(ctx, v)
	if err != nil {
		return nil, err
	}
	if note := read.Note(); note.SameAs != uint64(v.SameAs) {
		note.SameAs = uint64(v.SameAs)
		read = read.WithNote(note)
	}
	return read, nil
}

// read reads a version as it was written.
func (m *modelReader) read(ctx context.Context, v Version) (*model.Model, error) {
	if cached := m.cached(v); cached != nil {
		return cached, nil
	}
	// A limit that was lowered since does not lock out what was stored before.
	read, err := readModel(ctx, m.store, m.pipeline, v.Name, max(m.limit, v.Size))
	if err != nil {
		return nil, err
	}
	if v.Digest != "" && read.Digest() != v.Digest {
		return nil, &damaged{fmt.Errorf("model %s has digest %.16s, its pointer says %.16s; the store (%s) is damaged",
			v.Name, read.Digest(), v.Digest, m.store)}
	}
	return read, nil
}

// cached returns a model that this process has read before; nil if it has not.
func (m *modelReader) cached(v Version) *model.Model {
	for _, f := range []*fetchedModel{m.fetched.Load(), m.origin.Load()} {
		if f != nil && f.version == v.Name && f.model.Digest() == v.Digest {
			return f.model
		}
	}
	return nil
}

// fetch reads a model that is stored and not live yet, and caches it for its promotion. It retries until ctx is done.
func (m *modelReader) fetch(ctx context.Context, version string) error {
	if of, ok := PipelineOf(version); !ok || of != m.pipeline {
		return fmt.Errorf("%q is not a version of pipeline %s", version, m.pipeline)
	}
	wait := rand.N(fetchDelay)
	for {
		if !natsx.Sleep(ctx, wait) {
			return ctx.Err()
		}
		got, err := readModel(ctx, m.store, m.pipeline, version, m.limit)
		if err == nil {
			m.fetched.Store(&fetchedModel{version, got})
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrDamaged) {
			return err
		}
		wait = fetchDelay + rand.N(2*fetchDelay)
	}
}

// fetchDelay is the time over which replicas that are notified of a model at once begin to fetch it.
const fetchDelay = 100 * time.Millisecond

// storeWait is the time limit of storing or reading a model.
const storeWait = 5 * time.Minute

func readModel(ctx context.Context, s Store, pipeline, version string, limit int64) (*model.Model, error) {
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
	m, err := model.ReadLimit(object, limit)
	if u, ok := errors.AsType[*unreachable](err); ok {
		return nil, fmt.Errorf("reading model %s (%s): %w", version, s, u)
	}
	if err != nil {
		return nil, &damaged{fmt.Errorf("reading model %s (%s): %w", version, s, err)}
	}
	return m, nil
}

// Read reads a model from a store: the live one of a pipeline, or a version by its name. The error is ErrMissing if
// the store has neither. The limit is that of a model file, or the size that the version was stored with.
func Read(ctx context.Context, s Store, name string) (*model.Model, error) {
	pipeline, isVersion := PipelineOf(name)
	candidates := []string{name}
	if isVersion {
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
			return r.models.get(ctx, *v)
		}
	}
	return nil, &missing{fmt.Sprintf("the store (%s) has neither a model nor a pipeline %q", s, name)}
}

// The errors that a caller reacts to, for errors.Is.
var (
	// ErrMissing reports that the store has no version or pipeline of a name.
	ErrMissing = errors.New("the store has no such model")
	// ErrDamaged reports a pointer or a model that cannot be read.
	ErrDamaged = errors.New("the model store is damaged")
	// ErrNewer reports a pointer in the format of a newer version of embedd.
	ErrNewer = errors.New("the model store was written by a newer embedd")
	// ErrPinned is returned by [Registry.Save] while a version is pinned: nothing else goes live.
	ErrPinned = errors.New("a version is pinned")
	// ErrNotPinned is returned by [Registry.Unpin] where no version is pinned.
	ErrNotPinned = errors.New("no version is pinned")
	// ErrDim is returned for a version with other dimensions than the live one: readers of the output rely on them.
	ErrDim = errors.New("the dimensions differ")
	// ErrTooLarge is returned by [Registry.Save] for a model that a start could not read back.
	ErrTooLarge = errors.New("the model is too large for the store")
	// ErrOvertaken is returned by [Registry.Save] if the live model is not the one that the new model replaces: an
	// operator chose another meanwhile, or another process trains the same pipeline.
	ErrOvertaken = errors.New("another model went live meanwhile")
	// ErrNoMirror reports that a leaf node has its own model store in place of a mirror of its hub's.
	ErrNoMirror = errors.New("the model store is not a mirror of domain")
	// ErrFenced reports that this replica does not hold the lease, or lost it since.
	ErrFenced = errors.New("another replica trains the pipeline")
)

// Errors of a store, for the registry alone.
var (
	errMoved  = errors.New("the pointer moved meanwhile")
	errAbsent = errors.New("there is no such entry")
)

// errUnchanged ends an update that has nothing to change.
var errUnchanged = errors.New("unchanged")

func unlessUnchanged(err error) error {
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// missing is an ErrMissing with its own text.
type missing struct{ text string }

func (e *missing) Error() string { return e.text }

func (e *missing) Unwrap() error { return ErrMissing }

// damaged is an ErrDamaged with its own text.
type damaged struct{ error }

func (e *damaged) Is(target error) bool { return target == ErrDamaged }

func (e *damaged) Unwrap() error { return e.error }

// unreachable is an error of the request for bytes, not of the bytes.
type unreachable struct{ error }

func (e *unreachable) Unwrap() error { return e.error }
