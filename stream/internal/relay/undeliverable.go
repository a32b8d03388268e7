package relay

import (
	"errors"
	"sync"
	"time"

	"github.com/embedd/embedd/stream/spec"
)

// maxUndeliverable bounds the memory of the postponed inputs of a process (Invariant 5). Beyond it an input waits, and
// blocks the inputs behind it. The consumer's MaxAckPending bounds the postponed inputs of all processes and is never
// larger, but work queues have no MaxAckPending.
const maxUndeliverable = spec.MaxAckPending

// deadLetterWait is how long a dead letter may wait for its confirmation before its input is postponed. While dead
// letters are refused inputs are postponed at once, except for one every probeInterval, which may take probeWait.
const (
	deadLetterWait = 3 * time.Second
	probeInterval  = 2 * time.Second
	probeWait      = 500 * time.Millisecond
)

// The delay of a redelivery doubles from minDelay to maxDelay.
const (
	minDelay = time.Second
	maxDelay = time.Minute
)

// redeliveryDelay is the delay of a message that was postponed the given number of times.
func redeliveryDelay(times int) time.Duration { return min(minDelay<<min(times, 10), maxDelay) }

// undeliverable has the inputs that cannot be answered in any form now, because no stream stores their dead letters.
// They are nak'd with a delay, so that they block no other input (Invariant 11). Safe for concurrent
// use.
type undeliverable struct {
	mu        sync.Mutex
	inputs    map[postponedKey]*postponed
	prunedAt  time.Time
	reason    string    // of the last
	isRefused bool      // dead letters are not stored
	probedAt  time.Time // when a dead letter was last tried
}

// postponedKey identifies a postponed input, also among copies of a stream that were restored.
type postponedKey struct {
	inputKey
	time int64
}

func postponedKeyOf(in *input) postponedKey { return postponedKey{keyOf(in), in.Time.UnixNano()} }

// postponed is one such input.
type postponed struct {
	times     int
	delivered uint64           // deliveries when it was postponed last
	due       time.Time        // when it is delivered again
	parts     map[string]*part // of its answer by identity, that are or may be stored; without their messages
	maxBody   int64            // see answer.maxBody
}

// errRefused is returned for a dead letter that is not tried, because the last ones were not stored.
var errRefused = errors.New("dead letters are not stored now")

// patience returns how long the next dead letter may take; 0: it must not be tried.
func (u *undeliverable) patience(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case !u.isRefused:
		return deadLetterWait
	case now.Sub(u.probedAt) < probeInterval:
		return 0
	}
	u.probedAt = now
	return probeWait
}

// setRefused records whether a dead letter was refused. It reports whether it is the first one after others that were
// stored.
func (u *undeliverable) setRefused(isRefused bool, now time.Time) (isFirst bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	isFirst = isRefused && !u.isRefused
	u.isRefused, u.probedAt = isRefused, now
	return isFirst
}

// forget forgets that dead letters were refused, if no input waits for it any more. It reports whether it did.
func (u *undeliverable) forget(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.prune(now)
	if !u.isRefused || len(u.inputs) > 0 || now.Sub(u.probedAt) < 2*maxDelay {
		return false
	}
	u.isRefused = false
	return true
}

func (u *undeliverable) areRefused() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.isRefused
}

// add adds an input and returns the delay of its redelivery; 0: there are too many.
func (u *undeliverable) add(a *answer, reason error, now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.inputs[postponedKeyOf(a.in)]
	if one == nil {
		if u.prune(now); len(u.inputs) >= maxUndeliverable {
			return 0
		}
		if u.inputs == nil {
			u.inputs = map[postponedKey]*postponed{}
		}
		one = &postponed{}
		u.inputs[postponedKeyOf(a.in)] = one
	}
	delay := redeliveryDelay(one.times)
	one.times++
	one.delivered, one.due, one.maxBody = a.in.Delivered, now.Add(delay), a.maxBody
	for _, o := range a.parts {
		if o.isStored || o.isDoubtful || o.attempt != 0 {
			if one.parts == nil {
				one.parts = map[string]*part{}
			}
			one.parts[o.id] = &part{isStored: o.isStored, isDoubtful: true, after: o.after}
		}
	}
	if !errors.Is(reason, errRefused) || u.reason == "" {
		u.reason = HeaderText(reason)
	}
	return delay
}

// restore marks the parts of an answer to a postponed input that are or may be stored. It reports whether the input was
// postponed, and whether this is the next delivery: then no other process has had it since.
func (u *undeliverable) restore(a *answer) (isPostponed, isNext bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.inputs[postponedKeyOf(a.in)]
	if one == nil {
		return false, false
	}
	for _, o := range a.parts {
		if before := one.parts[o.id]; before != nil {
			o.isStored, o.isDoubtful, o.after = before.isStored, before.isDoubtful, before.after
		}
	}
	return true, a.in.Delivered == one.delivered+1
}

// maxBody returns for how many bytes the output of an input was split when it was postponed; 0: it was not, or no part
// of it is or may be stored, so that it may be split for another limit.
func (u *undeliverable) maxBody(in *input) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one := u.inputs[postponedKeyOf(in)]; one != nil && len(one.parts) > 0 {
		return one.maxBody
	}
	return 0
}

func (u *undeliverable) has(in *input) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.inputs[postponedKeyOf(in)] != nil
}

func (u *undeliverable) remove(in *input) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.inputs, postponedKeyOf(in))
}

// prune removes the inputs that are long overdue, about once a second: they were delivered to another replica, or their
// stream is gone. The caller holds the lock.
func (u *undeliverable) prune(now time.Time) {
	if now.Sub(u.prunedAt) < time.Second {
		return
	}
	u.prunedAt = now
	for key, one := range u.inputs {
		if now.Sub(one.due) > 2*maxDelay {
			delete(u.inputs, key)
		}
	}
}

// status returns how many inputs are postponed, and why the last one is.
func (u *undeliverable) status(now time.Time) (n int, reason string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.prune(now)
	if n = len(u.inputs); n > 0 {
		reason = u.reason
	}
	return n, reason
}
