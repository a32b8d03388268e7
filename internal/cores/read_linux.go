package cores

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/procfs"
)

func read(now time.Time) (sample, bool) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return sample{}, false
	}
	stat, err := fs.Stat()
	if err != nil {
		return sample{}, false
	}
	limit := math.Inf(1)
	if self, err := fs.Self(); err == nil {
		groups, _ := self.Cgroups() // without them there is no quota
		limit = quota("/sys/fs/cgroup", groups)
	}
	return sample{at: now, machine: time.Duration(stat.CPUTotal.Idle * float64(time.Second)),
		process: ProcessorTime(), quota: limit}, true
}

// quota returns how many cores the control groups of a process and those above them let it use; +Inf if any number.
// A container may see its own group as root, and not those above it.
func quota(root string, groups []procfs.Cgroup) float64 {
	least := math.Inf(1)
	for _, g := range groups {
		dir := root
		if slices.Contains(g.Controllers, "cpu") { // of version 1
			dir = filepath.Join(root, "cpu")
		} else if g.HierarchyID != 0 {
			continue
		}
		for path := filepath.Join("/", g.Path); ; path = filepath.Dir(path) {
			least = min(least, quotaOf(filepath.Join(dir, path)))
			if path == "/" {
				break
			}
		}
	}
	return least
}

func quotaOf(dir string) float64 {
	text, err := os.ReadFile(filepath.Join(dir, "cpu.max"))
	if err != nil {
		quota, _ := os.ReadFile(filepath.Join(dir, "cpu.cfs_quota_us"))
		period, _ := os.ReadFile(filepath.Join(dir, "cpu.cfs_period_us"))
		text = slices.Concat(quota, period)
	}
	var quota, period float64
	if _, err := fmt.Sscan(string(text), &quota, &period); err != nil || quota <= 0 || period <= 0 {
		return math.Inf(1) // no file, or no quota: max, -1
	}
	return quota / period
}
