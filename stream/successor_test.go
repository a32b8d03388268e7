package stream

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// abandon takes messages as a process does that dies with them.
func (s *site) abandon(n int) {
	s.Helper()
	c, err := s.js.Consumer(s.Context(), "in", needs.ConsumerName("p", ""))
	if err != nil {
		s.Fatal(err)
	}
	batch, err := c.Fetch(n, jetstream.FetchMaxWait(natsx.PullExpiry))
	if err != nil {
		s.Fatal(err)
	}
	got := 0
	for range batch.Messages() {
		got++
	}
	if got != n || batch.Error() != nil {
		s.Fatalf("%d messages were taken, want %d: %v", got, n, batch.Error())
	}
}

// TestSuccessorIsNotHeldUp: a process that died with as much as it may hold does not keep the next one from what was
// not delivered yet, until the server gives up on the dead one.
func TestSuccessorIsNotHeldUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := answerer(t)
	p.AckWait = time.Hour
	s.send(1)
	end := s.engine(s.url(), p)
	s.acknowledged("p")
	end()
	s.send(spec.MinAckPending + 100)
	s.abandon(spec.MinAckPending)
	end = s.engine(s.url(), p)
	s.until("the first answers of the successor, with which the server does not wait for the dead one", func() bool {
		return s.state("out").Msgs == 101
	})
	end()
	p.AckWait = 2 * time.Second // now it gives up on the dead one
	s.engine(s.url(), p)
	s.acknowledged("p")
	s.once(spec.MinAckPending + 101)
}
