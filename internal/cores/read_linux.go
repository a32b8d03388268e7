package cores

import (
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

func read(now time.Time) (sample, bool) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return sample{}, false
	}
	stat, err := fs.Stat()
	var usage syscall.Rusage
	if err != nil || syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return sample{}, false
	}
	return sample{at: now, machine: time.Duration(stat.CPUTotal.Idle * float64(time.Second)),
		process: time.Duration(usage.Utime.Nano() + usage.Stime.Nano())}, true
}
