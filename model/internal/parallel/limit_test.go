package parallel

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestLimit: nested runs share the goroutines of their limit, and release them.
func TestLimit(t *testing.T) {
	cores(t, 8)
	for _, limit := range []int{1, 2, 3} {
		ctx := Limit(t.Context(), limit)
		for range 2 { // as many the second time
			before := Started()
			var running, most atomic.Int64
			err := Each(ctx, 6, func(int) {
				if err := Each(ctx, 6, func(int) {
					now := running.Add(1)
					for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
					}
					time.Sleep(time.Millisecond)
					running.Add(-1)
				}); err != nil {
					t.Error(err)
				}
			})
			if err != nil || most.Load() > int64(limit) {
				t.Errorf("a limit of %d: %d at a time, %v", limit, most.Load(), err)
			}
			if n := Started() - before; n < int64(limit)-1 || limit == 1 && n > 0 {
				t.Errorf("a limit of %d: %d goroutines were started", limit, n)
			}
		}
	}
}

// TestLimitInALimit: the inner one applies, and uses goroutines of the outer one.
func TestLimitInALimit(t *testing.T) {
	cores(t, 8)
	outer := Limit(t.Context(), 3)
	for workers, want := range map[int]int{0: 3, 1: 1, 2: 2, 3: 3, 8: 3} {
		if got := Workers(Limit(outer, workers)); got != want {
			t.Errorf("%d inside 3: %d, want %d", workers, got, want)
		}
	}
	inner := Limit(outer, 2)
	if got := budgetOf(outer).take(2); got != 2 {
		t.Fatalf("%d of 2 spare ones", got)
	}
	if got := budgetOf(inner).take(1); got != 0 {
		t.Errorf("%d of an inner limit whose outer one has none left", got)
	}
	budgetOf(outer).give()
	if got := budgetOf(inner).take(1); got != 1 {
		t.Errorf("%d of an inner limit whose outer one has one left", got)
	}
}

// TestTellingUnderALimitOfOne: with a limit of one the caller does everything.
func TestTellingUnderALimitOfOne(t *testing.T) {
	before := Started()
	var reported []int
	ctx := Limit(t.Context(), 1)
	err := EachProgress(ctx, 4, func(int) {}, func(done int) { reported = append(reported, done) })
	if err != nil || !slices.Equal(reported, []int{1, 2, 3, 4}) || Started() != before {
		t.Errorf("%v, %v, %d goroutines", reported, err, Started()-before)
	}
	ctx, stop := context.WithCancel(ctx)
	if err := EachProgress(ctx, 4, func(int) {}, func(int) { stop() }); err != context.Canceled {
		t.Errorf("%v after the end of the context", err)
	}
}

// TestWorkersForWork: few multiply-adds have one worker.
func TestWorkersForWork(t *testing.T) {
	cores(t, 4)
	for work, want := range map[float64]int{0: 1, 1 << 20: 1, 1<<20 + 1: 4} {
		if got := WorkersFor(t.Context(), work); got != want {
			t.Errorf("%g multiply-adds: %d workers, want %d", work, got, want)
		}
	}
	err := EachOn(t.Context(), 1, 1, func(int) { panic("mine") })
	if p, ok := err.(*Panic); !ok || p.Value() != "mine" || len(p.Stack()) == 0 ||
		p.Error() != "panicked: mine; please report it" {
		t.Errorf("%v", err)
	}
}
