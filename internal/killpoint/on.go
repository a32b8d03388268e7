//go:build killpoints

package killpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Variable names the environment variable: a place, and after a colon the time at which it counts, or after an @ the
// message.
const Variable = "EMBEDD_KILL_AT"

var (
	where, which, message = target()
	times                 atomic.Int64
)

func target() (Point, int64, uint64) {
	name, count, _ := strings.Cut(os.Getenv(Variable), ":")
	name, text, _ := strings.Cut(name, "@")
	message, _ := strconv.ParseUint(text, 10, 64)
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		n = 1
	}
	return Point(name), n, message
}

// Here ends the process if the environment names this point.
func Here(p Point) {
	if p == where && times.Add(1) == which {
		die()
	}
}

// At ends the process if the environment names this point and message.
func At(p Point, number uint64) {
	if p == where && number == message {
		die()
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
