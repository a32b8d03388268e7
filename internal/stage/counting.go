package stage

import (
	"context"
	"fmt"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/plugin/spec"
)

// counting is the state of a learner whose contract is not known, or whose kept messages are not learned yet. Messages
// are kept in wire form: once the contract is known they are decoded under it, so that what is learned does not depend
// on when it became known.
type counting struct {
	candidates candidates
	remote     map[string][]contractCandidate // what the stages of other streams counted, by stream
	intake     intake                         // of messages that are read again, in blocks
	kept       []keptMessage
	rows       int       // of kept that can be learned from
	due        bool      // the worker is to fix the contract
	retryAt    time.Time // after the contract could not be stored
}

// leader is the leading candidate, nil if there is none or nothing is counted.
func (c *counting) leader() *contractCandidate {
	if c == nil {
		return nil
	}
	return c.candidates.leader()
}

type keptMessage struct {
	at   spec.Position
	data []byte
	rows int // that can be learned from
}

// storeRetry is the time between two attempts to store a contract.
const storeRetry = time.Second

// count counts a message that arrived before the contract is known, and keeps it. The caller holds the lock.
func (l *learner) count(m *arrowio.Message, at spec.Position) {
	c, known := l.counting, l.stage.Contract() != nil
	u := l.usable(m)
	in := &l.intake
	if l.config.Training.Block > 0 {
		in = &c.intake
	}
	in.count(m, l.config, u.rows)
	proposed := m.Contract()
	if u.rows+u.unlabelled == 0 || proposed == nil {
		return
	}
	if !known {
		c.candidates.add(proposed, rowPosition(at, 0), at.Time, u, l.config.Classes)
	}
	if l.config.Training.Block == 0 { // blocks are read again
		l.keep(m, at, u.rows+u.unlabelled)
	}
	if known || l.isContractDue(at.Time) {
		l.wakeForContract()
	}
}

// keep copies a message. The caller holds the lock.
func (l *learner) keep(m *arrowio.Message, at spec.Position, rows int) {
	c := l.counting
	if len(c.kept) > 0 && l.bytes > trainer.QueueBytes(l.config.Training.Window.Bytes) {
		l.drop(rows)
		return
	}
	all := make([][]int, len(m.Batches()))
	for k, b := range m.Batches() {
		for i := range b.Rows() {
			all[k] = append(all[k], i)
		}
	}
	data, err := l.copies.Rejected(m, all, nil) // which writes rows with the schema that they came with
	if err != nil {
		l.config.Logger.Warn("a message could not be kept until the schema is known; it is not learned", "seq", at.Seq,
			"error", err)
		l.dropped += rows
		return
	}
	c.kept = append(c.kept, keptMessage{at, data, rows})
	c.rows += rows
	l.bytes += int64(len(data))
}

// usable counts the rows of a message that can be learned from.
func (l *learner) usable(m *arrowio.Message) (u usableRows) {
	for _, b := range m.Batches() {
		faults := b.Faults()
		for k := range b.Rows() {
			if faulty := len(faults) > 0 && faults[0].Row == k; faulty {
				faults = faults[1:]
				if l.config.Nulls != spec.NullsImpute {
					continue
				}
			}
			label, ok := "", l.config.Spec.Label == ""
			if !ok {
				if label, ok = b.Label(k); ok {
					u.labels = append(u.labels, label)
				}
			}
			switch {
			case ok || l.late != nil:
				u.rows++
			case l.config.Until == spec.UntilPCA:
				u.unlabelled++
			}
		}
	}
	return u
}

// isContractDue reports whether the leading candidate alone has the rows of a first model, or the memory for kept
// messages is used up. The caller holds the lock.
func (l *learner) isContractDue(now time.Time) bool {
	c := l.counting
	leader := c.candidates.leader()
	if leader == nil || l.config.Clock().Before(c.retryAt) {
		return false
	}
	need := trainer.FirstRows(l.config, leader.contract.Len())
	if leader.newest.After(now) {
		now = leader.newest
	}
	period := l.config.Training.Every.Period
	return leader.rows >= need || leader.unlabelled >= need ||
		period > 0 && now.Sub(leader.since) >= period && l.isTrainable(leader) ||
		l.bytes > trainer.QueueBytes(l.config.Training.Window.Bytes)
}

// isTrainable reports whether any model could be fitted on the rows of a candidate.
func (l *learner) isTrainable(c *contractCandidate) bool {
	switch {
	case l.config.Spec.Label == "":
		return c.rows >= 2
	case l.late != nil || c.classes == nil: // labels may come, or are of other streams
		return c.rows >= 4
	}
	return c.hasTwoClasses()
}

// wakeForContract makes the worker fix the contract, or learn the kept messages if it is known. The caller holds the
// lock.
func (l *learner) wakeForContract() {
	l.counting.due = true
	l.signal()
}

// contractKnown makes the worker learn the kept messages.
func (l *learner) contractKnown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counting != nil {
		l.wakeForContract()
	}
}

// isCountingDue reports whether the worker has to end counting, or to try.
func (l *learner) isCountingDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counting != nil && l.counting.due
}

// endCounting stores the contract of the leading candidate if none is known, and learns the kept messages that fit the
// contract, in their order.
func (l *learner) endCounting(ctx context.Context) {
	l.mu.Lock()
	l.counting.due = false
	var leader contractCandidate // a copy: messages are counted until the contract is known
	if best := l.counting.candidates.leader(); best != nil {
		leader = *best
	}
	l.mu.Unlock()
	if l.stage.Contract() == nil {
		contract, err := leader.contract, error(nil)
		if l.config.StoreContract != nil {
			contract, err = l.config.StoreContract(ctx, contract)
		}
		if err == nil && contract == nil {
			err = fmt.Errorf("the store returned no schema")
		}
		if err != nil {
			if ctx.Err() == nil {
				l.config.Logger.Warn("the schema could not be stored; trying again", "error", err)
			}
			l.mu.Lock()
			l.counting.retryAt = l.config.Clock().Add(storeRetry)
			l.mu.Unlock()
			return
		}
		if l.stage.setContract(contract) {
			l.config.Logger.Info("the schema is fixed", "schema", contract.String(), "messages", leader.messages,
				"rows", leader.rows+leader.unlabelled)
		}
	}
	for ctx.Err() == nil {
		e, more := l.takeKept()
		if !more {
			return
		}
		if e != nil {
			l.handle(ctx, e)
			l.publishStatus()
		}
	}
}

// takeKept returns the next kept message as an event, nil if it does not fit the contract or nothing is learned from
// it. Counting ends with the last one.
func (l *learner) takeKept() (e *trainer.Event, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counting
	if len(c.kept) == 0 {
		l.counting, l.copies = nil, nil
		return nil, false
	}
	next := c.kept[0]
	c.kept[0] = keptMessage{}
	c.kept = c.kept[1:]
	c.rows -= next.rows
	l.bytes -= int64(len(next.data))
	m, err := l.stage.Decode(next.data)
	if err != nil {
		l.unfit++
		return nil, true
	}
	if e = l.eventOf(m, next.at); len(e.Rows)+len(e.Unlabelled)+len(e.Fixes) == 0 {
		return nil, true
	}
	return e, true
}
