package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// leastHeap is how large the heap may grow before it is collected, however little is in use.
const leastHeap = 64 << 20

// heap keeps the size at which it is collected from falling below a least one. What is in use is for the most part the
// messages that are held just then, 2 to 20 MB. Where the size follows them Go gives memory back to the system after each
// collection that found few, and takes it anew a moment later: a page costs more than to answer a row.
type heap struct {
	least uint64

	mu      sync.Mutex
	percent int // that is set; 0: the heap is let be
}

// keepHeap begins with it, in a process that may take so much memory, where the environment does not say how often
// garbage is collected.
func keepHeap(memory int64) *heap {
	h := &heap{least: uint64(min(leastHeap, memory/4))}
	if os.Getenv("GOGC") == "" {
		h.percent = garbage
		h.look()
	}
	return h
}

// look sets how much may be allocated until the next collection, and looks again after that: what nobody holds is
// cleaned up then.
func (h *heap) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.percent == 0 {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := percentOf(live[0].Value.Uint64(), h.least); percent != h.percent {
		h.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(&struct{ at *heap }{}, (*heap).look, h)
}

// end lets the heap be as it would be without.
func (h *heap) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.percent != 0 {
		debug.SetGCPercent(garbage)
	}
	h.percent = 0
}

// percentOf is how much may be allocated beside so much in use, in hundredths of it.
func percentOf(live, least uint64) int {
	if live == 0 || live >= least {
		return garbage
	}
	return int(min(max(((least-live)*100+live-1)/live, garbage), math.MaxInt16))
}
