package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// Report adds the state of the hot path to a status.
func (r *Relay) Report(s *spec.Status) {
	if r.Partitions > 0 {
		owned := len(r.OwnedPartitions())
		s.Partitions = &owned
	}
	if r.Input != nil && r.Partitions == 0 && !r.LearnsFromEdges() {
		s.Deliveries = r.deliveries.Report(r.Conn.Stats().Reconnects, r.Conn.ConnectedServerName())
	}
	s.Busy = r.utilization.value()
	if f := r.inFlight.Load(); f != nil {
		s.InFlight = f.size()
	} else if queue := r.core.queue.Load(); queue != nil {
		s.InFlight = queue.Bytes()
	}
	s.InFlightLimit = r.Pipeline.InFlight
	s.Halted = r.HaltReason()
	s.Claimed = r.claimed.Load()
	s.Undeliverable, s.UndeliverableReason = r.undeliverable.status(time.Now())
}

// IsWaitingForModel reports whether inputs wait for a model.
func (r *Relay) IsWaitingForModel() bool { return r.gate.isWaitingForModel() }

// HasAnswered reports whether a pipeline of this name has answered an input, also if its models were deleted since: its
// consumer has acknowledged something, or there is an output on its subject.
func (r *Relay) HasAnswered(ctx context.Context) (bool, error) {
	consumer, err := r.Input.Consumer(ctx, r.ConsumerName())
	// AckFloor.Stream of a new consumer is the sequence before the first message that the stream still has.
	if err == nil && consumer.CachedInfo().AckFloor.Consumer > 0 {
		return true, nil
	}
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, natsx.ExplainAPIError(err)
	}
	outputs, err := natsx.CountMessages(ctx, r.JS, r.outputs.stream(), r.OutputPattern())
	return outputs > 0, natsx.ExplainAPIError(err)
}

// Idle is how long ago an input was last answered.
func (r *Relay) Idle() time.Duration { return time.Since(r.began) - time.Duration(r.answered.Load()) }

// CoreLag returns how many inputs of core NATS are not answered, and when the oldest of them was received.
func (r *Relay) CoreLag() (messages uint64, oldest time.Time) {
	queue := r.core.queue.Load()
	if queue == nil {
		return 0, oldest
	}
	first, n := queue.Oldest()
	if n > 0 {
		oldest = first.Time
	}
	return uint64(n), oldest
}

// StaleReason explains why the live model, of this age, is stale and what follows from it.
func (r *Relay) StaleReason(age time.Duration) string {
	effect := map[spec.WhenStale]string{spec.StaleServe: "outputs are marked", spec.StaleHold: "nothing leaves",
		spec.StalePass: "messages are published unchanged"}[r.WhenStale]
	return fmt.Sprintf("model %s was last confirmed %v ago, over training.max_age %v, and %s; %s",
		r.Running.Live().Version, age.Round(time.Second), r.MaxAge, effect, r.training.Learned())
}

// EarlierPartitions are the partitions of earlier numbers of partitions that have consumers.
func (r *Relay) EarlierPartitions() []needs.Partition { return r.partitions.earlier }

// OwnedPartitions are the partitions that this process owns now.
func (r *Relay) OwnedPartitions() []needs.Partition { return r.partitions.ownedNow() }

// SinkStreams are the names of the streams of the outputs and of the dead letters.
func (r *Relay) SinkStreams() []string {
	return []string{r.outputs.stream(), r.deadLetters.stream()}
}
