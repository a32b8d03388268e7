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
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/task"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/training"
	"github.com/embedd/embedd/stream/spec"
)

// Relay is the hot path of one pipeline. Its methods are called in this order: Attach, Bind and BindPartitions if the
// input has a stream, Open, and then Serve or ServeCore. The others are safe for concurrent use once Open has returned.
type Relay struct {
	*hotPath
	partitions *partitions
	core       *coreNATS
	unacked    atomic.Pointer[inFlight] // nil until Serve
	// shared is the consumer of the pipeline; with partitions, of the messages from before they were configured.
	shared *source

	labelDeadLetters *dedup // finds stored dead letters of label messages; nil on core NATS and without late labels
}

// New returns the relay of a pipeline. The fields of the scope may be set later, before the methods that need them.
func New(s *scope.Scope, activity *Activity, drainTimeout time.Duration) *Relay {
	p := &hotPath{Scope: s, halt: health.Halt{Bad: s.Stop.Bad, Of: s.Stop.Of}, identities: &identities{Scope: s},
		activity: activity, drainTimeout: drainTimeout, inspect: func() {}}
	if s.Stream != "" {
		p.dedup = newDedup(s.JS, s.Log, s.AckPending, p.identities)
	}
	mapping, _ := wildcard.ParseMapping(s.Subject, s.Output) // without an error: spec.Pipeline.WithDefaults checks it
	p.composer, p.transformer = &composer{hotPath: p, mapping: mapping}, &transformer{hotPath: p}
	p.consumers = &consumers{hotPath: p}
	p.answeredAt.Store(time.Now().UnixNano())
	return &Relay{hotPath: p, partitions: newPartitions(p), core: &coreNATS{hotPath: p},
		shared: &source{filter: s.Subject}}
}

// Attach sets the parts of the pipeline that a relay works with. inspect updates the statistics of the streams now.
func (r *Relay) Attach(p *replica.Replica, t *training.Path, inspect func()) {
	r.partitions.replica, r.training, r.inspect = p, t, inspect
}

// Bind finds the streams of the outputs and dead letters, and creates the consumer of the input: messages count from
// then on, and a consumer of another pipeline is refused before anything starts.
func (r *Relay) Bind(ctx context.Context) error {
	d := r.dedup
	d.permissions, d.conditions = r.Permissions, r.Conditions
	if r.Input.CachedInfo().Config.Retention != jetstream.LimitsPolicy {
		if r.Role == spec.RoleTrain {
			return fmt.Errorf("role train: stream %s delivers each message to one reader only, and that has to answer "+
				"it; use role all, or give the stream limits retention",
				r.Stream)
		}
		d.maxUnacked = math.MaxInt / 2 // without a limit: see consumers.withAckPending
	}
	if r.Partitions > 0 {
		d.maxUnacked = math.MaxInt / 2 // one partition may be any number of messages behind the others
	}
	for _, subject := range []string{r.OutputPattern(), r.Dead} {
		info, err := d.addSink(ctx, subject)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return needs.MissingOf(ctx, r.JS, &r.Pipeline, subject)
		}
		if err != nil {
			return natsx.ExplainAPIError(err)
		}
		r.composer.setLimit(subject, info.Config.MaxMsgSize)
		if info.Config.Duplicates < 3*r.AckWait {
			r.Log.Warn("the duplicate window of the output stream is short; redelivered messages are looked up at its "+
				"end instead",
				"stream", info.Config.Name, "window", info.Config.Duplicates, "advised", 3*r.AckWait)
		}
	}
	if r.Labels != "" && r.Stage.Fixed == nil {
		// Label messages are read in a separate goroutine.
		r.labelDeadLetters = newDedup(r.JS, r.Log, r.AckPending, r.identities)
		r.labelDeadLetters.window = d.window
	}
	r.shared.durable = r.ConsumerName()
	for attempt := 0; ; attempt++ {
		c, created, err := r.consumers.bind(ctx, r.shared)
		if err == nil {
			err = r.identities.load(ctx, func(ctx context.Context) { r.consumers.awaitOlderVersions(ctx, r.shared) })
			if err != nil {
				return err
			}
			return r.shared.attempts.load(ctx, r.Scope, created, c.CachedInfo())
		}
		if !errors.Is(err, jetstream.ErrConsumerExists) || !natsx.Backoff(ctx, attempt) {
			return natsx.ExplainAPIError(err)
		}
	}
}

// BindPartitions checks that the input stream has the pipeline's partitions, opens their leases, and finds those of
// earlier numbers.
func (r *Relay) BindPartitions(ctx context.Context, leases func(context.Context, *scope.Scope) (*lease.Bucket,
	error)) error {
	if fault := needs.ServerFault(r.Conn.ConnectedServerName(), r.Conn.ConnectedServerVersion()); fault != "" {
		return errors.New(fault)
	}
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

// Open prepares the relay to serve with the running stage. progress describes how far the first model is.
func (r *Relay) Open(progress func() string) {
	r.deadLetterLog = health.NewLetterLog(r.Log, r.Series)
	replica := r.partitions.replica
	r.gate = answerGate{stage: r.Running, skipsUntilReady: r.Stage.Until == plugin.UntilSkip,
		holdsWhenStale: r.WhenStale == spec.StaleHold, freshness: r.Freshness, refresh: replica.RefreshAge, halt: &r.halt,
		outdated: replica.Outdated, progress: progress, log: r.Log}
}

// Serve answers the messages of the input stream in order until ctx is done, and then those that were pulled before, as
// far as the drain timeout allows. severed is done when the connection was closed: then nothing can be answered.
func (r *Relay) Serve(ctx, severed context.Context) (err error) {
	u := newPublisher(r.Conn, r.Models.Hub)
	defer u.close()
	u.release = func(a *answer) { r.send(u, a) }
	unacked := newInFlight(r.activity, r.utilization.maxMessages)
	r.unacked.Store(unacked)
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, endPull := context.WithCancel(ctx)
	defer endPull()
	var isLate atomic.Bool
	defer context.AfterFunc(ctx, func() { time.AfterFunc(r.drainTimeout, func() { isLate.Store(true); stop() }) })()
	defer context.AfterFunc(severed, stop)()

	var wg sync.WaitGroup
	defer task.Every(work, r.AckWait/3, func(context.Context) { unacked.keepAlive() }).Stop()
	var pulled chan *input
	endWait := r.utilization.wait()
	begin := sync.OnceFunc(func() { // an idle pipeline has neither the goroutines nor the queues
		endWait()
		pulled = make(chan *input, maxPending)
		sent := make(chan *answer, maxPending)
		wg.Go(func() {
			defer close(sent)
			for in := range r.utilization.receive(pulled) {
				r.answerOne(ctx, work, unacked, u, in, sent)
			}
		})
		wg.Go(func() {
			defer stop()
			c := newConfirmer(r.hotPath, u)
			c.inFlight, c.sent = unacked, sent
			c.run(work)
		})
	})
	out := func(in *input) {
		begin()
		pulled <- in
	}
	if r.Partitions > 0 {
		(&partitionOwner{partitions: r.partitions, work: work, inFlight: unacked, out: out}).run(ctx)
	} else {
		err = (&puller{hotPath: r.hotPath, source: r.shared, work: work, inFlight: unacked, out: out}).run(ctx)
	}
	endPull() // after an error of the pull, inputs must not wait for a model any longer
	if pulled != nil {
		close(pulled)
	}
	wg.Wait()
	for _, in := range unacked.inputs {
		in.source.attempts.retract(work, in)
	}
	if left := r.nakAll(unacked); left > 0 && isLate.Load() {
		err = errors.Join(err, r.errDrain(left))
	}
	return err
}

// answerOne publishes the answer to an input, if it is answered here, and passes it on to sent.
func (r *Relay) answerOne(ctx, work context.Context, unacked *inFlight, u *publisher, in *input, sent chan<- *answer) {
	a := r.process(ctx, work, unacked, in)
	if a == nil {
		return
	}
	r.publish(u, a)
	killpoint.Here(killpoint.Published)
	if len(a.deadLetters) > 0 {
		killpoint.Here(killpoint.Dead)
	}
	sent <- a
	if in.isSuspect {
		unacked.awaitIdle(work)
	}
}

// nakAll naks the inputs that were not answered, so that they are redelivered at once, and returns how many there are.
func (r *Relay) nakAll(unacked *inFlight) int {
	r.activity.processing.Add(-int64(unacked.processing))
	for _, in := range unacked.inputs {
		endSpan(in.span, errNotAnswered)
	}
	left := unacked.all()
	for _, msg := range left {
		_ = msg.Nak()
	}
	return len(left)
}

func (r *Relay) errDrain(inputs int) error {
	why := ""
	if reason := r.Conditions.Reason(health.Publish); reason != "" {
		why = ": " + reason
	}
	return spec.Describe(fmt.Sprintf("stopping: %d inputs that were pulled are not answered after %v%s; they stay "+
		"in stream %s and are answered after the next start",
		inputs, r.drainTimeout, why, r.Stream), spec.ErrDrain)
}

// errNotAnswered is the status of the span of an input that is redelivered after a stop.
var errNotAnswered = errors.New("stopping: not answered here")

// process answers a pulled input. It returns nil if the input is not answered here. Then it was removed from those in
// flight, or stays there until Serve naks what is left; either way it is redelivered.
func (r *Relay) process(ctx, work context.Context, unacked *inFlight, in *input) *answer {
	if !in.source.isActive() { // it is redelivered, here or to the new owner of the partition
		unacked.remove(in)
		return nil
	}
	if in.source.isOrdered() {
		if r.gate.check() != 0 { // the partition is released, which must not wait for the input
			in.source.abort()
			unacked.remove(in)
			return nil
		}
	} else if !r.gate.wait(ctx, anyReason&^outdated) { // other replicas wait for the same, except while this is outdated
		return nil
	} else if r.gate.closed()&outdated != 0 { // another replica answers it, or this one when it is up to date
		if r.training.ReadsOnce() {
			r.training.Offer(&in.Message, &in.training) // the redelivery is not used for training
		}
		_ = in.msg.NakWithDelay(time.Second) // without a delay the open pull would receive it
		unacked.remove(in)
		return nil
	}
	if work.Err() != nil {
		return nil
	}
	r.Running.Open(&r.transformer.opened, in.Data)
	expanded := int64(r.Running.Expanded(&r.transformer.opened) - len(in.Data))
	if !unacked.process(work, in, expanded, r.partitions.maxInFlight(), in.isSuspect) {
		return nil
	}
	beginSpan(r.Scope, in)
	a := r.transformer.answerSuspect(work, in)
	if a == nil || work.Err() != nil { // a lookup that ended with work does not know whether the answer is stored
		return nil
	}
	unacked.grow(in, a.bytes())
	r.utilization.processed(a.seconds)
	return a
}

// ServeCore is Serve for an input without a stream.
func (r *Relay) ServeCore(ctx, severed context.Context) error { return r.core.run(ctx, severed) }

// IdentityKey keeps the key of the answers' identities stored.
func (r *Relay) IdentityKey() natsx.Followed { return r.identities.followed() }

// LogDeadLetters logs a summary of the dead letters since the last one.
func (r *Relay) LogDeadLetters() { r.deadLetterLog.Log() }

// SendLabelDeadLetter publishes the dead letter of a message of labels, and waits until it is stored.
func (r *Relay) SendLabelDeadLetter(ctx context.Context, m *scope.Message, cause error) error {
	a := r.composer.deadMessage(&answer{in: &input{Message: *m}}, cause)
	if r.labelDeadLetters == nil { // core NATS
		r.core.publish(a)
		return nil
	}
	// An earlier process may have sent it: labels are read again after a restart.
	r.labelDeadLetters.markStored(ctx, a, true)
	u := newPublisher(r.Conn, r.Models.Hub)
	defer u.close()
	a, err := newConfirmer(r.hotPath, u).deliver(ctx, a)
	if err == nil {
		r.logDeadLetters(a)
	}
	return err
}

// MayLearn reports whether a message of the input stream may be used for training: not if it crashed processes.
func (r *Relay) MayLearn(ctx context.Context, seq uint64, created time.Time) bool {
	if r.Partitions > 0 {
		return true // another replica may answer it; package training quarantines messages that crash training
	}
	return r.shared.attempts.mayLearn(ctx, seq, created, &r.gate)
}

// SetLimit sets the max_msg_size of the stream that stores outputs or dead letters.
func (r *Relay) SetLimit(subject string, maxMsgSize int32) { r.composer.setLimit(subject, maxMsgSize) }

// Rebind makes the relay bind its consumer again, because it was seen to be gone.
func (r *Relay) Rebind() { r.shared.requestRebind() }

// Update updates the metrics that depend on time. One goroutine calls it, about every second.
func (r *Relay) Update(now time.Time) {
	r.deadLetterLog.Update(now, time.Minute)
	r.utilization.sample(now)
	r.core.countDropped()
	if r.undeliverable.forget(now) {
		r.Conditions.Clear(health.DeadLetter)
	}
}
