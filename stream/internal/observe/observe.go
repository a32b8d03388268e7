// Package observe inspects the streams of a running pipeline: how many inputs are not answered yet, and what would keep
// the next one from being answered. The hot path reports what it runs into itself; this is for what nothing runs into
// while no input arrives.
package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/task"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/relay"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

const (
	interval      = 2 * time.Second  // between two inspections
	deadInterval  = 10 * time.Second // between two counts of the stored dead letters
	othersFactor  = 15               // times as long when another replica observes the lag, or for answered partitions
	inspectWithin = 5 * time.Second  // how long an inspection may take
)

// Snapshot is the last observed state of a pipeline's input.
type Snapshot struct {
	LagKnown    bool      // of the replicas of a pipeline one observes the lag
	Lag         uint64    // messages of the input that are not answered
	Oldest      time.Time // when the oldest of them was stored, by our clock; zero: none, or not known
	Blocker     string    // why an input would not be answered, "" when it would
	Dead        *uint64   // messages on the subject of the dead letters; nil: not known
	DeadLetters string    // why a dead letter would not be stored, "" when it would
}

// Observer inspects the streams of a pipeline.
type Observer struct {
	*scope.Scope
	replica *replica.Replica
	relay   *relay.Relay

	snapshot atomic.Pointer[Snapshot]
	task     atomic.Pointer[task.Task] // nil before Start

	sinks        map[string]string // streams of the output subjects at the last inspection
	oldest       map[string]oldest // by the subjects of a consumer
	isReadDenied bool              // the user may not read single messages

	deadCountedAt time.Time
	deadStream    jetstream.StreamState // of the dead letters when they were counted
	allAnswered   position              // end of the input at the last count that found all answered in all partitions
	answered      position              // that, counted twice: the leader of a consumer may be behind the stream's
	checkedAt     time.Time             // when the consumers of all partitions were last requested, and none was blocked
}

// oldest is the first message that a consumer has not acknowledged, as of the last inspection.
type oldest struct {
	floor uint64    // acknowledged up to here
	first uint64    // sequence of the first message after it, 0: not known
	at    time.Time // when that was stored, by our clock
}

// position is a place in the input stream.
type position struct {
	created time.Time // of the stream
	seq     uint64
}

// New returns an observer that has inspected nothing yet.
func New(s *scope.Scope, r *replica.Replica, hotPath *relay.Relay) *Observer {
	return &Observer{Scope: s, replica: r, relay: hotPath, sinks: map[string]string{}, oldest: map[string]oldest{}}
}

// Snapshot returns the last observed state, nil before the first inspection.
func (w *Observer) Snapshot() *Snapshot { return w.snapshot.Load() }

// Now has the streams inspected at once.
func (w *Observer) Now() {
	if t := w.task.Load(); t != nil {
		t.Now()
	}
}

// Start inspects the streams until stop.
func (w *Observer) Start(ctx context.Context) (stop func()) {
	t := task.Every(ctx, 0, func(ctx context.Context) { w.task.Load().Within(w.observe(ctx)) })
	w.task.Store(t)
	w.Now()
	return t.Stop
}

// observe inspects the streams, and returns when to do that again.
func (w *Observer) observe(ctx context.Context) (pause time.Duration) {
	pause = max(interval, w.PollInterval)
	if !w.Conn.IsConnected() {
		return pause
	}
	s := w.inspect(ctx)
	if ctx.Err() != nil {
		return pause
	}
	w.snapshot.Store(s)
	w.report(health.Streams, s.Blocker, "no input can be answered", "inputs can be answered again")
	w.report(health.DeadLetterStream, s.DeadLetters, "dead letters cannot be stored; other inputs are answered",
		"dead letters can be stored again")
	if !s.LagKnown && s.Blocker == "" && s.DeadLetters == "" {
		pause *= othersFactor // the hot path reports what it runs into itself
	}
	return pause
}

// report sets the reason of a component, and logs that it appears or is gone.
func (w *Observer) report(c health.Component, reason, appears, isGone string) {
	switch isChanged := w.Conditions.Set(c, reason); {
	case isChanged && reason == "":
		w.Log.Info(isGone)
	case isChanged:
		w.Log.Warn(appears, "reason", reason)
	}
}

func (w *Observer) inspect(ctx context.Context) *Snapshot {
	ctx, cancel := context.WithTimeout(ctx, inspectWithin)
	defer cancel()
	w.Permissions.Refresh(ctx)
	s := &Snapshot{}
	note := func(text string) {
		if s.Blocker == "" {
			s.Blocker = text
		}
	}
	if before := w.snapshot.Load(); before != nil {
		// The last that is known, when they cannot be observed now.
		s.Lag, s.Oldest, s.Dead = before.Lag, before.Oldest, before.Dead
	}
	if s.LagKnown = w.replica.ObservesLag(); s.LagKnown {
		if err := w.lag(ctx, s); err != nil {
			note(err.Error())
		}
	} else if err := w.checkConsumers(ctx, w.relay.OwnedPartitions()); err != nil {
		note(err.Error())
	}
	if err := w.checkPublish(ctx, w.OutputPattern()); err != nil {
		note(err.Error())
	}
	if err := w.checkPublish(ctx, w.Dead); err != nil {
		s.DeadLetters = err.Error()
	}
	switch {
	case !s.LagKnown:
		s.Dead = nil
	case w.sinks[w.Dead] != "" && time.Since(w.deadCountedAt) >= deadInterval:
		w.deadCountedAt = time.Now()
		w.countDead(ctx, s)
	}
	if err := w.Permissions.PublishDenied(natsx.PullSubject(w.JS, w.Stream, w.ConsumerName())); err != nil {
		note(err.Error())
	}
	// Whether acknowledgements are allowed is known only when one was refused: the server chooses their subjects.
	if one := (natsx.Permission{Action: natsx.Publish, Subject: natsx.AckSubjects}); w.Permissions.WasDenied(one) {
		note(one.DeniedError().Error())
	}
	return s
}

// countDead counts the stored dead letters, if their stream has changed since.
func (w *Observer) countDead(ctx context.Context, s *Snapshot) {
	sink, err := w.RecentStream(ctx, w.sinks[w.Dead])
	if err != nil || natsx.StoredFilter(&sink.CachedInfo().Config, w.Dead) == "" {
		return
	}
	state := sink.CachedInfo().State
	was := &w.deadStream
	if s.Dead != nil && state.Msgs == was.Msgs && state.FirstSeq == was.FirstSeq && state.LastSeq == was.LastSeq &&
		state.FirstTime.Equal(was.FirstTime) {
		return
	}
	if n, err := natsx.CountMessages(ctx, w.JS, w.sinks[w.Dead], w.Dead); err == nil {
		s.Dead, *was = &n, state
	}
}

// lag counts the messages of the input that are not answered, and finds the oldest. The error says why none of them can
// be.
func (w *Observer) lag(ctx context.Context, s *Snapshot) error {
	input, err := w.RecentStream(ctx, w.Stream)
	var shared *jetstream.ConsumerInfo
	if err == nil {
		shared, err = w.count(ctx, input, needs.Partition{}, s)
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return w.InputGone()
	case err != nil:
		return natsx.ExplainRequestError(err, "about stream "+w.Stream+" and its consumer "+w.ConsumerName())
	case shared == nil:
		w.relay.Rebind()
		return fmt.Errorf("the consumer %s of stream %s is not there; it is created again", w.ConsumerName(), w.Stream)
	}
	at := position{input.CachedInfo().Created, input.CachedInfo().State.LastSeq}
	partitions := slices.Concat(w.relay.EarlierPartitions(), needs.Partitions(&w.Pipeline)[1:])
	isDue := at != w.answered || time.Since(w.checkedAt) >= othersFactor*max(interval, w.PollInterval)
	if !isDue {
		partitions = nil // nothing is stored since then
	}
	config := &input.CachedInfo().Config
	blocked := w.relay.CheckConsumer(ctx, needs.Partition{}, shared, config.Subjects)
	for _, q := range partitions {
		info, err := w.count(ctx, input, q, s)
		if err != nil {
			return natsx.ExplainRequestError(err, "about partition "+q.String()+" of stream "+w.Stream)
		}
		if blocked == nil && info != nil {
			blocked = w.relay.CheckConsumer(ctx, q, info, config.Subjects)
		}
	}
	if isDue && blocked == nil { // else all are checked again at the next inspection
		w.checkedAt = time.Now()
	}
	if s.Lag == 0 && blocked == nil {
		w.answered, w.allAnswered = w.allAnswered, at
	}
	if f := cmp.Or(needs.SubjectFault(&w.Pipeline, config), needs.PartitionFault(&w.Pipeline, config)); f != nil {
		return f
	}
	if blocked != nil {
		return blocked
	}
	return w.exhausted(shared)
}

// checkConsumers returns why the consumer of one of these partitions does not deliver its inputs, or nil. The hot path
// reports that there is none, or that the server does not answer about it.
func (w *Observer) checkConsumers(ctx context.Context, partitions []needs.Partition) error {
	for _, q := range partitions {
		info, err := w.consumer(ctx, q)
		if err != nil {
			continue
		}
		if err := w.relay.CheckConsumer(ctx, q, info, w.Input.CachedInfo().Config.Subjects); err != nil {
			return err
		}
	}
	return nil
}

// consumer requests the consumer of a partition.
func (w *Observer) consumer(ctx context.Context, q needs.Partition) (info *jetstream.ConsumerInfo, err error) {
	err = w.GuardInput(ctx, []string{".CONSUMER.INFO."}, func(ctx context.Context) error {
		c, err := w.JS.Consumer(ctx, w.Stream, q.ConsumerName(w.ConsumerName()))
		if err == nil {
			info = c.CachedInfo()
		}
		return err
	})
	return info, err
}

// count adds the messages of a partition that are not answered to the lag, which begins with the messages without a
// partition. It returns nil if the partition has no consumer now.
func (w *Observer) count(ctx context.Context, input jetstream.Stream, q needs.Partition, s *Snapshot) (
	info *jetstream.ConsumerInfo, err error) {
	filter := q.Filter(w.Subject)
	var n, floor uint64 // all messages up to floor are answered
	info, err = w.consumer(ctx, q)
	if err == nil {
		n, floor = natsx.Unacknowledged(info), info.AckFloor.Stream
	}
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		n, err = natsx.CountMessages(ctx, w.JS, w.Stream, filter)
	}
	if err != nil {
		return nil, err
	}
	at := w.storedAfter(ctx, input, floor, filter, n)
	if q.Of == 0 {
		s.Lag, s.Oldest = n, at
		return info, nil
	}
	s.Lag += n
	if s.Oldest.IsZero() || !at.IsZero() && at.Before(s.Oldest) {
		s.Oldest = at
	}
	return info, nil
}

// exhausted returns an error if the inputs whose dead letters are refused have used up the messages that the consumer
// delivers without acknowledgement: then the server delivers no other input.
func (w *Observer) exhausted(c *jetstream.ConsumerInfo) error {
	limit, refused := c.Config.MaxAckPending, w.Conditions.Reason(health.DeadLetter)
	if limit <= 0 || c.NumAckPending < limit || c.NumRedelivered < limit/2 || refused == "" {
		return nil
	}
	return fmt.Errorf("%d inputs wait for their dead letters to be stored, as many as nats.max_ack_pending lets be "+
		"without an answer, so no other input is delivered: %s; or raise nats.max_ack_pending, up to %d",
		c.NumAckPending, refused, spec.MaxAckPending)
}

// storedAfter is when the first message of the pipeline after a sequence number was stored, by our clock; zero when
// that is not known. The message is requested once, not at each inspection: it is sent whole.
func (w *Observer) storedAfter(ctx context.Context, input jetstream.Stream, floor uint64, filter string,
	messages uint64) time.Time {
	if messages == 0 {
		return time.Time{}
	}
	info, one := input.CachedInfo(), w.oldest[filter]
	if floor == one.floor && one.first >= info.State.FirstSeq && one.first > 0 || w.isReadDenied {
		return one.at
	}
	one = oldest{floor: floor}
	err := w.GuardInput(ctx, []string{".GET."}, func(ctx context.Context) error {
		msg, err := input.GetMsg(ctx, floor+1, jetstream.WithGetMsgSubject(filter))
		if err == nil {
			one.first, one.at = msg.Sequence, time.Now().Add(-info.TimeStamp.Sub(msg.Time)) // clocks may differ
		}
		return err
	})
	w.isReadDenied, w.oldest[filter] = errors.Is(err, spec.ErrDenied), one
	return one.at
}

// checkPublish returns why the server would not store a message on a subject, nil when it would.
func (w *Observer) checkPublish(ctx context.Context, subject string) error {
	if err := w.Permissions.PublishDenied(subject); err != nil {
		return err
	}
	info, err := w.sink(ctx, subject)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return needs.MissingOf(ctx, w.JS, &w.Pipeline, subject)
	}
	if err != nil {
		return natsx.ExplainRequestError(err, "which stream takes "+subject)
	}
	if f := w.relay.SetStream(subject, info); f != nil {
		return f
	}
	return nil
}

// sink is the stream that takes a subject: the one of the last inspection, when it still does.
func (w *Observer) sink(ctx context.Context, subject string) (*jetstream.StreamInfo, error) {
	if name := w.sinks[subject]; name != "" {
		s, err := w.RecentStream(ctx, name)
		if err == nil && wildcard.CoveredBy(subject, s.CachedInfo().Config.Subjects) {
			return s.CachedInfo(), nil
		}
	}
	stream, err := natsx.StreamOf(ctx, w.JS, subject)
	if err != nil {
		return nil, err
	}
	w.sinks[subject] = stream.CachedInfo().Config.Name
	return stream.CachedInfo(), nil
}
