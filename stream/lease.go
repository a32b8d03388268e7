package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/lease"
	"github.com/embedd/embedd/stream/registry"
)

// tenure is the pipeline's place at the lease of learning. Replicas learn one at a time: who holds the lease fits, the
// others keep their windows full. What keeps a former holder from the pointer is the pointer itself; see registry.Seal.
type tenure struct {
	*lease.Lease               // nil: there are no leases, and whoever learns fits
	taken        atomic.Uint64 // the term of the lease for which the pointer was sealed
	sealed       atomic.Uint64 // and the term that the pointer has since
}

// term is the one under which this process may write the pointer, 0: none.
func (t *tenure) term() uint64 {
	if t.Lease == nil {
		return 0
	}
	if term := t.Term(); term != 0 && term == t.taken.Load() {
		return t.sealed.Load()
	}
	return 0
}

// leases are those of the server, bound once for all pipelines; nil where the server has none.
func (e *Engine) leases(ctx context.Context, p *pipeline) (*lease.Bucket, error) {
	switch {
	case p.Models.Directory != "":
		return nil, nil // replicas on one machine; its lock of the pointer has to do
	case p.Models.Hub != "":
		return nil, nil // at the hub; here nobody learns
	}
	bucket, err := e.openLeases(ctx, p)
	if errors.Is(err, lease.ErrOldServer) {
		e.log.Warn("every replica of a pipeline fits, and of their models one goes live", "reason", err,
			"cure", "upgrade the server, or run all replicas but one with role transform")
		e.leased, err = true, nil
	}
	return bucket, err
}

func (e *Engine) openLeases(ctx context.Context, p *pipeline) (bucket *lease.Bucket, err error) {
	if e.leased {
		return e.bucket, nil
	}
	if bucket, err = lease.Open(ctx, p.JS, p.Models.Replicas, e.log); err == nil {
		e.bucket, e.leased = bucket, true
	}
	return bucket, err
}

// apply takes the lease of learning where nobody holds it.
func (p *pipeline) apply(ctx context.Context, bucket *lease.Bucket) error {
	p.tenure.Lease = bucket.Of(lease.Options{Key: p.Name, Claim: lease.Mine(p.Instance, p.shared()),
		Life: p.Lease, Behind: p.behind, Logger: p.Log})
	if p.Standby == StandbyWarm {
		p.turns.second = bucket.Of(lease.Options{Key: needs.StandbyKey(p.Name), Claim: lease.Mine(p.Instance, nil), Life: p.Lease,
			Logger: p.Log})
	}
	if err := p.tenure.Try(ctx); err != nil {
		return fmt.Errorf("asking for the lease of learning (bucket %s): %w", lease.Name, err)
	}
	return nil
}

// shared are what the replicas of a pipeline must agree on, by their keys.
func (p *pipeline) shared() map[string]string {
	c := p.Stage
	return map[string]string{
		"input.stream": p.Stream, "input.subject": p.Subject, "input.labels": p.Labels,
		"input.partitions": strconv.Itoa(p.Partitions),
		"schema.features":  strings.Join(c.Spec.Features, ","), "schema.label": c.Spec.Label, "schema.key": c.Spec.Key,
		"schema.nulls": string(c.Nulls), "model.method": c.Fit.Method, "model.dim": fmt.Sprint(c.Fit.Dim),
		"model.scale": string(c.Fit.Scale), "model.params": fmt.Sprint(c.Fit.Params), "model.seed": fmt.Sprint(c.Fit.Seed),
		"training.block": fmt.Sprint(c.Training.Block),
	}
}

// mayFit tells whether this process may fit now.
func (p *pipeline) mayFit() bool {
	return p.Role != RoleTransform && (p.tenure.Lease == nil || p.tenure.term() != 0)
}

// takeTurn is called when the lease was taken or lost. Whoever takes it seals the pointer first, then goes on from the
// model that is in the store, never from one of its own.
func (p *pipeline) takeTurn(ctx context.Context, term uint64) {
	p.passes(term != 0)
	if term == 0 {
		p.Running.Standby(true)
		return
	}
	for attempt := 0; p.tenure.Term() == term; attempt++ {
		err := p.takeOver(ctx, term)
		if err == nil {
			p.Running.Standby(false)
			return
		}
		if errors.Is(err, registry.ErrFenced) || ctx.Err() != nil {
			return // another has it, and the lease says so soon
		}
		p.told.lease.Warn(p.Log, "the lease is held and the model store cannot be written; trying again", "error", err)
		if !natsx.Backoff(ctx, attempt) {
			return
		}
	}
}

func (p *pipeline) takeOver(ctx context.Context, term uint64) error {
	if p.tenure.taken.Load() != term {
		if err := p.seal(ctx, term); err != nil {
			return err
		}
		p.Log.Info("this replica learns the pipeline from now on", "term", p.tenure.sealed.Load())
	}
	if p.Running.Live() == nil {
		return p.begin(ctx)
	}
	_, err := p.models.CatchUp(ctx, p.adopt)
	return err
}

// begin takes what the store has at a takeover without a model: none, or one of other features, which the replica that
// learned before did have.
func (p *pipeline) begin(ctx context.Context) error {
	c, err := p.models.Live(ctx)
	if err != nil {
		return err
	}
	if err := p.take(ctx, c); err != nil || c.Live == nil {
		return err
	}
	return p.adopt(c)
}

// seal writes the term of the lease into the pointer.
func (p *pipeline) seal(ctx context.Context, term uint64) error {
	sealed, err := p.models.Seal(ctx, term, p.tenure.Holds)
	if err == nil {
		p.tenure.sealed.Store(sealed)
		p.tenure.taken.Store(term)
	}
	return err
}

// close ends learning, and then gives the lease back: nothing is written any more.
func (p *pipeline) close() {
	p.Running.Close()
	p.giveUp()
}

func (p *pipeline) giveUp() {
	if p.tenure.Lease != nil {
		p.giveBack(p.tenure.Lease)
	}
}

func (p *pipeline) giveBack(l *lease.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseWait)
	defer cancel()
	l.Release(ctx)
}

// releaseWait is how long the end of a process waits for the server to take the lease back: else it ends by itself.
const releaseWait = 2 * time.Second

// standingText is a sentence on who learns, "" where this process does or nobody need.
func (p *pipeline) standingText() string {
	if p.hub != nil {
		return p.hubText()
	}
	if p.Role == RoleTransform && p.Stage.Fixed == nil {
		return "other replicas learn: this one has role transform"
	}
	if p.tenure.Lease == nil || p.mayFit() {
		return ""
	}
	s := p.tenure.Standing()
	if s.Holder.Holder == "" {
		return "no replica holds the lease of learning yet"
	}
	text := fmt.Sprintf("a replica on %s learns", s.Holder.Host)
	if len(s.Differs) > 0 {
		text += ", and its configuration is another: " + strings.Join(s.Differs, ", ") + "; give all replicas the same"
	}
	return text
}

// leaseLife is how long a lease lives that is not renewed.
func (p *pipeline) leaseLife() time.Duration { return cmp.Or(p.Lease, lease.Usual) }
