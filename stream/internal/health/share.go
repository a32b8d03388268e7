package health

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/embedd/embedd/arrowio/wire"
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

// The condition DeadLetterShare holds when more than nine tenths of the newest messages, at least minShared, were dead
// letters. It is cleared at eight tenths, so that one message more or less does not log it again.
const (
	shareOf   = 100
	minShared = 10
)

// DeadShare counts the dead letters among the newest messages, and sets the condition of that name. It does not change
// readiness: a publisher can cause it. A nil one counts nothing. Safe for concurrent use.
type DeadShare struct {
	Pipeline   string
	Conditions *Conditions
	Log        *slog.Logger

	mu     sync.Mutex
	newest recent
}

// Record counts a message: the code of its dead letter with the error, or "" if it is none.
func (d *DeadShare) Record(code wire.Code, text string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	reason, changed := d.record(code, text)
	d.mu.Unlock()
	switch {
	case !changed:
	case reason != "":
		d.Log.Warn("nearly all messages are dead letters", "reason", reason)
	default:
		d.Log.Info("most messages are answered again")
	}
}

// record sets or clears the condition. It returns the reason, "" if it clears it, and whether the condition changed.
// The caller holds the lock.
func (d *DeadShare) record(code wire.Code, text string) (reason string, changed bool) {
	d.newest.push(code != "", shareOf)
	switch dead, n := d.newest.bad, len(d.newest.isBad); {
	case code != "" && n >= minShared && 10*dead > 9*n:
		reason = fmt.Sprintf("%d of the last %d messages cannot be answered; the last, %s: %s; `embedd dlq ls %s` lists "+
			"the dead letters", dead, n, code, text, d.Pipeline)
		return reason, d.Conditions.Set(DeadLetterShare, reason)
	case 10*dead <= 8*n:
		return "", d.Conditions.Clear(DeadLetterShare)
	}
	return "", false
}

// recent are the newest messages, up to a limit, and how many of them were bad.
type recent struct {
	isBad   []bool // ring
	at, bad int    // of the newest; number of true values
}

// push adds a message in place of the oldest one.
func (r *recent) push(isBad bool, limit int) {
	if len(r.isBad) < limit {
		r.isBad = append(r.isBad, false)
	}
	if r.at = (r.at + 1) % len(r.isBad); r.isBad[r.at] {
		r.bad--
	}
	if r.isBad[r.at] = isBad; isBad {
		r.bad++
	}
}
