package plugin

import (
	"runtime"
	"syscall"
)

// niceness of the thread that learns. A thread that answers has nine times its share of a core that both want; at the
// least priority, 19, learning would all but end on a machine that is never idle.
const niceness = 10

// aside calls do on a thread of low priority of its own, which ends with the call, and waits for it.
func aside(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			// Go parks the main thread for ever where it would end another one, and its priority is what tools show for
			// the process. While this goroutine holds it, the next one runs elsewhere.
			defer runtime.UnlockOSThread()
			aside(do)
			return
		}
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), niceness) // who may not, learns all the same
		do()
	}()
	<-done
}
