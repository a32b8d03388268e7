// Package parallel runs work on all cores, or on as many as a context allows. Every goroutine of model starts here, and
// the caller that starts goroutines waits for them. A panic in one of them, which would otherwise end the process, is
// returned to that caller as a *Panic.
package parallel
