// Package cores measures how many processor cores are idle that this process may use.
package cores

import (
	"runtime"
	"sync"
	"time"
)

// Meter measures idle cores. The zero value is ready. Safe for concurrent use.
type Meter struct {
	mu   sync.Mutex
	last sample
	idle float64
}

// sample holds processor times since an arbitrary start.
type sample struct {
	at      time.Time
	machine time.Duration // in which the cores of the machine were idle
	process time.Duration // that this process used
}

// interval is the time between two samples: ten ticks of the kernel's accounting.
const interval = 100 * time.Millisecond

// Idle returns how many cores were idle over the last interval, within the process's limit, GOMAXPROCS, which follows
// the quota of a container. It is 0 where that is not known.
func (m *Meter) Idle() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if now.Sub(m.last.at) < interval {
		return m.idle
	}
	next, ok := read(now)
	if !ok {
		m.idle, m.last = 0, sample{at: now}
		return 0
	}
	m.idle = idle(m.last, next, runtime.GOMAXPROCS(0))
	m.last = next
	return m.idle
}

// idle returns the idle cores between two samples of a process that may use up to limit cores. Without a first sample
// it returns 0.
func idle(from, to sample, limit int) float64 {
	elapsed := to.at.Sub(from.at)
	if from.at.IsZero() || elapsed <= 0 {
		return 0
	}
	machine := float64(to.machine-from.machine) / float64(elapsed)
	unused := float64(limit) - float64(to.process-from.process)/float64(elapsed)
	return max(0, min(machine, unused))
}
