package stage

import (
	"context"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/plugin/spec"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestPace: while answers wait, training pauses for nine times as long as it worked, and otherwise not at all; the end
// of the stage ends a pause (Invariant 12).
func TestPace(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	asked, until := 0, 0
	p := newPace(ctx, func() bool { asked++; return asked < until })
	longAgo := time.Now().Add(-time.Hour)

	p.since = longAgo
	if err := p.Err(); err != nil || asked != 1 || !p.since.After(longAgo) {
		t.Errorf("nothing waits: asked %d times, %v", asked, err)
	}

	asked, until = 0, 4
	p.since = longAgo
	begin := time.Now()
	if err := p.Err(); err != nil || asked < until && time.Since(begin) < 9*200*time.Millisecond {
		t.Errorf("it rested for %v and asked %d times, of which %d had answers waiting; %v",
			time.Since(begin), asked, until, err)
	}

	asked, until = 0, 1<<30 // always
	for _, worked := range []time.Duration{time.Millisecond, 3 * time.Millisecond} {
		begin = time.Now()
		p.since = begin.Add(-worked)
		if err := p.Err(); err != nil || time.Since(begin) < 9*worked {
			t.Errorf("after %v of work it rested for %v; %v", worked, time.Since(begin), err)
		}
	}

	begin = time.Now()
	p.since = begin.Add(-time.Millisecond)
	if err := trainer.Endless(p).Err(); err != nil || time.Since(begin) < 9*time.Millisecond {
		t.Errorf("what must not be broken off rested for %v; %v", time.Since(begin), err)
	}
	if p.since.Before(begin.Add(9 * time.Millisecond)) {
		t.Error("what was rested for within it is rested for once more behind it")
	}

	asked = 0
	p.busy = func() bool {
		if asked++; asked == 2 {
			stop() // in the middle of a pause
		}
		return true
	}
	p.since = longAgo
	if err := trainer.Endless(p).Err(); err != nil || asked != 2 {
		t.Errorf("what must not be broken off ends with the context, or rests on behind it, asked %d times: %v", asked, err)
	}
	p.since = longAgo
	if err := p.Err(); err == nil {
		t.Error("the context is over, and a rest says nothing of it")
	}
}

// TestPauseAfterWork: learning sleeps nine times as long as it worked, so that it uses a tenth of a core; at least 1 ms
// of work precede a pause, and at most 200 ms count.
func TestPauseAfterWork(t *testing.T) {
	const ms = time.Millisecond
	for worked, want := range map[time.Duration]time.Duration{0: 0, ms - 1: 0, ms: 9 * ms, 20 * ms: 180 * ms,
		200 * ms: 1800 * ms, time.Hour: 1800 * ms} {
		if got := pauseAfter(worked); got != want {
			t.Errorf("after %v of work learning sleeps %v, want %v", worked, got, want)
		}
	}
}

// TestPacedStage: a stage that pauses learns the same models, and does not pause before the first.
func TestPacedStage(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(43, 44)), 1000, 3)
	var digests [2]string
	for i := range digests {
		var asked atomic.Int64
		waits := i == 1
		s := newStage(t, func(c *spec.Config) { c.Busy = func() bool { asked.Add(1); return waits } })
		if s.learner.shouldPause() {
			t.Error("answers wait for the first model, and learning for them")
		}
		learnRows(t, s, 1, rows)
		if digests[i] = s.Live().Model.Digest(); asked.Load() == 0 || s.learner.shouldPause() != waits {
			t.Errorf("whether answers wait was asked %d times; learning gives way: %t", asked.Load(), s.learner.shouldPause())
		}
	}
	if digests[0] != digests[1] {
		t.Error("what is learned depends on who waits")
	}
}

// TestEndedInTheMiddle: whenever the stage ends, its stored state is that of a stage that continued: no checkpoint
// lacks a candidate that was due.
func TestEndedInTheMiddle(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(45, 46)), 2000, 3)
	run := func(endAt int64) (states []string, looks int64) {
		var stage atomic.Pointer[Stage]
		var asked atomic.Int64
		keep := func(_ context.Context, state []byte) error { states = append(states, string(state)); return nil }
		s := newStage(t, func(c *spec.Config) {
			c.Clock = func() time.Time { return time.Unix(1, 0) }
			c.Fit.Workers, c.Checkpoint = 1, keep
			c.Store = func(ctx context.Context, r *spec.Release) (string, error) { return "v", keep(ctx, r.State) }
			c.Busy = func() bool {
				if s := stage.Load(); s != nil && asked.Add(1) == endAt {
					s.learner.cancel()
				}
				return false
			}
		})
		stage.Store(s)
		m := decode(t, s, rows)
		if err := s.Learn(m, spec.Position{Seq: 1, Time: time.Unix(1, 0)}); err != nil {
			t.Fatal(err)
		}
		_ = s.Wait(t.Context())
		s.Close()
		return states, asked.Load()
	}
	whole, looks := run(0)
	for at := int64(1); at < looks; at += max(looks/int64(testsize.Of(10, 40)), 1) {
		states, _ := run(at)
		if len(states) > len(whole) || !slices.Equal(states, whole[:len(states)]) {
			t.Fatalf("ended at look %d of %d it stored %d states, and the last is not that of one that continued",
				at, looks, len(states))
		}
	}
	t.Logf("%d states, %d looks", len(whole), looks)
}
