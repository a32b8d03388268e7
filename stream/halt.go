package stream

import (
	"context"
	"fmt"
	"sync"
)

// halt watches how many messages are bad, and keeps the pipeline from answering more once there are too many.
type halt struct {
	stop Stop

	mu      sync.Mutex
	newest  []bool // a ring: which of the newest messages were bad
	at, bad int
	reason  string        // why nothing is answered; "" while it is
	resumed chan struct{} // closed when it goes on
}

// judge takes in what became of a message, and reports whether it was one too many.
func (h *halt) judge(bad bool, what string) bool {
	if h.stop.Bad == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.newest) < h.stop.Of {
		h.newest = append(h.newest, false)
		h.at = len(h.newest) - 1
	}
	if h.newest[h.at] {
		h.bad--
	}
	h.newest[h.at] = bad
	h.at = (h.at + 1) % h.stop.Of
	if bad {
		h.bad++
	}
	if h.reason != "" || !bad || h.bad < h.stop.Bad {
		return false
	}
	h.reason = fmt.Sprintf("%d of the newest %d messages were bad, the last: %s", h.bad, len(h.newest), what)
	h.resumed = make(chan struct{})
	return true
}

// resume goes on, and counts anew. It tells whether there was something to go on from.
func (h *halt) resume() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reason == "" {
		return false
	}
	close(h.resumed)
	h.reason, h.newest, h.at, h.bad = "", nil, 0, 0
	return true
}

// why says why nothing is answered, "" while it is.
func (h *halt) why() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason
}

// await waits while nothing may be answered; false where ctx is done first.
func (h *halt) await(ctx context.Context) bool {
	h.mu.Lock()
	on, halted := h.resumed, h.reason != ""
	h.mu.Unlock()
	if !halted {
		return true
	}
	select {
	case <-on:
		return true
	case <-ctx.Done():
		return false
	}
}

// judge halts the pipeline where this answer is one dead letter too many. A message is bad where none of its rows could
// be answered.
func (p *pipeline) judge(a *answer) {
	bad := len(a.letters) > 0 && a.rows.out+a.rows.pass+a.rows.skip == 0
	what := ""
	if bad {
		what = a.letters[0].Error
	}
	if p.halt.judge(bad, what) {
		p.metrics.halted.WithLabelValues(p.Name).Set(1)
		p.log.Error("halted: too many messages are bad", "reason", p.haltReason())
	}
}

// haltReason is the sentence of status and readiness, "" while the pipeline is not halted.
func (p *pipeline) haltReason() string {
	why := p.halt.why()
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s; nothing is answered and nothing is lost until `embedd resume %s` or a restart; `embedd dlq ls %s` lists them",
		why, p.Name, p.Name)
}

// unhalt lets a halted pipeline go on.
func (p *pipeline) unhalt() bool {
	if !p.halt.resume() {
		return false
	}
	p.metrics.halted.WithLabelValues(p.Name).Set(0)
	p.log.Info("resumed")
	return true
}
