package main

import (
	"math"
	"os"
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

// freeMemory is what a command may take: what the machine has left, as far as it says so, and no more than its container
// or GOMEMLIMIT allows. At 0 nothing is known.
func freeMemory() int64 {
	free := min(containerMemory(), debug.SetMemoryLimit(-1))
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

// containerMemory is the memory that the control group of the process allows, the largest number where it allows all or
// there is none.
func containerMemory() int64 {
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
			return n
		}
	}
	return math.MaxInt64
}
