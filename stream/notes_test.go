package stream

import (
	"sync"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/internal/scope"
)

// TestNotesOfTwoReplicas: two replicas note 100 attempts at the same time, and none is lost.
func TestNotesOfTwoReplicas(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.send(1)
	replicas := []*pipeline{s.resting(), s.resting()}
	var wg sync.WaitGroup
	for i := range 100 {
		p := replicas[i%2]
		wg.Go(func() {
			if _, err := p.countTrial(t.Context(), &input{Message: scope.Message{Origin: wire.Origin{Seq: 1}}, lane: p.whole}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n, err := replicas[0].countTrial(t.Context(), &input{Message: scope.Message{Origin: wire.Origin{Seq: 1}}, lane: replicas[0].whole})
	if n != 2+100+1 || err != nil {
		t.Errorf("%d of 100 survive, %v", n-3, err)
	}
}

// TestNotesOfAnEarlierVersion: what an earlier version noted in the metadata of the consumer counts.
func TestNotesOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.send(10)
	p := s.resting()
	consumer, err := s.js.Consumer(t.Context(), "in", p.whole.durable)
	if err != nil {
		t.Fatal(err)
	}
	c := consumer.CachedInfo().Config
	c.Metadata[metaTrials] = "5:4,6:3"
	if _, err := s.js.UpdateConsumer(t.Context(), "in", c); err != nil {
		t.Fatal(err)
	}
	p = s.resting()
	if n := p.whole.trials.counts[5]; n != 4 {
		t.Errorf("%d attempts are known, want 4", n)
	}
	for want := uint64(4); want < 7; want++ {
		n, err := p.countTrial(t.Context(), &input{Message: scope.Message{Origin: wire.Origin{Seq: 6}}, lane: p.whole})
		if n != want || err != nil {
			t.Errorf("attempt %d, want %d: %v", n, want, err)
		}
	}
}

// resting is a pipeline that is open and does nothing.
func (s *site) resting() *pipeline {
	s.Helper()
	p := answerer(s.T)
	p.Stage.Fixed, p.Models.None = nil, true
	js := s.dial()
	e, err := New(Options{Conn: js.Conn(), Pipelines: []Pipeline{p}})
	if err != nil {
		s.Fatal(err)
	}
	open := s.open(e, js)
	s.Cleanup(open.Running.Close)
	return open
}
