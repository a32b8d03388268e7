package stream

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/needs"
)

// TestWorkQueueHoldsMoreThanItHolds: an input that only one consumer can read holds until a first model, and the rows
// that this takes are in more messages than may be in flight. Learning gets them all the same, and each is answered.
func TestWorkQueueHoldsMoreThanItHolds(t *testing.T) {
	s := newSite(t)
	s.again(jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	const n = 400
	s.send(n)
	s.engine(s.url(), Pipeline{Name: "p", Stream: "in", Subject: "in.x", Output: "out.x", Dead: "out.dead",
		InFlight: 60 * (int64(len(numbered(1, 0))) + 1024),
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Until: plugin.UntilHold,
			Fit: fit.Config{Method: "lda"}, Training: plugin.Training{Every: plugin.Every{Rows: 300}}}})
	s.until("every message is answered", func() bool { return s.state("out").Msgs >= n })
	s.until("the queue is empty", func() bool { return s.state("in").Msgs == 0 })
	s.once(n)
}

// TestStopGivesBack: what a pipeline was sent when it is told to stop is there at once for the one after it.
func TestStopGivesBack(t *testing.T) {
	s := newSite(t)
	s.again(jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	p := answerer(t)
	p.AckWait = time.Minute
	holds := p
	holds.Stage = plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Until: plugin.UntilHold,
		Fit: fit.Config{Method: "lda"}}
	end := s.engine(s.url(), holds)
	const n = 80 // too few for a model
	s.send(n)
	// It is stopped in the middle of a pull: some messages are held, some are on their way, some were not sent.
	s.until("the pipeline is sent messages", func() bool {
		c, err := s.js.Consumer(t.Context(), "in", needs.ConsumerName("p", ""))
		return err == nil && c.CachedInfo().NumAckPending > 0
	})
	end()
	s.engine(s.url(), p)
	s.until("the next one has answered all", func() bool { return s.state("out").Msgs == n })
	s.once(n)
}
