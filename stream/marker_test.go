package stream_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
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

// TestDeleteMarkersAreNotLearned: markers count neither as messages that training cannot read nor as bad labels.
func TestDeleteMarkersAreNotLearned(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	dead := s.Stream(jetstream.StreamConfig{Name: "dead"})
	s.Stream(jetstream.StreamConfig{Name: "out"})
	subjects := map[string]string{"in": "in.x", "labels": "labels.x"}
	for name, subject := range subjects {
		c := jetstream.StreamConfig{Name: name, Subjects: []string{subject}, MaxAge: 100 * time.Millisecond,
			AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Hour}
		stream := s.Stream(c)
		s.Publish(nats.NewMsg(subject))
		natstest.Await(t, "there is a marker", func() bool {
			i, err := stream.Info(t.Context())
			return err == nil && i.State.FirstSeq == 2 && i.State.LastSeq == 2
		})
		c.MaxAge = 0
		if _, err := s.JS.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		s.Publish(&nats.Msg{Subject: subject, Data: []byte("no Arrow")})
	}
	p := basicPipeline()
	p.Labels, p.Stage.Spec.Key = subjects["labels"], "key"
	r := startReplica(t, s.Connect(), p)
	natstest.Await(t, "the bad messages behind the markers are read", func() bool {
		last, err := dead.GetLastMsgForSubject(t.Context(), "dead.x")
		return err == nil && last.Header.Get(wire.HeaderSource) == "labels:3" &&
			strings.Contains(r.pipeline().Reason, "messages cannot be read")
	})
	if now := r.pipeline(); !strings.Contains(now.Reason, "; 1 messages cannot be read") {
		t.Error(now.Reason)
	}
	if n := s.Count("dead"); n != 1 {
		t.Errorf("%d dead letters of labels", n)
	}
}
