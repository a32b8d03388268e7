//go:build darwin || freebsd || linux

package main

import "syscall"

// diskFree is what an unprivileged process may still write on the disk of a path.
func diskFree(path string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, err
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil
}
