// Package parallel runs work on all cores, or on as many as a context allows. Every goroutine of the mathematics
// starts here, and whoever starts them waits for them. A panic on one of them,
// which would end the process where it happened, is a *Panic for the one who
// waits.
package parallel
