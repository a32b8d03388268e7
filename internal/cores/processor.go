//go:build darwin || freebsd || linux

package cores

import (
	"syscall"
	"time"
)

// ProcessorTime is the processor time of this process on all cores, 0 if the system does not report it.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
