package stream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// life is a process that learns from the messages 1 to n in order and dies of those that are deadly. It tells of which
// it has learned, and whether it has come to the end.
func life(t *testing.T, p *pipeline, n uint64, deadly func(seq uint64, nth int) bool) (learned []uint64, c *care, lives bool) {
	t.Helper()
	c = newCare(t.Context(), p)
	for seq := uint64(1); seq <= n; seq++ {
		if !c.may(t.Context(), seq, p.Created) {
			continue
		}
		learned = append(learned, seq)
		if deadly(seq, len(learned)) {
			return learned, c, false
		}
	}
	if err := p.Running.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.settle(t.Context(), true)
	return learned, c, true
}

// TestDeathsWhileLearning: of whatever a process dies while it learns, after some deaths it does not any more. Where it
// is of messages, those are set aside and all others are learned; where it is not, learning stops.
func TestDeathsWhileLearning(t *testing.T) {
	t.Parallel()
	const n = 1000
	draw := rand.New(rand.NewPCG(7, 11)) // of one of the cases alone
	for name, c := range map[string]struct {
		deadly func(seq uint64, nth int) bool
		deaths int // at most
		aside  []uint64
		stops  bool
	}{
		"nothing":               {func(uint64, int) bool { return false }, 0, nil, false},
		"a message":             {func(seq uint64, _ int) bool { return seq == 700 }, 5, []uint64{700}, false},
		"the first":             {func(seq uint64, _ int) bool { return seq == 1 }, 5, []uint64{1}, false},
		"the last":              {func(seq uint64, _ int) bool { return seq == n }, 5, []uint64{n}, false},
		"two of them":           {func(seq uint64, _ int) bool { return seq == 9 || seq == 10 }, 8, []uint64{9, 10}, false},
		"two that are apart":    {func(seq uint64, _ int) bool { return seq == 9 || seq == 900 }, 10, []uint64{9, 900}, false},
		"whatever comes fifth":  {func(_ uint64, nth int) bool { return nth == 5 }, 12, nil, true},
		"all that come":         {func(uint64, int) bool { return true }, 12, nil, true},
		"now this and now that": {func(seq uint64, nth int) bool { return nth >= 20+draw.IntN(60) }, maxStarts, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			for range n {
				if _, err := s.js.Conn().Request("in.x", nil, ample); err != nil {
					t.Fatal(err)
				}
			}
			p := s.resting()
			for deaths := 0; ; deaths++ {
				learned, care, lives := life(t, p, n, c.deadly)
				if !lives {
					if deaths > c.deaths {
						t.Fatalf("%d deaths", deaths+1)
					}
					continue
				}
				t.Logf("%d deaths", deaths)
				if care.stopped.Load() != c.stops || c.stops && len(learned) > 5 {
					t.Errorf("stopped %t after %d messages", care.stopped.Load(), len(learned))
				}
				status := p.status()
				if c.stops {
					if !status.TrainingStopped || !strings.Contains(status.Learning, "restart the daemon") {
						t.Errorf("the status says %+v", status)
					}
					// Told to stop and started again, it tries anew.
					care.end(t.Context())
					if learned, care, _ := life(t, p, n, c.deadly); len(learned) == 0 || care.stopped.Load() {
						t.Error("learning does not begin again")
					}
					return
				}
				if !slices.Equal(care.note.Aside, c.aside) || len(learned) != n-len(c.aside) || status.Quarantined != len(c.aside) {
					t.Errorf("%d are learned, set aside are %v, want %v", len(learned), care.note.Aside, c.aside)
				}
				if len(c.aside) > 0 && !strings.Contains(status.Learning, fmt.Sprintf("in:%d is set aside", c.aside[len(c.aside)-1])) {
					t.Errorf("the status says %q", status.Learning)
				}
				// A later start knows it, and is as any.
				if learned, care, _ := life(t, p, n, c.deadly); len(learned) != n-len(c.aside) || care.note.Starts > 1 {
					t.Errorf("the next learns %d, %+v", len(learned), care.note)
				}
				return
			}
		})
	}
}

// TestCareOfAStreamMadeAnew: the numbers that are set aside are those of their stream.
func TestCareOfAStreamMadeAnew(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.send(10)
	p := s.resting()
	for range 6 {
		life(t, p, 10, func(seq uint64, _ int) bool { return seq == 3 })
	}
	c := newCare(t.Context(), p)
	if c.may(t.Context(), 3, p.Created) || !c.may(t.Context(), 3, p.Created.Add(time.Second)) {
		t.Error("the message of the stream that is there is learned, or that of another is not")
	}
	s.again(jetstream.StreamConfig{})
	s.send(10)
	p = s.resting()
	if learned, _, _ := life(t, p, 10, func(uint64, int) bool { return false }); len(learned) != 10 {
		t.Errorf("of a stream that was made anew %v are learned", learned)
	}
}

// TestCareEnds: learning comes to the end of a stream of which the last message is of another subject, while nothing is
// answered too.
func TestCareEnds(t *testing.T) {
	t.Parallel()
	for _, until := range []plugin.Until{plugin.UntilHold, plugin.UntilSkip} {
		s := newSite(t)
		s.send(5)
		s.store("in.y", numbered(1, 0))
		s.pupil(func(c *Pipeline) { c.Stage.Until = until }, func(q *pupil, l *lesson) { q.learn(context.Background(), l) })
		s.until("that is noted", func() bool {
			kv, err := s.js.KeyValue(t.Context(), statestore.Bucket)
			if err != nil {
				return false
			}
			entry, err := kv.Get(t.Context(), statestore.TrainingKey("p"))
			return err == nil && strings.HasPrefix(string(entry.Value()), `{"stream_created":`) &&
				strings.HasSuffix(string(entry.Value()), `,"starts":0}`)
		})
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
