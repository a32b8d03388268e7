package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/embedd/embedd/stream/internal/health"
)

// maxParked is how many inputs may be parked at a time. The durable consumer has places for them beside those that are
// being answered; beyond it an input waits where it is, and those behind it with it.
const maxParked = 4 * ackPending

// letterWait is how long a dead letter may wait for its confirmation before its input is parked. Once one had to be,
// the next are parked at once, but for one every probeEvery, which may take probeWait.
const (
	letterWait = 3 * time.Second
	probeEvery = 2 * time.Second
	probeWait  = 500 * time.Millisecond
)

// The delay after which an input that is put off comes back doubles from the least to the most.
const (
	leastDelay = time.Second
	mostDelay  = time.Minute
)

// backOff is how long a message is put off that was put off so often.
func backOff(times int) time.Duration { return min(leastDelay<<min(times, 10), mostDelay) }

// parked are the inputs that cannot leave in any form now: no stream takes their dead letters. They are put off, so
// that they block nobody, and come back.
type parked struct {
	mu      sync.Mutex
	inputs  map[heldKey]*parking
	why     string    // of the last
	blocked bool      // dead letters are not taken
	probed  time.Time // when that was last tried
}

// parking is one of them.
type parking struct {
	times int
	due   time.Time            // when it comes back
	parts map[string]*outgoing // of its answer, by identity, that are stored or may be; without their messages
}

// errParked is why a dead letter was not waited for.
var errParked = errors.New("dead letters are not taken now")

// wait is how long the next dead letter may be waited for; 0: not at all.
func (k *parked) wait(now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.blocked:
		return letterWait
	case now.Sub(k.probed) < probeEvery:
		return 0
	}
	k.probed = now
	return probeWait
}

// taken notes whether a dead letter was stored after all; where it was not, the first time is told.
func (k *parked) taken(yes bool, now time.Time) (first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	first = !yes && !k.blocked
	k.blocked, k.probed = !yes, now
	return first
}

func (k *parked) refused() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.blocked
}

// add parks an input and says for how long; 0: there are too many.
func (k *parked) add(a *answer, why error, now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.inputs[keyOf(a.in)]
	if one == nil {
		if k.count(now) >= maxParked {
			return 0
		}
		if k.inputs == nil {
			k.inputs = map[heldKey]*parking{}
		}
		one = &parking{parts: map[string]*outgoing{}}
		k.inputs[keyOf(a.in)] = one
	}
	delay := backOff(one.times)
	one.times++
	one.due = now.Add(delay)
	for _, o := range a.parts {
		if o.stored || o.doubt || o.number != 0 {
			one.parts[o.id] = &outgoing{stored: o.stored, doubt: true, after: o.after}
		}
	}
	if !errors.Is(why, errParked) || k.why == "" {
		k.why = sentence(why)
	}
	return delay
}

// known tells whether an input was parked before, and marks the parts of its answer that were stored then, and those of
// which nobody knows.
func (k *parked) known(a *answer) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.inputs[keyOf(a.in)]
	if one == nil {
		return false
	}
	for _, o := range a.parts {
		if before := one.parts[o.id]; before != nil {
			o.stored, o.doubt, o.after = before.stored, before.doubt, before.after
		}
	}
	return true
}

// has tells whether an input was parked before.
func (k *parked) has(in *input) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inputs[keyOf(in)] != nil
}

// left forgets an input, which has left.
func (k *parked) left(in *input) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.inputs, keyOf(in))
}

// count is how many are parked. One that is overdue for long is another replica's now, or its stream is gone. The
// caller holds the lock.
func (k *parked) count(now time.Time) int {
	for key, one := range k.inputs {
		if now.Sub(one.due) > 2*mostDelay {
			delete(k.inputs, key)
		}
	}
	return len(k.inputs)
}

// standing is how many inputs are parked, and why the last of them is.
func (k *parked) standing(now time.Time) (n int, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n = k.count(now); n > 0 {
		why = k.why
	}
	return n, why
}

// confirmLetter waits for the confirmation of a part of a dead letter, but not for ever: what is good leaves on another
// subject and must not wait for what is bad.
func (c *confirmer) confirmLetter(ctx context.Context, o *outgoing) error {
	p := c.relay
	for !o.stored {
		wait := p.parked.wait(time.Now())
		if wait == 0 {
			return errParked
		}
		limited, cancel := context.WithTimeout(ctx, wait)
		err := c.confirm(limited, o)
		over := limited.Err() != nil
		cancel()
		switch {
		case err == nil:
			p.parked.taken(true, time.Now())
			return nil
		case !over || ctx.Err() != nil:
			return err // refused for good, or the run ends
		case !p.Conn.IsConnected():
			continue // nothing can be stored now, good or bad
		}
		err = p.explain(err, p.Dead)
		if p.parked.taken(false, time.Now()) {
			p.Log.Error("dead letters are not taken; their inputs are parked and come back, and good ones go on", "subject",
				p.Dead, "error", err)
		}
		return fmt.Errorf("dead letters on %s are not taken: %w", p.Dead, err)
	}
	return nil
}

// park puts an input off, to come back later. It reports false where there is no place for it.
func (c *confirmer) park(a *answer, why error) bool {
	p := c.relay
	in := a.in
	c.publisher.catchUp()
	delay := p.parked.add(a, why, time.Now())
	if delay == 0 {
		return false
	}
	c.publisher.forget(a.parts)
	if !in.stale.Load() {
		if err := in.msg.NakWithDelay(delay); err != nil {
			p.Log.Debug("a parked input comes back sooner", "source", in.Origin.Source(), "error", err)
		}
	}
	p.Log.Debug("an input is parked", "source", in.Origin.Source(), "for", delay, "error", why)
	p.countParked()
	return true
}

func (p *relay) countParked() {
	n, _ := p.parked.standing(time.Now())
	p.Series.Set(health.Undeliverable, float64(n))
}

// readDeadLimit asks how long a dead letter may be now: where one was refused, that has changed since it was asked.
func (p *relay) readDeadLimit(ctx context.Context) {
	name, err := p.JS.StreamNameBySubject(ctx, p.Dead)
	if err != nil {
		return
	}
	if s, err := p.JS.Stream(ctx, name); err == nil {
		p.limits.dead.Store(int64(s.CachedInfo().Config.MaxMsgSize))
	}
}
