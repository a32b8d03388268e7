package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestHeap: the heap is not collected below 64 MiB, however small it was at the last collection, and is collected as
// before when that ends.
func TestHeap(t *testing.T) {
	before := debug.SetGCPercent(gcPercent)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "")
	goal := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	h := KeepHeap(1 << 30)
	for range 3 {
		runtime.GC()
		for end := time.Now().Add(time.Minute); goal() < minHeap; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the heap is collected at %d bytes, want at least %d", goal(), minHeap)
			}
		}
	}
	h.End()
	runtime.GC() // a second call changes nothing
	if got := debug.SetGCPercent(gcPercent); got != gcPercent {
		t.Errorf("%d percent after the end, want %d", got, gcPercent)
	}
	t.Setenv("GOGC", "50")
	h = KeepHeap(1 << 30)
	runtime.GC()
	if h.End(); debug.SetGCPercent(gcPercent) != gcPercent {
		t.Error("the environment says the GC percent, and it is collected otherwise")
	}
}

// TestPercentOf: a small live heap gets a larger percentage.
func TestPercentOf(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, least uint64
		want        int
	}{
		{0, 64 * mib, gcPercent},
		{2 * mib, 64 * mib, 3100},
		{10 * mib, 64 * mib, 540},
		{13 * mib, 64 * mib, gcPercent},
		{500 * mib, 64 * mib, gcPercent},
		{1, 64 * mib, 32767},
	} {
		if got := percentOf(c.live, c.least); got != c.want {
			t.Errorf("%d bytes in use: %d percent, want %d", c.live, got, c.want)
		}
	}
}
