package memory

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// minHeap is the heap size below which the garbage collector does not run.
const minHeap = 64 << 20

// Heap keeps the heap size at which the garbage collector runs above a minimum. Most of the live heap is messages in
// flight, 2 to 20 MB. Without a minimum, Go would return memory to the system after each collection that found few of
// them and request it again a moment later; a page fault costs more than answering a row.
type Heap struct {
	min uint64

	mu      sync.Mutex
	percent int // current GC percent; 0: not controlled
}

// KeepHeap starts to control the heap of a process that may use limit bytes. It does nothing if GOGC is set.
func KeepHeap(limit int64) *Heap {
	h := &Heap{min: uint64(min(minHeap, limit/4))}
	if os.Getenv("GOGC") == "" {
		h.percent = gcPercent
		h.adjust()
	}
	return h
}

// adjust sets the GC percent for the next collection. The cleanup of an unreachable object calls it again after that
// collection.
func (h *Heap) adjust() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.percent == 0 {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := percentOf(live[0].Value.Uint64(), h.min); percent != h.percent {
		h.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(&struct{ at *Heap }{}, (*Heap).adjust, h)
}

// End returns the heap to its usual GC percent.
func (h *Heap) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.percent != 0 {
		debug.SetGCPercent(gcPercent)
	}
	h.percent = 0
}

// percentOf is the GC percent at which a heap with live bytes in use grows to least bytes.
func percentOf(live, least uint64) int {
	if live == 0 || live >= least {
		return gcPercent
	}
	return int(min(max(((least-live)*100+live-1)/live, gcPercent), math.MaxInt16))
}
