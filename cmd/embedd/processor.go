//go:build darwin || freebsd || linux

package main

import (
	"syscall"
	"time"
)

// processorTime is how long this process has had processors; 0 where the system does not say.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
