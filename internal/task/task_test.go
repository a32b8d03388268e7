package task

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTask: calls follow each other, Now causes one after the call that runs, Stop waits for one, and none follows.
func TestTask(t *testing.T) {
	var running, calls atomic.Int64
	began, proceed := make(chan bool), make(chan bool)
	task := Every(t.Context(), 0, func(context.Context) {
		if running.Add(1) != 1 {
			t.Error("two calls run at the same time")
		}
		calls.Add(1)
		began <- true
		<-proceed
		running.Add(-1)
	})
	task.Now()
	<-began
	for range 3 {
		task.Now()
	}
	proceed <- true
	<-began
	stopped := make(chan bool)
	go func() {
		task.Stop()
		close(stopped)
	}()
	<-task.ctx.Done()
	task.Now()
	select {
	case <-stopped:
		t.Error("Stop has not waited for the call")
	default:
	}
	proceed <- true
	<-stopped
	if task.Now(); calls.Load() != 2 || task.timer.Reset(time.Hour) {
		t.Errorf("%d calls, and a timer after Stop", calls.Load())
	}
	task.timer.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	repeated := Every(ctx, time.Millisecond, func(context.Context) {
		if calls.Add(1) == 5 {
			cancel()
		}
	})
	<-ctx.Done()
	repeated.Stop()
	if n := calls.Load(); n != 5 {
		t.Errorf("%d calls, and the context ended with the third of the second task", n)
	}
}

// TestWithin: a call is moved to an earlier time, never to a later one, also by the function itself, and then the
// interval counts again.
func TestWithin(t *testing.T) {
	var calls atomic.Int64
	times := make(chan time.Time, 10)
	var task *Task
	task = Every(t.Context(), time.Hour, func(context.Context) {
		times <- time.Now()
		if calls.Add(1) == 1 {
			task.Within(time.Minute)
			task.Within(10 * time.Millisecond)
			task.Within(2 * time.Hour)
		}
	})
	begin := time.Now()
	task.Within(20 * time.Millisecond)
	task.Within(time.Minute)
	first, second := <-times, <-times
	if first.Sub(begin) < 20*time.Millisecond || second.Sub(first) < 10*time.Millisecond {
		t.Errorf("called after %v, and %v later", first.Sub(begin), second.Sub(first))
	}
	select {
	case <-times:
		t.Error("called before the interval")
	case <-time.After(100 * time.Millisecond):
	}
	task.Stop()
	if task.Within(0); task.timer.Reset(time.Hour) {
		t.Error("a timer after Stop")
	}
	task.timer.Stop()
}

// TestWithinAfterNow: Within does not postpone a call that Now has requested and that has not begun.
func TestWithinAfterNow(t *testing.T) {
	called := make(chan bool, 1000)
	task := Every(t.Context(), 0, func(context.Context) { called <- true })
	defer task.Stop()
	for range 100 {
		task.Now()
		task.Within(time.Hour)
		select {
		case <-called:
		case <-time.After(time.Minute):
			t.Fatal("it is not called at once")
		}
	}
}

// TestAwaitTick: goroutines that wait for ticks of different intervals wake up at the same moments.
func TestAwaitTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var second, half atomic.Pointer[time.Time]
		follow := func(interval time.Duration, last *atomic.Pointer[time.Time]) {
			time.Sleep(interval / 3)
			for AwaitTick(ctx, interval) {
				last.Store(new(time.Now()))
			}
		}
		go follow(time.Second, &second)
		go follow(time.Second/2, &half)
		time.Sleep(1300 * time.Millisecond) // both follow the ticks
		for range 3 {
			AwaitTick(ctx, time.Second)
			synctest.Wait()
			if now := time.Now(); !second.Load().Equal(now) || !half.Load().Equal(now) {
				t.Errorf("at %v the last ticks were at %v and %v", now, second.Load(), half.Load())
			}
		}
		if cancel(); AwaitTick(ctx, time.Hour) {
			t.Error("the context has ended, and there is a tick")
		}
	})
}

// TestAtTick: a long pause ends at the last tick of a second within it, and a short one is as long as requested.
func TestAtTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, pause := range []time.Duration{2 * time.Second, 10 * time.Second / 3, time.Hour} {
			time.Sleep(time.Second / 7)
			got := AtTick(pause)
			if time.Sleep(got); UntilTick(time.Second) != time.Second || !(got > pause-time.Second && got <= pause) {
				t.Errorf("%v becomes %v, and the next tick is %v later", pause, got, UntilTick(time.Second))
			}
			if got := AtTick(pause); got != pause.Truncate(time.Second) {
				t.Errorf("at a tick %v becomes %v", pause, got)
			}
		}
		if got := AtTick(1999 * time.Millisecond); got != 1999*time.Millisecond {
			t.Errorf("1.999 s become %v", got)
		}
	})
}
