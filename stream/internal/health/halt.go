package health

import (
	"context"
	"fmt"
	"sync"
)

// Halt stops a pipeline when too many of its newest messages are bad: Bad of the newest Of. With Bad 0 it never does.
// Safe for concurrent use.
type Halt struct {
	Bad, Of int

	mu      sync.Mutex
	newest  []bool // ring: which of the newest messages were bad
	at, bad int
	reason  string        // why the pipeline is halted; "" while it is not
	resumed chan struct{} // closed by Resume
}

// Record counts the result of a message. It reports whether this message halted the pipeline.
func (h *Halt) Record(isBad bool, reason string) bool {
	if h.Bad == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.newest) < h.Of {
		h.newest = append(h.newest, false)
		h.at = len(h.newest) - 1
	}
	if h.newest[h.at] {
		h.bad--
	}
	h.newest[h.at] = isBad
	h.at = (h.at + 1) % h.Of
	if isBad {
		h.bad++
	}
	if h.reason != "" || !isBad || h.bad < h.Bad {
		return false
	}
	h.reason = fmt.Sprintf("%d of the newest %d messages were bad, the last: %s", h.bad, len(h.newest), reason)
	h.resumed = make(chan struct{})
	return true
}

// Resume ends the halt and starts counting from zero. It reports whether the pipeline was halted.
func (h *Halt) Resume() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reason == "" {
		return false
	}
	close(h.resumed)
	h.reason, h.newest, h.at, h.bad = "", nil, 0, 0
	return true
}

// Reason returns why the pipeline is halted, "" while it is not.
func (h *Halt) Reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason
}

// Wait blocks while the pipeline is halted. It returns false when ctx is done first.
func (h *Halt) Wait(ctx context.Context) bool {
	h.mu.Lock()
	resumed, halted := h.resumed, h.reason != ""
	h.mu.Unlock()
	if !halted {
		return true
	}
	select {
	case <-resumed:
		return true
	case <-ctx.Done():
		return false
	}
}
