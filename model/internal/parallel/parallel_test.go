package parallel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// cores sets GOMAXPROCS for a test.
func cores(t *testing.T, n int) {
	t.Helper()
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func TestEachCallsEveryIndexOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		cores(t, workers)
		for _, n := range []int{0, 1, 2, 100} {
			calls := make([]atomic.Int32, n)
			if err := Each(t.Context(), n, func(i int) { calls[i].Add(1) }); err != nil {
				t.Fatal(err)
			}
			for i := range calls {
				if calls[i].Load() != 1 {
					t.Errorf("%d workers, n=%d: index %d was called %d times", workers, n, i, calls[i].Load())
				}
			}
		}
	}
}

func TestOneWorkerGoesInOrder(t *testing.T) {
	var got []int
	if err := EachOn(t.Context(), 1, 5, func(i int) { got = append(got, i) }); err != nil ||
		!slices.Equal(got, []int{0, 1, 2, 3, 4}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestPanicIsAnError of the caller, from the caller's goroutine and from another; work that has begun ends, the rest is
// not done.
func TestPanicIsAnError(t *testing.T) {
	const n = 1 << 20 // more than the other workers do while the panic is recovered
	for _, workers := range []int{1, 2, 7} {
		cores(t, workers)
		var running, calls atomic.Int32
		err := Each(t.Context(), n, func(i int) {
			running.Add(1)
			defer running.Add(-1)
			calls.Add(1)
			if i == 7 {
				panic("row 7")
			}
			time.Sleep(time.Microsecond)
		})
		var p *Panic
		if !errors.As(err, &p) || p.value != "row 7" || !strings.Contains(err.Error(), "row 7") {
			t.Fatalf("%d workers: %v", workers, err)
		}
		if !bytes.Contains(p.stack, []byte("TestPanicIsAnError")) {
			t.Errorf("%d workers: the stack does not show where it was:\n%s", workers, p.stack)
		}
		if running.Load() != 0 || calls.Load() == n {
			t.Errorf("%d workers: %d still run, %d were called", workers, running.Load(), calls.Load())
		}
	}
}

func TestEndOfContextStops(t *testing.T) {
	cores(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int32
	err := Each(ctx, 1000, func(i int) {
		if calls.Add(1) >= 10 { // the other worker may be ahead of the one that cancels first
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || calls.Load() > 11 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}

// TestToldByTheCaller: the callback runs on the caller's goroutine, counts up, and may panic.
func TestToldByTheCaller(t *testing.T) {
	cores(t, 3)
	var counts []int // no lock: the race detector would see another goroutine
	if err := EachProgress(t.Context(), 5, func(int) {}, func(done int) { counts = append(counts, done) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(counts, []int{1, 2, 3, 4, 5}) {
		t.Errorf("reported %v", counts)
	}
	var p *Panic
	var running atomic.Int32
	err := EachProgress(t.Context(), 1000, func(i int) {
		running.Add(1)
		defer running.Add(-1)
		time.Sleep(10 * time.Microsecond)
	}, func(done int) { panic(fmt.Sprint("reported ", done)) })
	if !errors.As(err, &p) || p.value != "reported 1" || running.Load() != 0 {
		t.Errorf("%v, %d still run", err, running.Load())
	}
	if err = EachProgress(t.Context(), 5, func(i int) { panic(i) }, func(int) {}); !errors.As(err, &p) {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err = EachProgress(ended, 5, func(int) {}, func(int) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestPoolRunsAgain: after a panic it runs, and allocates nothing.
func TestPoolRunsAgain(t *testing.T) {
	cores(t, 3)
	var sum atomic.Int64
	bad := true
	pool := NewPool(func(p *Pool) {
		for from, to, ok := p.Next(); ok; from, to, ok = p.Next() {
			if bad && from >= 20 {
				panic("bad")
			}
			for i := from; i < to; i++ {
				sum.Add(int64(i))
			}
		}
	})
	var p *Panic
	if err := pool.Run(t.Context(), 3, 100, 8); !errors.As(err, &p) {
		t.Fatalf("%v", err)
	}
	bad = false
	sum.Store(0)
	if err := pool.Run(t.Context(), 3, 100, 8); err != nil || sum.Load() != 99*100/2 {
		t.Fatalf("%v, sum %d", err, sum.Load())
	}
	ctx := context.Background()
	// The scheduler may need a fresh goroutine now and then.
	if allocs := testing.AllocsPerRun(200, func() { _ = pool.Run(ctx, 3, 100, 8) }); !(allocs < 1) {
		t.Errorf("%g allocations a run", allocs)
	}
}

func TestRecoverNamesTheFunction(t *testing.T) {
	broken := func(v any) (err error) {
		defer Recover(&err, "lda")
		panic(v)
	}
	if err := broken("why"); err == nil || err.Error() != "lda: panicked: why; please report it" {
		t.Errorf("%v", err)
	}
	// A panic that continues keeps its first stack.
	first := &Panic{value: 1, stack: []byte("there")}
	var p *Panic
	if err := broken(first); !errors.As(err, &p) || p != first {
		t.Errorf("%v", err)
	}
}
