package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// garbage is how much may be allocated before it is collected, in hundredths of what is in use. Most of what the hot
// path allocates is the messages themselves, which are garbage as soon as they are answered: Go's 100 would collect many
// times a second, each time at the cost of answers.
const garbage = 400

// beside is what the process takes beside what its pipelines' limits count.
const beside = 128 << 20

// paceGarbage sets how often garbage is collected and how much memory the process may take, where the environment does
// not say so, and returns the latter.
func paceGarbage(c *config.Config) int64 {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryOf(c, containerMemory()))
	}
	return debug.SetMemoryLimit(-1)
}

// memoryOf is the memory that a configuration asks for, in a container that allows so much.
func memoryOf(c *config.Config, container int64) int64 {
	if c.Memory > 0 {
		return c.Memory
	}
	sum := int64(beside)
	for _, p := range c.Pipelines {
		each := p.Limits.InFlight
		if p.Model.File == "" {
			each += 2 * p.Training.Window.Bytes // a fit takes as much as the window beside it
		}
		if p.Input.Labels != "" {
			each += p.Limits.Labels
		}
		// A quarter more: what is in use, and some garbage between two collections.
		sum = min(sum, math.MaxInt64/4) + min(each, math.MaxInt64/8)/4*5
	}
	return min(sum, container/10*9)
}

// freeMemory is what a command may take beside what it holds: what the machine has left, as far as it says so, and no more
// than its container or GOMEMLIMIT leaves. At 0 nothing is known.
func freeMemory() int64 {
	free := int64(math.MaxInt64)
	left := func(limit, held int64) {
		if limit < math.MaxInt64 {
			free = min(free, max(1, limit-held))
		}
	}
	runtime.GC() // what reading left behind is no longer held
	left(debug.SetMemoryLimit(-1), processHolds())
	left(containerMemory(), max(containerHolds("/sys/fs/cgroup"), processHolds()))
	text, _ := os.ReadFile("/proc/meminfo") // Linux alone has it
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

// processHolds is the memory of the process that is in use, as GOMEMLIMIT counts it but for pages that are free again.
func processHolds() int64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.Sys - s.HeapIdle)
}

// containerHolds is what the control group under root has in use, without what it keeps of files and can drop at once; 0
// where it does not say.
func containerHolds(root string) int64 {
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

// number is what a file says, where that is one number.
func number(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// containerMemory is the memory that the control group of the process allows, the largest number where it allows all or
// there is none.
func containerMemory() int64 {
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if n, ok := number(path); ok && n > 0 {
			return n
		}
	}
	return math.MaxInt64
}
