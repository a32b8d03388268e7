package plugin

import (
	"runtime"
	"syscall"
)

// niceness of the thread that learns. A thread that answers has nine times its share of a core that both want; at the
// least priority, 19, learning would all but end on a machine that is never idle.
const niceness = 10

// lowPriority lets the goroutine that calls it run on a thread of low priority, which ends with it.
func lowPriority() {
	runtime.LockOSThread()
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), niceness) // who may not, learns all the same
}
