package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestHeap: the heap is collected at no less than 64 MiB, however little was in use when it was collected before, and as
// it was once that ends.
func TestHeap(t *testing.T) {
	before := debug.SetGCPercent(garbage)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "")
	goal := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	h := keepHeap(1 << 30)
	for range 3 {
		runtime.GC()
		for end := time.Now().Add(time.Minute); goal() < leastHeap; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the heap is collected at %d bytes, want at least %d", goal(), leastHeap)
			}
		}
	}
	h.end()
	runtime.GC() // whoever looks after it changes nothing
	if got := debug.SetGCPercent(garbage); got != garbage {
		t.Errorf("%d percent after the end, want %d", got, garbage)
	}
	t.Setenv("GOGC", "50")
	h = keepHeap(1 << 30)
	runtime.GC()
	if h.end(); debug.SetGCPercent(garbage) != garbage {
		t.Error("the environment says how often garbage is collected, and it is collected otherwise")
	}
}

// TestPercentOf: what may be allocated makes up for what little is in use.
func TestPercentOf(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, least uint64
		want        int
	}{
		{0, 64 * mib, garbage},
		{2 * mib, 64 * mib, 3100},
		{10 * mib, 64 * mib, 540},
		{13 * mib, 64 * mib, garbage},
		{500 * mib, 64 * mib, garbage},
		{1, 64 * mib, 32767},
	} {
		if got := percentOf(c.live, c.least); got != c.want {
			t.Errorf("%d bytes in use: %d percent, want %d", c.live, got, c.want)
		}
	}
}
