// Package task calls functions at intervals and on demand, without goroutines between the calls, and waits for ticks
// that all goroutines share.
package task

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"
)

// Task calls a function at an interval, one call at a time. Between the calls it has no goroutine: those of hundreds of
// idle pipelines would take most of their memory.
type Task struct {
	do       func(context.Context)
	interval time.Duration
	ctx      context.Context
	cancel   context.CancelFunc

	mu        sync.Mutex
	timer     *time.Timer
	due       time.Time // of the next call
	ended     *sync.Cond
	isRunning bool
	isDue     bool // Now was called since the call that runs began
}

// Every calls a function an interval after each of its calls, first after one interval, until ctx is done or Stop. With
// interval 0 it is called after Now alone.
func Every(ctx context.Context, interval time.Duration, do func(context.Context)) *Task {
	t := &Task{do: do, interval: cmp.Or(interval, math.MaxInt64)}
	t.ctx, t.cancel = context.WithCancel(ctx)
	t.ended = sync.NewCond(&t.mu)
	t.mu.Lock()
	t.due = time.Now().Add(t.interval)
	t.timer = time.AfterFunc(t.interval, t.run)
	t.mu.Unlock()
	return t
}

// began is the moment from which all ticks are counted.
var began = time.Now()

// UntilTick returns the time until the next tick of an interval. The ticks of all goroutines coincide, so that an idle
// process wakes up once for all of them.
func UntilTick(interval time.Duration) time.Duration { return interval - time.Since(began)%interval }

// AtTick shortens a pause so that it ends at a tick of a second, unless it is shorter than two seconds.
func AtTick(pause time.Duration) time.Duration {
	if pause < 2*time.Second {
		return pause
	}
	first := UntilTick(time.Second)
	return first + (pause - first).Truncate(time.Second)
}

// AwaitTick waits for the next tick of an interval, and returns false if ctx ends first.
func AwaitTick(ctx context.Context, interval time.Duration) bool {
	select {
	case <-time.After(UntilTick(interval)):
		return true
	case <-ctx.Done():
		return false
	}
}

// Within has the function called after a time, unless a call is due earlier. The function may call it too.
func (t *Task) Within(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := time.Now().Add(d)
	if !due.Before(t.due) {
		return
	}
	if t.due = due; !t.isRunning && t.ctx.Err() == nil {
		t.timer.Reset(d)
	}
}

// Now has the function called at once, or again after the call that runs.
func (t *Task) Now() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isDue = true; !t.isRunning && t.ctx.Err() == nil {
		t.due = time.Now() // so that Within does not postpone it
		t.timer.Reset(0)
	}
}

// Stop ends the calls: it cancels the context of one that runs, and waits for it.
func (t *Task) Stop() {
	t.cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
	for t.isRunning {
		t.ended.Wait()
	}
}

func (t *Task) run() {
	t.mu.Lock()
	if t.isRunning { // Now was called just before that call began
		t.mu.Unlock()
		return
	}
	t.isRunning, t.isDue = true, true
	t.due = time.Now().Add(math.MaxInt64)
	for t.isDue && t.ctx.Err() == nil {
		t.isDue = false
		t.mu.Unlock()
		t.do(t.ctx)
		t.mu.Lock()
	}
	if t.isRunning = false; t.ctx.Err() == nil {
		if next := time.Now().Add(t.interval); next.Before(t.due) {
			t.due = next
		}
		t.timer.Reset(time.Until(t.due))
	}
	t.ended.Broadcast()
	t.mu.Unlock()
}
