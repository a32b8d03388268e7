//go:build !linux

package plugin

// aside calls do: only Linux has a priority for each thread.
func aside(do func()) { do() }
