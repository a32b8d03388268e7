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

// TestWorkQueueHoldsBeyondInFlight: with an input that only one consumer can read, a pipeline holds messages until a
// first model, which needs more messages than may be in flight. Training gets them nevertheless, and each is answered.
func TestWorkQueueHoldsBeyondInFlight(t *testing.T) {
	t.Parallel()
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

// TestStopReleases: messages that were delivered to a pipeline when it is stopped are available at once to the next
// process.
func TestStopReleases(t *testing.T) {
	t.Parallel()
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
