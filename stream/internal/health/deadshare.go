package health

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/embedd/embedd/arrowio/wire"
)

// The condition DeadLetterShare holds when more than nine tenths of the newest messages, at least minShared, were dead
// letters. It is cleared at eight tenths, so that one message more or less does not log it again.
const (
	shareOf   = 100
	minShared = 10
)

// DeadShare counts the dead letters among the newest messages, and sets the condition of that name. It does not change
// readiness: a publisher can cause it. A nil one counts nothing. Safe for concurrent use.
type DeadShare struct {
	pipeline   string
	conditions *Conditions
	log        *slog.Logger

	mu     sync.Mutex
	newest recent[wire.Code] // of the newest messages, "" for those that are not dead letters
	dead   int
}

// NewDeadShare returns a share of no messages yet.
func NewDeadShare(pipeline string, c *Conditions, log *slog.Logger) *DeadShare {
	return &DeadShare{pipeline: pipeline, conditions: c, log: log}
}

// Record counts a message: the code of its dead letter with the error, or "" if it is none.
func (d *DeadShare) Record(code wire.Code, text string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.newest.push(code, shareOf) != "" {
		d.dead--
	}
	if code != "" {
		d.dead++
	}
	switch n := len(d.newest.values); {
	case code != "" && n >= minShared && 10*d.dead > 9*n:
		reason := fmt.Sprintf("%d of the last %d messages cannot be answered, most of them %s; the last: %s; `embedd dlq ls "+
			"%s` lists the dead letters", d.dead, n, d.mostly(), text, d.pipeline)
		if d.conditions.Set(DeadLetterShare, reason) {
			d.log.Warn("nearly all messages are dead letters", "reason", reason)
		}
	case 10*d.dead <= 8*n && d.conditions.Clear(DeadLetterShare):
		d.log.Info("most messages are answered again")
	}
}

// mostly is the most frequent code of the newest messages. The caller holds the lock.
func (d *DeadShare) mostly() (most wire.Code) {
	counts := map[wire.Code]int{}
	for _, code := range d.newest.values {
		if code == "" {
			continue
		}
		if counts[code]++; counts[code] > counts[most] {
			most = code
		}
	}
	return most
}
