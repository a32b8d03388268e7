// Package relay is the hot path of a pipeline. It pulls messages, transforms them with the live model, publishes the
// outputs and dead letters, waits until the server has confirmed them, and acknowledges the inputs.
//
// Each step has a type: a puller, or a partitionOwner, fills inFlight; a transformer makes the answers with a composer;
// a publisher sends them; a confirmer waits for the confirmations and acknowledges. An answerGate decides whether
// anything may be answered. On core NATS the type coreNATS does all of it.
package relay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/training"
	"github.com/embedd/embedd/stream/spec"
)

// Relay is the hot path of one pipeline. Its methods are called in this order: Attach, Bind and BindPartitions if the
// input has a stream, and, when the stage runs, Serve or ServeCore. The others are then safe for concurrent use.
type Relay struct {
	*hotPath
	partitions *partitions
	core       *coreNATS
	inFlight   atomic.Pointer[inFlight] // nil until Serve
	// shared is the consumer of the pipeline; with partitions, of the messages from before they were configured.
	shared *source

	labelDeadLetters *dedup // finds stored dead letters of label messages; nil on core NATS and without late labels
}

// New returns the relay of a pipeline. The fields of the scope may be set later, before the methods that need them.
func New(s *scope.Scope, activity *Activity, drainTimeout time.Duration) *Relay {
	p := &hotPath{Scope: s, gate: answerGate{Scope: s, halt: health.Halt{Bad: s.Stop.Bad, Of: s.Stop.Of}},
		identities: &identities{Scope: s}, activity: activity, drainTimeout: drainTimeout, inspect: func() {},
		began: time.Now()}
	if s.Stream != "" {
		p.dedup = newDedup(s.JS, s.Log, s.AckPending, p.identities)
	}
	mapping, _ := wildcard.ParseMapping(s.Subject, s.Output) // without an error: spec.Pipeline.WithDefaults checks it
	p.composer, p.transformer = &composer{hotPath: p, mapping: mapping}, &transformer{hotPath: p}
	p.consumers = &consumers{hotPath: p}
	return &Relay{hotPath: p, partitions: newPartitions(p), core: &coreNATS{hotPath: p},
		shared: &source{filter: s.Subject}}
}

// Attach sets the parts of the pipeline that a relay works with. inspect updates the statistics of the streams now,
// progress describes how far the first model is.
func (r *Relay) Attach(p *replica.Replica, t *training.Path, inspect func(), progress func() string) {
	r.gate.replica, r.training, r.inspect, r.gate.progress = p, t, inspect, progress
}

// Bind checks the version of the server, finds the streams of the outputs and dead letters, and creates the consumer of
// the input: messages count from then on, and a consumer of another pipeline is refused before anything starts.
func (r *Relay) Bind(ctx context.Context) error {
	if fault := needs.ServerFault(r.Conn.ConnectedServerName(), r.Conn.ConnectedServerVersion()); fault != "" {
		return errors.New(fault)
	}
	if err := r.bindSinks(ctx); err != nil {
		return err
	}
	r.shared.durable = r.ConsumerName()
	c, created, err := r.consumers.bind(ctx, r.shared)
	for attempt := 0; errors.Is(err, jetstream.ErrConsumerExists) && natsx.Backoff(ctx, attempt); attempt++ {
		c, created, err = r.consumers.bind(ctx, r.shared)
	}
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	err = r.identities.load(ctx, func(ctx context.Context) { r.consumers.awaitOlderVersions(ctx, r.shared) })
	if err != nil {
		return err
	}
	return r.shared.attempts.load(ctx, r.Scope, created, c.CachedInfo())
}

// bindSinks finds the streams of the outputs and dead letters.
func (r *Relay) bindSinks(ctx context.Context) error {
	d := r.dedup
	d.permissions, d.conditions = r.Permissions, r.Conditions
	if !r.HasLimitsRetention() {
		if r.Role == spec.RoleTrain {
			return fmt.Errorf("role train: stream %s delivers each message to one reader only, and that has to answer "+
				"it; use role all, or give the stream limits retention", r.Stream)
		}
		d.maxUnacked = math.MaxInt / 2 // without a limit: see consumers.configure
	}
	if r.Partitions > 0 {
		d.maxUnacked = math.MaxInt / 2 // one partition may be any number of messages behind the others
	}
	var err error
	if r.outputs, err = r.bindSink(ctx, r.OutputPattern()); err != nil {
		return err
	}
	if r.deadLetters, err = r.bindSink(ctx, r.Dead); err != nil {
		return err
	}
	if r.Labels != "" && r.Stage.Fixed == nil {
		// Label messages are read in a separate goroutine.
		r.labelDeadLetters = newDedup(r.JS, r.Log, r.AckPending, r.identities)
	}
	return nil
}

func (r *Relay) bindSink(ctx context.Context, subject string) (*sink, error) {
	s, err := r.dedup.addSink(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, needs.MissingOf(ctx, r.JS, &r.Pipeline, subject)
	case err != nil:
		return nil, natsx.ExplainAPIError(err)
	}
	if window := time.Duration(s.window.Load()); window < 3*r.AckWait {
		r.Log.Warn("the duplicate window of the output stream is short; redelivered messages are looked up at its "+
			"end instead", "stream", s.stream(), "window", window, "advised", 3*r.AckWait)
	}
	return s, nil
}

// BindPartitions checks that the input stream has the pipeline's partitions, opens their leases, and finds those of
// earlier numbers.
func (r *Relay) BindPartitions(ctx context.Context, leases func(context.Context, *scope.Scope) (*lease.Bucket,
	error)) error {
	if f := needs.PartitionFault(&r.Pipeline, &r.Input.CachedInfo().Config); f != nil {
		return f
	}
	var err error
	if r.partitions.leases, err = leases(ctx, r.Scope); err != nil {
		return err
	}
	names := r.Input.ConsumerNames(ctx)
	for name := range names.Name() {
		if q, ok := needs.ParsePartition(r.ConsumerName(), name); ok && q.Of != r.Partitions {
			r.partitions.earlier = append(r.partitions.earlier, q)
		}
	}
	return names.Err()
}

// ServeCore is Serve for an input without a stream.
func (r *Relay) ServeCore(ctx, connClosed context.Context) error {
	defer r.flushDeadLetterLog()
	return r.core.run(ctx, connClosed)
}

// IdentityKey keeps the key of the answers' identities stored.
func (r *Relay) IdentityKey() natsx.FollowedKey { return r.identities.followedKey() }

// SendLabelDeadLetter publishes the dead letter of a message of labels, and waits until it is stored.
func (r *Relay) SendLabelDeadLetter(ctx context.Context, m *scope.Message, cause error) error {
	a := r.composer.deadMessage(&answer{in: &input{Message: *m}}, cause)
	if r.labelDeadLetters == nil { // core NATS
		r.core.publish(a)
		return nil
	}
	// An earlier process may have sent it: labels are read again after a restart.
	r.labelDeadLetters.markStored(ctx, a)
	u := newPublisher(r.Conn, r.Models.Hub)
	defer u.close()
	err := newConfirmer(r.hotPath, u).deliver(ctx, a)
	if err == nil {
		r.logDeadLetters(a)
	}
	return err
}

// MayLearn reports whether a message of the input stream may be used for training: not if it crashed processes.
// created is the creation time of the stream.
func (r *Relay) MayLearn(ctx context.Context, m *scope.Message, created time.Time) bool {
	if r.Partitions > 0 {
		return true // another replica may answer it; package training quarantines messages that crash training
	}
	return r.shared.attempts.mayLearn(ctx, m, created, &r.gate)
}

// SetStream sets the state of the stream that stores outputs or dead letters. It returns why the stream refuses new
// messages, or nil.
func (r *Relay) SetStream(subject string, info *jetstream.StreamInfo) *needs.Fault {
	s := r.outputs
	if subject == r.Dead {
		s = r.deadLetters
	}
	s.setLimits(&info.Config)
	s.fault.Store(needs.StreamFull(info, subject))
	return s.fault.Load()
}

// CheckConsumer returns why the consumer of a partition, as the server has it now, does not deliver the inputs. It sets
// settings again with which messages would be lost.
func (r *Relay) CheckConsumer(ctx context.Context, q needs.Partition, now *jetstream.ConsumerInfo,
	streamSubjects []string) error {
	if f := needs.PausedFault(r.Stream, now); f != nil {
		return f
	}
	return r.consumers.check(ctx, q, now.Config, streamSubjects)
}

// Rebind makes the relay bind its consumer again, because it was seen to be gone.
func (r *Relay) Rebind() { r.shared.requestRebind() }

// Update updates the metrics that depend on time. One goroutine calls it, about every second.
func (r *Relay) Update(now time.Time) {
	r.utilization.sample(now)
	r.core.countDropped()
	if r.undeliverable.forget(now) {
		r.Conditions.Clear(health.DeadLetter)
	}
}
