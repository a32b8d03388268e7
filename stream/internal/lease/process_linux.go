package lease

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// processID identifies this process for others on the same machine, which can then see that it died: the boot ID, the
// PID namespace, the PID and the start time, since PIDs are reused. It is "" if these are unknown.
func processID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, errSpace := os.Readlink("/proc/self/ns/pid")
	began := beganAt(os.Getpid())
	if err != nil || errSpace != nil || began == "" {
		return ""
	}
	return fmt.Sprintf("%s %s %d %s", strings.TrimSpace(string(boot)), space, os.Getpid(), began)
}

// beganAt is when a process started, in clock ticks; "" if there is none with the PID.
func beganAt(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name, in parentheses, may hold anything; the fields behind it are counted from the state, the third.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	if fields[0] == "Z" {
		return "ended" // and its exit code was not collected yet
	}
	return fields[19]
}

// hasDied reports whether the holder of a claim is known to have died: it ran on this machine, and its process is gone.
func hasDied(claim, mine *Claim) bool {
	theirs, ours := strings.Fields(claim.Process), strings.Fields(mine.Process)
	if len(theirs) != 4 || len(ours) != 4 || theirs[0] != ours[0] || theirs[1] != ours[1] {
		return false
	}
	pid, err := strconv.Atoi(theirs[2])
	if err != nil || pid <= 0 {
		return false
	}
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	began := beganAt(pid)
	return began != "" && began != theirs[3]
}
