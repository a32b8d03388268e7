//go:build !linux

package lease

// process and dead know nothing of other processes here: who died holds its lease until it ends.
func process() string { return "" }

func dead(_, _ *Claim) bool { return false }
