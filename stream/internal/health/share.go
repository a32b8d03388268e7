package health

import (
	"fmt"
	"sync"
)

// Halt stops a pipeline when too many of its newest messages are bad: Bad of the newest Of. With Bad 0 it never does.
// Safe for concurrent use.
type Halt struct {
	Bad, Of int

	mu     sync.Mutex
	newest recent
	reason string // why the pipeline is halted; "" while it is not
}

// Record counts the result of a message. It reports whether this message halted the pipeline.
func (h *Halt) Record(isBad bool, reason string) bool {
	if h.Bad == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest.push(isBad, h.Of)
	if h.reason != "" || !isBad || h.newest.bad < h.Bad {
		return false
	}
	h.reason = fmt.Sprintf("%d of the newest %d messages were bad, the last: %s", h.newest.bad, len(h.newest.isBad),
		reason)
	return true
}

// Resume ends the halt and starts counting from zero. It reports whether the pipeline was halted.
func (h *Halt) Resume() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reason == "" {
		return false
	}
	h.reason, h.newest = "", recent{}
	return true
}

// Reason returns why the pipeline is halted, "" while it is not.
func (h *Halt) Reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason
}
