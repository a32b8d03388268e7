// Package cores measures how many processor cores are idle that this process may use, how much background work fits
// into them, and the processor time of this process.
package cores

import (
	"runtime"
	"sync"
	"time"
)

// Meter measures idle cores. The zero value is ready. Safe for concurrent use.
type Meter struct {
	mu    sync.Mutex
	last  sample
	share float64
}

// sample holds processor times since an arbitrary start.
type sample struct {
	at      time.Time
	machine time.Duration // in which the cores of the machine were idle
	process time.Duration // that this process used
	quota   float64       // how many cores its control groups let it use
}

// interval is the time between two samples: ten ticks of the kernel's accounting.
const interval = 100 * time.Millisecond

// reserved is how many cores background work leaves idle.
const reserved = 0.1

// Share returns how many cores the given number of background threads may use, so that a tenth of a core stays idle. It
// is at most one core per thread, and at most what the process may use: GOMAXPROCS, its cores and the CPU quota of its
// container. GOMAXPROCS alone is not enough: it is at least 2 with any quota, and a daemon raises it. Share changes
// once an interval, and is 0 if the idle time of the cores is unknown.
func (m *Meter) Share(threads int) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if now.Sub(m.last.at) < interval {
		return min(m.share, float64(threads))
	}
	next, ok := read(now)
	if !ok {
		m.share, m.last = 0, sample{at: now}
		return 0
	}
	limit := min(float64(min(runtime.GOMAXPROCS(0), runtime.NumCPU())), next.quota)
	m.share = nextShare(m.share, idle(m.last, next, limit), min(limit, float64(threads)))
	m.last = next
	return m.share
}

// nextShare returns the share after an interval in which this many cores were idle. Where none was, other work waited
// for a core, how much is unknown, and the share falls by a quarter. The result is at most most cores.
func nextShare(share, idle, most float64) float64 {
	share = min(share, most)
	if idle < reserved/2 {
		return share * 3 / 4
	}
	return max(0, min(most, share+idle-reserved))
}

// idle returns the idle cores between two samples of a process that may use up to limit cores. Without a first sample
// it returns 0.
func idle(from, to sample, limit float64) float64 {
	elapsed := to.at.Sub(from.at)
	if from.at.IsZero() || elapsed <= 0 {
		return 0
	}
	machine := float64(to.machine-from.machine) / float64(elapsed)
	unused := limit - float64(to.process-from.process)/float64(elapsed)
	return max(0, min(machine, unused))
}
