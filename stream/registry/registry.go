// Package registry stores the models of pipelines: every version with its origin, and which of them is live, previous
// and pinned.
//
// A [Store] has the bytes: in JetStream, or in a [Directory]. Models are written once and never changed. Everything
// else that is known of a pipeline's versions is one small [Pointer], which is changed by compare-and-set: first it
// claims a name, then the model is written and read back as a start reads it, then the pointer names it as live. So
// the pointer never names a model that is missing, damaged or unreadable, wherever a crash occurs.
//
// A [Registry] is what is stored of one pipeline (its catalog), and which model this process follows. Any process may
// choose another version ([Registry.Pin], [Registry.Rollback]). The trainer stores new ones ([Registry.Save]), fenced
// by the term of its lease. All follow the pointer ([Registry.Follow]).
//
// Errors for errors.Is: [ErrMissing], [ErrDamaged], [ErrPinned], [ErrNotPinned], [ErrDim], [ErrTooLarge],
// [ErrOvertaken], [ErrFenced].
package registry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/model"
)

// Options say how a registry works. Zero fields mean the defaults.
type Options struct {
	Limit  int64 // most bytes of a model, in writing and in reading; default model.DefaultFileLimit
	Keep   Keep
	Strict bool             // a damaged pointer or model is an error of Live; else Live continues with what can be read
	Logger *slog.Logger     // default: no logs
	Clock  func() time.Time // default time.Now
	// Term returns the term of this process's lease; 0: it has none, and stores nothing. nil: no leases, all may store.
	Term func() uint64
	// BeforePromote, if not nil, is called with a stored version before it goes live, so that replicas fetch it first.
	BeforePromote func(ctx context.Context, version string)
	// MaxStaleness is how long a follower may not know what is live; default 10 s. It polls four times as often.
	MaxStaleness time.Duration
}

// DefaultMaxStaleness is the default of Options.MaxStaleness.
const DefaultMaxStaleness = 10 * time.Second

// Registry is the models of one pipeline in a store. Its methods may be called concurrently; Live and Save take turns.
type Registry struct {
	*catalog

	// saving is held while this process writes a model, so that it does not adopt the model that it is promoting, and
	// while it adopts a selection. It guards the fields that are not atomic, and writes to adopted and rejected.
	saving     sync.Mutex
	adopted    atomic.Pointer[adoption]  // never nil
	rejected   atomic.Pointer[rejection] // the newest selection, if it was refused; else nil
	unreadable observation[selection]    // whose model could not be read
	outdated   observation[uint64]       // a revision before one that was read or written earlier
	term       uint64                    // of the newest pointer that was adopted, or written here
	created    int64                     // natsx.KeySourceState.Created of the pointers

	confirmedAt latestTime  // see ConfirmedAt
	isCurrent   atomic.Bool // the pointer that was read last selects this process's model, or one with comparable outputs
}

// selection is what a pointer selects: live and pinned version, and whether the live one was reset, with its epochs.
type selection struct {
	live, pin         string
	wasReset          bool
	sameAs, undecided int
}

// adoption is the selection that this process uses, or has saved itself.
type adoption struct {
	selection
	epoch       int       // of this process's model; 0: it has none
	confirmedAt time.Time // Pointer.ConfirmedAt of the live version
}

// New returns the registry of one pipeline in a store. It sends no request.
func New(s Store, pipeline string, o Options) *Registry {
	o.Limit = cmp.Or(o.Limit, model.DefaultFileLimit)
	o.Keep.Versions = cmp.Or(o.Keep.Versions, 20)
	o.MaxStaleness = cmp.Or(o.MaxStaleness, DefaultMaxStaleness)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Clock == nil {
		o.Clock = time.Now
	}
	r := &Registry{catalog: &catalog{store: s, pipeline: pipeline, options: o}}
	r.adopted.Store(&adoption{})
	return r
}

// Pipelines are the names of the pipelines that have models in a store.
func Pipelines(ctx context.Context, s Store) ([]string, error) {
	names, err := s.pipelines(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the pipelines of the model store (%s): %w", s, err)
	}
	return names, nil
}

// Revision is the revision of the newest pointer that this process follows.
func (r *Registry) Revision() uint64 { return r.revision.Load() }

// GoodAsOf is Pointer.ConfirmedAt of a version that this process uses; zero if it uses another one.
func (r *Registry) GoodAsOf(version string) time.Time {
	if a := r.adopted.Load(); a.live == version {
		return a.confirmedAt
	}
	return time.Time{}
}

// ConfirmedAt is when this process last knew that its outputs are those of the live model in the store, or comparable.
func (r *Registry) ConfirmedAt() time.Time { return r.confirmedAt.load() }

// latestTime is the latest of the times of events, by the monotonic clock: its age is right after the clock was set.
type latestTime struct{ at atomic.Pointer[time.Time] }

// load returns the latest time, zero without one.
func (l *latestTime) load() time.Time {
	if at := l.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

func (l *latestTime) advance(at time.Time) {
	for before := l.at.Load(); (before == nil || at.After(*before)) && !l.at.CompareAndSwap(before, &at); {
		before = l.at.Load()
	}
}

// Live reads and checks the live model; there is none before the first. If the pointer or the live model is damaged it
// falls back to an earlier pointer, an earlier version, the newest readable version, or no model. It then updates the
// pointer, and Damage says what was done. With Options.Strict the error is ErrDamaged.
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
	c, err := r.choiceOf(ctx, p)
	switch isBad := isUnreadable(err); {
	case isBad && r.options.Strict:
		return nil, r.withRemedy(p, err)
	case isBad || p.damage != "":
		p, c, err = r.repair(ctx)
	}
	if err != nil {
		return nil, err
	}
	state, _, err := r.store.state(ctx, r.pipeline)
	if err != nil {
		return nil, fmt.Errorf("reading the state of the model store (%s): %w", r.store, err)
	}
	r.created, r.term = state.Created, p.Term
	r.revision.Store(max(revision, r.revision.Load()))
	epoch := r.adopted.Load().epoch
	if c.Live != nil {
		epoch = c.Live.Epoch
	}
	r.setAdopted(p, epoch)
	r.confirmedAt.advance(begin)
	return c, nil
}

// repair writes the pointer again, with the newest version that can be read as the live one. It returns that choice,
// with the damage of the pointer, and which version is used instead of which.
func (r *Registry) repair(ctx context.Context) (p *Pointer, c *Choice, err error) {
	p, err = r.update(ctx, func(p *Pointer) error {
		was := p.Live
		var cause, err error
		for c, err = r.choiceOf(ctx, p); isUnreadable(err); c, err = r.choiceOf(ctx, p) {
			cause = cmp.Or(cause, err)
			p.fallBack()
		}
		if cause == nil || err != nil {
			return err
		}
		how := "no other version of its features and dimensions can be read, and a first model is fitted"
		if p.Live != "" {
			p.turn(r.options.Clock(), "repair", was, "")
			how = fmt.Sprintf("%s is used instead; `embedd model ls %s` shows the versions, `embedd model rollback VERSION` "+
				"chooses another", p.Live, r.pipeline)
		}
		c.Damage = strings.TrimPrefix(fmt.Sprintf("%s; the live model %s cannot be read: %v; %s", p.damage, was, cause, how),
			"; ")
		return nil
	})
	return p, c, err
}

// Forget drops the model that Live returned, which this process cannot use. Follow offers it again.
func (r *Registry) Forget() {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.adopted.Store(&adoption{})
}
