package stream_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
)

// TestDeleteMarkerIsSkipped: the marker that the server stores when the last message of a subject expires is no bad
// input.
func TestDeleteMarkerIsSkipped(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "in", MaxAge: 100 * time.Millisecond, AllowMsgTTL: true,
		SubjectDeleteMarkerTTL: time.Hour})
	for _, name := range []string{"out", "dead"} {
		s.Stream(jetstream.StreamConfig{Name: name})
	}
	r := startReplica(t, s.Connect(), fixedPipeline(t))
	inputs(s, 1)
	natstest.Await(t, "the marker is skipped", func() bool {
		if n := s.Count("dead"); n != 0 {
			t.Fatalf("%d dead letters", n)
		}
		return r.counter("embedd_messages_total", "result=skip") == 1
	})
}
