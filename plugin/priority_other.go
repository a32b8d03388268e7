//go:build !linux

package plugin

// lowPriority: only Linux has a priority for each thread.
func lowPriority() {}
