//go:build darwin || freebsd || linux

package main

import "syscall"

// diskFree is the disk space that is available to an unprivileged process.
func diskFree(path string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, err
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil
}
