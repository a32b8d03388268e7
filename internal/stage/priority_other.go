//go:build !linux

package stage

// runAtLowPriority calls f: only Linux has priorities per thread.
func runAtLowPriority(f func()) { f() }
