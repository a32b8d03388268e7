package plugin

import (
	"runtime"
	"syscall"
)

// niceness of the thread that learns. A thread that answers has half as much again of a core that both want. It is not less:
// what stops all goroutines, as the collector does twice each time, waits for this thread too, and so does who wants a
// lock that it holds. On a machine that other programs keep busy it comes to a core late, of niceness 10 after 30 to 50 ms
// and of this after 8, as one of none. What keeps learning out of the way is its rests.
const niceness = 2

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
