package stage

import (
	"runtime"
	"syscall"
)

// niceness of the learning thread, in addition to that of the process. A transforming thread then gets half as much
// again of a core that both want. It is not larger, since garbage collection and holders of locks wait for this thread
// too: on a busy machine a thread of niceness 10 gets a core after 30 to 50 ms, one of niceness 2 after 8 ms, like one
// of 0. It is the pauses of learning that keep transforms fast.
const niceness = 2

// runAtLowPriority calls f on a separate thread of low priority, which ends with the call, and waits for it.
func runAtLowPriority(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			// Go cannot end the main thread, and its priority is what tools show for the process. While this goroutine
			// holds the main thread, the next one runs elsewhere.
			defer runtime.UnlockOSThread()
			runAtLowPriority(f)
			return
		}
		// Of this thread. The system call returns 20 minus the niceness. Learning works without it.
		if p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 20-p+niceness)
		}
		f()
	}()
	<-done
}
