package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestHeap: the heap is collected often until it is controlled, then not below 64 MiB while much is allocated, earlier
// while nothing is, and as before when that ends.
func TestHeap(t *testing.T) {
	before := debug.SetGCPercent(gcPercent)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "")
	await := func(what string, do func(), holds func(goal uint64) bool) {
		s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		for end := time.Now().Add(time.Minute); ; do() {
			if metrics.Read(s); holds(s[0].Value.Uint64()) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the heap is collected at %d bytes, want %s", s[0].Value.Uint64(), what)
			}
		}
	}
	var h Heap
	h.CollectOften()
	if got := debug.SetGCPercent(openingPercent); got != openingPercent {
		t.Errorf("%d percent at first, want %d", got, openingPercent)
	}
	h.Control()
	held, garbage := make([]byte, 8<<20), []byte(nil)
	await("64 MiB and more", func() { garbage = make([]byte, 1<<20) },
		func(goal uint64) bool { return goal >= minHeap })
	await("less than half of that without a collection", func() {
		h.mu.Lock()
		h.at = h.at.Add(-quietGarbage)
		h.mu.Unlock()
		h.Control()
	}, func(goal uint64) bool { return goal < minHeap/2 })
	runtime.KeepAlive(held)
	runtime.KeepAlive(garbage)
	h.Reset()
	runtime.GC() // a second call changes nothing
	if got := debug.SetGCPercent(gcPercent); got != gcPercent {
		t.Errorf("%d percent after the end, want %d", got, gcPercent)
	}
	t.Setenv("GOGC", "50")
	h.CollectOften()
	h.Control()
	runtime.GC()
	if h.Reset(); debug.SetGCPercent(gcPercent) != gcPercent {
		t.Error("the environment says the GC percent, and it is collected otherwise")
	}
}

// TestGoal: the goal stays while what is in use changes by less than about a factor of four, and is within the limit.
func TestGoal(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ goal, live, limit, want uint64 }{
		{0, 0, 1000, 64},
		{0, 2, 1000, 64},
		{64, 25, 1000, 64},
		{64, 26, 1000, 128},
		{128, 51, 1000, 128},
		{128, 9, 1000, 128}, // messages in flight are fewer for a moment
		{128, 7, 1000, 64},
		{64, 400, 1000, 1000},
		{1000, 60, 1000, 256},
		{0, 2, 80, 20}, // the limit is tight
		{20, 30, 80, 80},
	} {
		if got := goalOf(c.goal*mib, c.live*mib, c.limit*mib); got != c.want*mib {
			t.Errorf("%+v: the heap grows to %d MiB", c, got/mib)
		}
	}
	if got := goalOf(0, 4*mib, 3); got != 3 {
		t.Errorf("a limit of three bytes: %d", got)
	}
	goal := uint64(0)
	for live := range uint64(100) { // in flight are 8 to 24 MiB
		was := goal
		goal = goalOf(goal, 8*mib+live*37%16*mib, 1<<40)
		if live > 0 && goal != was {
			t.Errorf("the goal changes from %d to %d MiB", was/mib, goal/mib)
		}
	}
}

// TestQuietGoal: garbage is what is allocated in four seconds, and at least an eighth of what is in use.
func TestQuietGoal(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, allocated uint64
		since           time.Duration
		want            uint64
	}{
		{80, 180, 72 * time.Second, 90}, // hundreds of idle pipelines
		{70, 100, 5 * time.Second, 150},
		{70, 180, time.Second, 790},
		{2, 62, time.Hour, 6},
	} {
		if got := quietGoal(c.live*mib, c.allocated*mib, c.since); got != c.want*mib {
			t.Errorf("%+v: the heap grows to %d MiB", c, got/mib)
		}
	}
}

// TestPercentOf: the percentage leads to the goal, and leaves some garbage beyond it.
func TestPercentOf(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, scanned, goal uint64
		want                int
	}{
		{0, 0, 64 * mib, gcPercent},
		{2 * mib, 2 * mib, 64 * mib, 3100},
		{2 * mib, 4 * mib, 64 * mib, 1550},
		{10 * mib, 10 * mib, 64 * mib, 540},
		{60 * mib, 60 * mib, 64 * mib, minPercent},
		{80 * mib, 80 * mib, 64 * mib, minPercent},
		{1, 1, 64 * mib, 32767},
	} {
		if got := percentOf(c.live, c.scanned, c.goal); got != c.want {
			t.Errorf("%+v: %d percent", c, got)
		}
	}
}

// TestHoldRows: garbage is a fifth of many rows, as much as few rows, and what GOGC says where it is set.
func TestHoldRows(t *testing.T) {
	before := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "")
	const mib = 1 << 20
	for rows, want := range map[int64]int{0: 100, 10 * mib: 100, 128 * mib: 50, 4096 * mib: 20} {
		HoldRows(rows)
		if got := debug.SetGCPercent(77); got != want {
			t.Errorf("%d bytes of rows: %d percent, want %d", rows, got, want)
		}
	}
	t.Setenv("GOGC", "77")
	if HoldRows(4096 * mib); debug.SetGCPercent(77) != 77 {
		t.Error("GOGC is overridden")
	}
}
