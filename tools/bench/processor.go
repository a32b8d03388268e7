//go:build darwin || freebsd || linux

package bench

import (
	"syscall"
	"time"
)

// processorTime is the processor time of this process, 0 if the system does not report it.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
