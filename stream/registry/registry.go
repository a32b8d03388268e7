// Package registry stores the models of pipelines: every version with its origin, and which of them is live, previous
// and pinned.
//
// A [Store] has the bytes: in JetStream, or in a [Directory]. Models are written once and never changed. Everything
// else that is known of a pipeline's versions is one small [Pointer], which is changed by compare-and-set: first it
// claims a name, then the model is written and read back as a start reads it, then the pointer names it as live. So
// the pointer never names a model that is missing, damaged or unreadable, wherever a crash occurs.
//
// Errors for errors.Is: [ErrMissing], [ErrPinned], [ErrNotPinned], [ErrDim], [ErrTooLarge], [ErrOvertaken].
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
)

// Options say how a registry works. Zero fields mean the defaults.
type Options struct {
	Limit  int64 // most bytes of a model, in writing and in reading; default model.DefaultFileLimit
	Keep   Keep
	Strict bool             // a damaged pointer or model is an error of Live; else Live continues with what can be read
	Logger *slog.Logger     // default: no logs
	Clock  func() time.Time // default time.Now
	// Term is the term of the lease that this process holds, 0 if it holds none: then it stores nothing. nil: there are
	// no leases, and every trainer stores.
	Term func() uint64
	// BeforePromote, if not nil, is called with a stored version before it goes live, so that replicas can fetch it
	// first.
	BeforePromote func(ctx context.Context, version string)
	// MaxStaleness is how long a follower may not know what is live; default 10 s. It polls four times as often.
	MaxStaleness time.Duration
}

// DefaultMaxStaleness is the default of Options.Within.
const DefaultMaxStaleness = 10 * time.Second

// Registry is the models of one pipeline in a store. Its methods may be called from many goroutines.
type Registry struct {
	store    Store
	pipeline string
	options  Options
	models   *modelReader
	pointers *pointerStore

	// saving is locked while a model is written and while the choice of another process is adopted, so that this process
	// does not adopt the model that it promotes itself.
	saving      sync.Mutex
	known       selection                 // the live model of this process; see setLive
	now         atomic.Pointer[selection] // known, for callers that do not wait for saving
	offered     selection                 // the last one that this process did not adopt
	missed      observation[selection]    // a choice that could not be read
	stale       observation[uint64]       // a revision that is older than one seen before
	term        uint64                    // of the newest pointer that was followed, or written here
	createdAt   time.Time                 // when revisions began to count
	epoch       int                       // of this process's model; 0: it has none
	confirmedAt atomic.Int64              // see Reached, in nanoseconds
	problem     atomic.Pointer[string]
	confirmed   atomic.Pointer[confirmation]
}

// Revision is the revision of the newest pointer that this process follows.
func (r *Registry) Revision() uint64 { return r.pointers.revision.Load() }

// confirmation is when the live model of the pointer was last confirmed.
type confirmation struct {
	live string
	at   time.Time
}

// GoodAsOf is when the trainer last found a version good; zero if that is not known.
func (r *Registry) GoodAsOf(version string) time.Time {
	if f := r.confirmed.Load(); f != nil && f.live == version {
		return f.at
	}
	return time.Time{}
}

// setLive notes the choice that this process follows.
func (r *Registry) setLive(with selection) {
	r.known = with
	r.now.Store(&with)
}

// selection is what a process follows: the live version, the pinned one, whether the live one was reset, and what is
// known of its epoch and those before.
type selection struct {
	live, pin         string
	wasReset          bool
	sameAs, undecided int
}

// confirm notes that this process followed what was live at a time.
func (r *Registry) confirm(at time.Time) {
	advance(&r.confirmedAt, at)
}

// advance moves a time in nanoseconds forward to at, and never back.
func advance(t *atomic.Int64, at time.Time) {
	for before := t.Load(); at.UnixNano() > before && !t.CompareAndSwap(before, at.UnixNano()); {
		before = t.Load()
	}
}

// ConfirmedAt is when this process last knew that it follows what is live in the store.
func (r *Registry) ConfirmedAt() time.Time { return time.Unix(0, r.confirmedAt.Load()) }

// New is the registry of one pipeline in a store. It sends no request.
func New(s Store, pipeline string, o Options) *Registry {
	o.Limit = cmp.Or(o.Limit, model.DefaultFileLimit)
	o.Keep.Versions = cmp.Or(o.Keep.Versions, 20)
	o.MaxStaleness = cmp.Or(o.MaxStaleness, DefaultMaxStaleness)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Clock == nil {
		o.Clock = time.Now
	}
	models := &modelReader{store: s, pipeline: pipeline, limit: o.Limit}
	return &Registry{store: s, pipeline: pipeline, options: o, models: models,
		pointers: &pointerStore{store: s, pipeline: pipeline, models: models, log: o.Logger, clock: o.Clock}}
}

// Pipelines are the names of the pipelines that have models in a store.
func Pipelines(ctx context.Context, s Store) ([]string, error) {
	names, err := s.pipelines(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the pipelines of the model store (%s): %w", s, err)
	}
	return names, nil
}

// Pointer returns what is known of the pipeline's models.
func (r *Registry) Pointer(ctx context.Context) (*Pointer, error) {
	p, _, err := r.pointers.read(ctx)
	return p, err
}

// Choice is a live model and why it is live.
type Choice struct {
	Live        *plugin.Live // State is the learner's newest checkpoint; nil where no model is live
	Pinned      bool         // nothing may replace it
	ConfirmedAt time.Time    // when it was last confirmed: fitted, or evaluated on labelled rows and kept
	Epochs      int          // the highest epoch that is known
	New         bool         // there is no pointer that would know of epochs before
	Stream      string       // input stream to which the pipeline's name is bound; "": none yet
	Damage      string       // what of the store could not be read, and what is used instead; a sentence
}

// Live reads and checks the live model; there is none before the first. If the pointer or the live model is damaged it
// falls back to an earlier pointer, an earlier version, the newest readable version, or no model. It then updates the
// pointer, and Damage says what was done. With Options.Strict the error is ErrDamaged.
func (r *Registry) Live(ctx context.Context) (*Choice, error) {
	r.saving.Lock()
	defer r.saving.Unlock()
	begin := time.Now()
	p, revision, err := r.pointers.read(ctx)
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
		if p, why, err = r.pointers.fallBack(ctx, p, err); err != nil {
			return nil, err
		}
		damage = strings.Trim(damage+"; "+why, "; ")
		c, err = r.choiceOf(ctx, p)
	} else if err == nil && damage != "" {
		p, err = r.pointers.update(ctx, func(*Pointer) error { return nil })
	}
	if err != nil {
		return nil, err
	}
	if r.createdAt, err = r.store.created(ctx); err != nil {
		return nil, fmt.Errorf("reading when the model store was created (%s): %w", r.store, err)
	}
	r.setLive(p.selection())
	r.term = p.Term
	r.pointers.revision.Store(max(revision, r.pointers.revision.Load()))
	r.confirm(begin)
	if c.Live != nil {
		r.epoch = c.Live.Epoch
	}
	c.New, c.Damage, c.Stream = isNew, damage, p.Stream
	return c, nil
}

func (r *Registry) choiceOf(ctx context.Context, p *Pointer) (*Choice, error) {
	if p.Live == "" {
		return &Choice{Epochs: p.Epochs}, nil
	}
	v := p.Find(p.Live)
	m, err := r.models.get(ctx, *v)
	if err != nil {
		remedy := "; no other version is known"
		if p.Previous != "" {
			remedy = fmt.Sprintf("; `embedd model rollback %s` goes back to %s", r.pipeline, p.Previous)
		}
		return nil, fmt.Errorf("%w%s", err, remedy)
	}
	l := &plugin.Live{Model: m, Version: v.Name, Epoch: v.Epoch, Epochs: p.Epochs, Bootstrap: v.Bootstrap,
		WasReset: v.WasReset, SameAs: v.SameAs, Undecided: v.Undecided}
	if v.Score != nil {
		l.Score = *v.Score
	}
	l.Epoch = cmp.Or(l.Epoch, max(int(m.Note().Epoch), 1))
	if origin := p.originOf(v); origin != nil {
		// Without it the epoch is judged from this model on: that is no reason not to start.
		if l.Origin, err = r.models.get(ctx, *origin); err == nil {
			r.models.origin.Store(&fetchedModel{origin.Name, l.Origin})
		} else {
			r.options.Logger.Warn("the first model of the epoch cannot be read; new models are compared with the live "+
				"one instead",
				"error", err)
		}
	}
	if first := p.firstOf(v.Undecided); v.Undecided > 0 && first != nil {
		if l.Before, err = r.models.get(ctx, *first); err != nil { // the epochs stay separate
			r.options.Logger.Warn("the first model of the epoch before cannot be read; whether it is comparable with the live "+
				"one is not decided any more", "error", err)
			l.Before = nil
		}
	}
	if p.StateOf == p.Live {
		l.State = p.State
	}
	return &Choice{Live: l, Pinned: p.Pin != "", ConfirmedAt: p.ConfirmedAt, Epochs: max(p.Epochs, l.Epoch)}, nil
}

// Newest reads the live model of a registry with the learner's newest checkpoint, nil if there is no model. It changes
// nothing.
func Newest(ctx context.Context, r *Registry) (*plugin.Live, error) {
	p, err := r.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	c, err := r.choiceOf(ctx, p)
	if err != nil {
		return nil, err
	}
	return c.Live, nil
}

// Model reads a version of the pipeline; ErrMissing if the pointer does not list it.
func (r *Registry) Model(ctx context.Context, version string) (*model.Model, error) {
	_, v, err := r.pointers.find(ctx, version)
	if err != nil {
		return nil, err
	}
	return r.models.get(ctx, *v)
}

// Prefetch reads a model that is stored and not live yet, and caches it: when it is promoted, this process needs
// nothing more of the store. It retries until ctx is done.
func (r *Registry) Prefetch(ctx context.Context, version string) error {
	return r.models.fetch(ctx, version)
}

// Forget drops the model that Live returned, because this process cannot use it. Follow offers it again, and Problem
// explains why it is not used.
func (r *Registry) Forget() {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.setLive(selection{})
	r.epoch = 0
}

// Store has the models of any number of pipelines: [JetStream] or [Directory]. It is safe for concurrent use, by many
// processes too.
type Store interface {
	// put writes a model under a name that no other process writes. It returns when the bytes are durable.
	put(ctx context.Context, pipeline, version string, data []byte) error
	// get opens a model; the error is errAbsent if there is none.
	get(ctx context.Context, pipeline, version string) (io.ReadCloser, error)
	// remove deletes a model. A missing model is not an error.
	remove(ctx context.Context, pipeline, version string) error
	// versions returns the stored models, whether the pointer names them or not.
	versions(ctx context.Context, pipeline string) ([]stored, error)
	// tidy removes unfinished writes of processes that crashed, if they have not changed for a time.
	tidy(ctx context.Context, pipeline string, older time.Duration) error

	// created returns when the store began to count revisions of pointers; zero if the count never restarts.
	created(ctx context.Context) (time.Time, error)
	// load reads the pointer of a pipeline. Without one the value is nil, and the revision that of a delete marker or 0.
	load(ctx context.Context, pipeline string) (value []byte, revision uint64, err error)
	// history returns earlier values of a pointer, newest first: few, or none.
	history(ctx context.Context, pipeline string) ([][]byte, error)
	// compareAndSet writes the pointer if its revision is still the given one. Otherwise the error is errMoved.
	compareAndSet(ctx context.Context, pipeline string, value []byte, revision uint64) (uint64, error)
	// watch starts to watch a pointer. wait returns when the revision may have changed, or after some time without a
	// change; leave stops the watch.
	watch(pipeline string) (wait func(ctx context.Context, revision uint64) error, leave func())
	// lastSequence returns a number that changes with each write of a pointer, and when it was read, at most a second
	// ago.
	lastSequence(ctx context.Context, pipeline string) (number uint64, at time.Time, err error)
	// refused returns what load has refused in the last minutes, since no client wrote it there on purpose.
	refused(pipeline string) []natsx.Refusal
	// maxPointerBytes returns the maximum size of a pointer.
	maxPointerBytes() int

	// pipelines returns the sorted names of the pipelines that have a pointer.
	pipelines(ctx context.Context) ([]string, error)
	// String is the location of the store, for messages.
	String() string
}

// stored is a model in a store.
type stored struct {
	name string
	time time.Time
	size int64
}
