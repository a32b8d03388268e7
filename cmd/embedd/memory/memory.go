// Package memory keeps the process within the memory that it may use: it sets the pace and the limit of the garbage
// collector, and measures what is free.
package memory

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// gcPercent is the default GC percent of the process. Most allocations of the hot path are messages, which become
// garbage as soon as they are answered: Go's default of 100 would run the collector many times a second.
const gcPercent = 400

// HoldRows sets the GC percent of a process whose heap is mostly the rows of a file, unless GOGC does: with Go's
// default of 100, garbage would take as much memory as they do. It is a fifth of many rows, and up to 64 MiB next to
// few.
func HoldRows(bytes int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(int(max(20, min(100, 100*minHeap/max(bytes, 1)))))
	}
}

// baseMemory is what the process needs in addition to the limits of its pipelines.
const baseMemory = 128 << 20

// Limit sets the GC percent and the memory limit of the process unless GOGC and GOMEMLIMIT do: the limit of a process
// whose pipelines hold nothing, until Follow. It returns the memory limit.
func Limit(c *config.Config) int64 {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(demandOf(c, 0, containerMemory()))
	}
	return debug.SetMemoryLimit(-1)
}

// step is the unit of the memory limit: it is constant while what the pipelines hold changes by less.
const step = 16 << 20

// Follow sets the memory limit for pipelines whose windows and late labels hold a number of bytes now, unless it is
// configured or GOMEMLIMIT sets it. If more is live than that explains, such as the matrices of a fit, the limit leaves
// a quarter of that for garbage, so that the collector does not run all the time. It returns the memory limit.
func Follow(c *config.Config, held int64) int64 {
	now := debug.SetMemoryLimit(-1)
	if os.Getenv("GOMEMLIMIT") != "" || c.Memory > 0 {
		return now
	}
	container := cachedContainerMemory()
	want := demandOf(c, held, container)
	live, _ := heapInUse()
	if least := int64(live) / 4 * 5; least > want {
		want = min((least+step-1)/step*step, demandOf(c, math.MaxInt64, container))
	}
	if want > now || want <= now-2*step {
		debug.SetMemoryLimit(want)
		return want
	}
	return now
}

// demandOf is the memory limit that follows from a configuration and from what windows and late labels hold, as far as
// they may, in a container with a memory limit.
func demandOf(c *config.Config, held, container int64) int64 {
	if c.Memory > 0 {
		return c.Memory
	}
	if held < math.MaxInt64-step {
		held = (held + step/2) / step * step
	}
	sum := int64(baseMemory)
	for _, p := range c.Pipelines {
		each := p.Limits.InFlight
		if p.Model.File == "" {
			each += 2 * min(held, p.Training.Window.Bytes) // a fit needs as much as the window
		}
		if p.Input.Labels != "" {
			each += min(held, p.Limits.Labels)
		}
		// A quarter more for garbage between two collections.
		sum = min(sum, math.MaxInt64/4) + min(each, math.MaxInt64/8)/4*5
	}
	return min(sum, container/10*9)
}

// Free is the memory that the process may still allocate: the available memory of the machine, and at most what its
// container and GOMEMLIMIT leave. 0 means unknown.
func Free() int64 {
	free := int64(math.MaxInt64)
	if limit, container := debug.SetMemoryLimit(-1), containerMemory(); min(limit, container) < math.MaxInt64 {
		runtime.GC() // so that garbage does not count as used
		used := processUse()
		free = max(1, min(limit-used, container-max(containerUse("/sys/fs/cgroup"), used)))
	}
	text, _ := os.ReadFile("/proc/meminfo") // exists on Linux only
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			if n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64); err == nil {
				free = min(free, n<<10)
			}
		}
	}
	if free == math.MaxInt64 {
		return 0
	}
	return free
}

// processUse is the memory that the process uses, as GOMEMLIMIT counts it, without free pages.
func processUse() int64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.Sys - s.HeapIdle)
}

// containerUse is the memory that the control group under root uses, without file cache that can be dropped; 0 if it is
// unknown.
func containerUse(root string) int64 {
	for _, v := range []struct{ current, stat, file string }{
		{"memory.current", "memory.stat", "inactive_file "},
		{"memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file "},
	} {
		held, ok := number(filepath.Join(root, v.current))
		if !ok {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join(root, v.stat))
		for line := range strings.Lines(string(stat)) {
			if text, ok := strings.CutPrefix(line, v.file); ok {
				dropped, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
				held -= dropped
			}
		}
		return max(0, held)
	}
	return 0
}

// number reads a file that contains one number.
func number(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// containerMemory is the memory limit of the control group of the process, math.MaxInt64 if there is none.
func containerMemory() int64 {
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if n, ok := number(path); ok && n > 0 && n < 1<<62 { // without a limit, version 1 has about 1<<63
			return n
		}
	}
	return math.MaxInt64
}

// cachedContainerMemory is containerMemory, read at most every ten seconds: read each second, it would be much of the
// work of an idle process.
var cachedContainerMemory = cached(10*time.Second, containerMemory)

// cached returns a function that calls read, or returns its last value if that is at most maxAge old.
func cached(maxAge time.Duration, read func() int64) func() int64 {
	var mu sync.Mutex
	var value int64
	var at time.Time
	return func() int64 {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) >= maxAge {
			value, at = read(), time.Now()
		}
		return value
	}
}

// minHeap is the least heap size at which the garbage collector runs.
const minHeap = 64 << 20

// minPercent is the least garbage between two collections, in percent of what is in use.
const minPercent = 12

// Heap keeps the heap size at which the garbage collector runs constant: 64 MiB, or a power of two times that. Go's
// goal is a multiple of what the last collection found in use, and most of that is messages in flight, now 2 MB and
// then 20. With a varying goal Go returns memory to the system and requests it again a moment later, and a page fault
// costs more than answering a row. While few bytes a second are allocated, as by idle pipelines, the goal is smaller,
// so that the garbage of a few seconds is collected.
type Heap struct {
	mu           sync.Mutex
	isControlled bool
	hasCleanup   bool // the next collection calls adjust
	goal         uint64
	percent      int       // current GC percent; 0: not kept
	at           time.Time // of the last adjustment
	allocated    uint64    // bytes until then
}

// openingPercent is the GC percent while pipelines are opened. Long-lived objects are allocated between short-lived
// ones then. If garbage accumulated, each heap page would retain a few live objects and could not be released.
const openingPercent = 20

// openingTime is how long pipelines still allocate such objects when they begin to run, if that is more than
// openingLive.
const (
	openingTime = 10 * time.Second
	openingLive = minHeap / 4
)

// CollectOften makes the garbage collector run often until Control is called. It does nothing if GOGC is set.
func (h *Heap) CollectOften() {
	if os.Getenv("GOGC") != "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.percent = openingPercent
	debug.SetGCPercent(openingPercent)
}

// Control controls the heap from now on, within the memory limit of the process, if it is kept. It is called every
// second: after a burst of allocations the next collection, which would lower the goal, may be minutes away.
func (h *Heap) Control() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.percent == 0 || h.isControlled && time.Since(h.at) < quietGarbage {
		return
	}
	if h.at.IsZero() {
		h.at = time.Now()
	}
	live, _ := heapInUse()
	h.isControlled = h.isControlled || live < openingLive || time.Since(h.at) >= openingTime
	if h.isControlled {
		h.adjust()
	}
}

// adjust sets the GC percent for the next collection. The cleanup of an unreachable object calls it again after that
// collection.
func (h *Heap) adjust() {
	live, scanned := heapInUse()
	h.goal = goalOf(h.goal, live, uint64(debug.SetMemoryLimit(-1)))
	now, allocated := time.Now(), allocatedBytes()
	quiet := quietGoal(live, allocated-h.allocated, now.Sub(h.at))
	h.at, h.allocated = now, allocated
	if percent := percentOf(live, scanned, min(h.goal, quiet)); percent != h.percent {
		h.percent = percent
		debug.SetGCPercent(percent)
	}
	if !h.hasCleanup {
		h.hasCleanup = true
		runtime.AddCleanup(new(*Heap), (*Heap).collected, h)
	}
}

// collected is called after a collection.
func (h *Heap) collected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hasCleanup = false; h.isControlled {
		h.adjust()
	}
}

// Reset returns the heap to its usual GC percent.
func (h *Heap) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.percent != 0 {
		debug.SetGCPercent(gcPercent)
	}
	h.percent, h.isControlled, h.at = 0, false, time.Time{}
}

// goalOf is the next heap size at which the collector runs. The size stays while it is 2.5 to 16 times what is in use;
// else it becomes the first that is at least four times that. A quarter of the limit is enough for a small heap.
func goalOf(goal, live, limit uint64) uint64 {
	least := max(min(minHeap, limit/4), 1)
	if goal >= least && 2*goal >= 5*live && (goal == least || goal <= 16*live) {
		return goal
	}
	for goal = least; goal < 4*live && goal < limit; goal *= 2 {
	}
	return min(goal, limit)
}

// quietGarbage is how long garbage may accumulate at a low allocation rate, and minGarbage its minimum size.
const (
	quietGarbage = 4 * time.Second
	minGarbage   = 4 << 20
)

// quietGoal is the heap size at which the collector runs if little is allocated: garbage is what is allocated in
// quietGarbage, given what was allocated in the time since the last collection, and at least an eighth of what is in
// use.
func quietGoal(live, allocated uint64, since time.Duration) uint64 {
	garbage := float64(allocated) / max(since.Seconds(), 1e-3) * quietGarbage.Seconds()
	return live + max(live/8, minGarbage, uint64(garbage))
}

// percentOf is the GC percent at which a heap with live bytes in use grows to a goal. The runtime takes it of what it
// scans: the heap in use, stacks and globals.
func percentOf(live, scanned, goal uint64) int {
	if scanned == 0 {
		return gcPercent
	}
	grows := goal - min(live, goal)
	return int(min(max((grows*100+scanned-1)/scanned, minPercent), math.MaxInt16))
}

// heapInUse is what the last collection found in use, and with it the stacks and globals that it scanned.
func heapInUse() (live, scanned uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(s)
	live = s[0].Value.Uint64()
	return live, live + s[1].Value.Uint64() + s[2].Value.Uint64()
}

// allocatedBytes is what the process has allocated.
func allocatedBytes() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
