package stream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
)

// staleness says how old the live model is. A model is as old as the last time that it was found good: when it was
// made, or the time of the newest labelled row that it was judged on and kept. So a stream that does not change has
// no stale model, and one whose labels have ended has. It is a pure function of its events in virtual time.
type staleness struct {
	maxAge time.Duration // 0: no model is ever stale
	good   time.Time     // zero: there is no model
	now    time.Time
}

// tick moves the virtual time; it never moves backwards.
func (s *staleness) tick(at time.Time) {
	if at.After(s.now) {
		s.now = at
	}
}

// chosen records that a model became the live one, and when it was last found good.
func (s *staleness) chosen(good, at time.Time) {
	s.tick(at)
	s.good = good
}

// judged records that the live model was good as of a time: it was made then, or a labelled row of then was compared
// with what it makes of it and nothing better is known.
func (s *staleness) judged(good, at time.Time) {
	s.tick(at)
	if good.After(s.now) {
		good = s.now
	}
	if good.After(s.good) {
		s.good = good
	}
}

func (s *staleness) age() time.Duration {
	if s.good.IsZero() {
		return 0
	}
	return max(s.now.Sub(s.good), 0)
}

func (s *staleness) stale() bool { return s.maxAge > 0 && s.age() > s.maxAge }

// age is how old the live model is now, and whether that is too old.
func (p *pipeline) age() (age time.Duration, stale bool) {
	p.staleMu.Lock()
	defer p.staleMu.Unlock()
	p.staleness.tick(p.clock())
	return p.staleness.age(), p.staleness.stale()
}

// foundGood takes that the live model is the best that is known as of a time.
func (p *pipeline) foundGood(at time.Time) {
	p.staleMu.Lock()
	defer p.staleMu.Unlock()
	p.staleness.judged(at, p.clock())
}

// lookFresh asks how new the rows are that the live model was judged on. The hot path does not: the answer takes a lock
// that learning holds.
func (p *pipeline) lookFresh() {
	s := p.stage.Status()
	if s.Live != nil && !s.Newest.IsZero() {
		p.foundGood(s.Newest)
	}
	if s.Live != nil && p.models != nil {
		if good := p.models.Good(s.Live.Version); !good.IsZero() { // another judges it
			p.foundGood(good)
		}
	}
}

// chosen takes a model that the store brought, and when it was last found good.
func (p *pipeline) chosen(l *plugin.Live, good time.Time) {
	p.staleMu.Lock()
	defer p.staleMu.Unlock()
	if made := l.Model.Note().Created; made.After(good) {
		good = made
	}
	p.staleness.chosen(good, p.clock())
}

// stalePoll is how often a pipeline that holds looks whether it may go on.
const stalePoll = 50 * time.Millisecond

// awaitFresh waits while a stale model holds the output back; false where ctx ended first.
func (p *pipeline) awaitFresh(ctx context.Context) bool {
	if p.WhenStale != StaleHold {
		return true
	}
	for told := (time.Time{}); ; {
		age, stale := p.age()
		if stale {
			p.lookFresh()
			age, stale = p.age()
		}
		if !stale {
			return true
		}
		if time.Since(told) > time.Minute {
			told = time.Now()
			p.log.Warn("nothing leaves until the live model is found good again or a newer one is", "age", age,
				"training.max_age", p.MaxAge, "progress", p.progress())
		}
		select {
		case <-time.After(stalePoll):
		case <-ctx.Done():
			return false
		}
	}
}

// mark is what an output says of a stale model; nothing for a fresh one.
func mark(age time.Duration, stale bool) []wire.Pair {
	if !stale {
		return nil
	}
	return []wire.Pair{{Key: wire.HeaderStale, Value: strconv.FormatInt(int64(age/time.Second), 10)}}
}

// marks are what an output says beside its model and its origin.
func (p *pipeline) marks(in *input, age time.Duration, stale bool) []wire.Pair {
	out := mark(age, stale)
	if in.again {
		out = append(out, wire.Pair{Key: wire.HeaderRedelivered, Value: "1"})
	}
	return out
}

// staleReason is the sentence that readiness shows.
func (p *pipeline) staleReason(age time.Duration) string {
	does := map[WhenStale]string{StaleServe: "outputs are marked", StaleHold: "nothing leaves",
		StalePass: "messages leave as they came"}[p.WhenStale]
	return fmt.Sprintf("model %s was last found good %v ago, over training.max_age %v, and %s; %s",
		p.stage.Live().Version, age.Round(time.Second), p.MaxAge, does, p.learned())
}
