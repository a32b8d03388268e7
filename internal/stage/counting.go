package stage

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/plugin/spec"
)

const (
	// maxCandidates bounds the contracts that are counted; messages of further ones are counted together.
	maxCandidates = 64
	// maxReported is how many candidates a status lists.
	maxReported = 8
	// maxRemote bounds the contracts that are sent to another stage, in bytes, but for the leader's.
	maxRemote = 256 << 10
)

// contractCounts counts the messages that can be learned from, by the contract that they propose. The order of columns
// and the classes of numbers make no other candidate. The candidate with the most messages leads, of equal ones the one
// with the first message in the stream. The count does not depend on the order of messages, up to maxCandidates.
type contractCounts struct {
	byID  map[string]*contractCandidate
	other int // messages of further candidates
}

// contractCandidate is one contract with its counts.
type contractCandidate struct {
	contract   *arrowio.Contract // proposed by the first message
	first      window.Position   // of its messages
	messages   int
	rows       int            // that can be learned from
	unlabelled int            // further rows, for a bootstrap model
	classes    map[string]int // rows by label, of at most as many labels as the window has room for
	since      time.Time      // of its first message
	newest     time.Time      // of its newest message
}

// usableRows are the rows of a message that can be learned from.
type usableRows struct {
	rows       int
	unlabelled int
	labels     []string // of the rows that have one
}

// add counts a message.
func (c *contractCounts) add(contract *arrowio.Contract, at window.Position, t time.Time, u usableRows,
	maxClasses int) {
	c.merge(contractCandidate{contract: contract, first: at, messages: 1, rows: u.rows, unlabelled: u.unlabelled,
		since: t, newest: t})
	one := c.byID[contract.ID()]
	if one == nil {
		return
	}
	if one.classes == nil {
		one.classes = map[string]int{}
	}
	for _, label := range u.labels {
		if _, known := one.classes[label]; known || len(one.classes) < maxClasses {
			one.classes[label]++
		}
	}
}

// compare orders candidates, the leader first.
func compare(a, b *contractCandidate) int {
	return cmp.Or(cmp.Compare(b.messages, a.messages), a.first.Compare(b.first))
}

// leader is the candidate that leads, nil before the first.
func (c *contractCounts) leader() (best *contractCandidate) {
	for _, one := range c.byID {
		if best == nil || compare(one, best) < 0 {
			best = one
		}
	}
	return best
}

// hint warns that messages have different schemas, if over a tenth of them do not have the leading one; else "".
func (c *contractCounts) hint() string {
	all, leader := c.total(), c.leader()
	if leader == nil || 10*(all-leader.messages) <= all {
		return ""
	}
	return fmt.Sprintf("messages have different features: %d of %d have the most frequent ones, %v; send the same "+
		"from each publisher, or set schema.features with sizes", leader.messages, all, leader.contract)
}

// total is the number of messages of all candidates.
func (c *contractCounts) total() int {
	all := c.other
	for _, one := range c.byID {
		all += one.messages
	}
	return all
}

// leading returns the leading candidates, the leader first.
func (c *contractCounts) leading() []*contractCandidate {
	all := slices.SortedFunc(maps.Values(c.byID), compare)
	return all[:min(len(all), maxReported)]
}

// status lists the leading candidates.
func (c *contractCounts) status() (out []spec.ContractCandidate) {
	for _, one := range c.leading() {
		out = append(out, spec.ContractCandidate{Contract: one.contract, Messages: one.messages,
			Rows: one.rows + one.unlabelled, First: one.first.Seq})
	}
	return out
}

// remoteCandidate is a candidate as the stage of another stream counted it. The classes are not in it.
type remoteCandidate struct {
	Contract   json.RawMessage `json:"contract"`
	First      window.Position `json:"first"`
	Messages   int             `json:"messages"`
	Rows       int             `json:"rows"`
	Unlabelled int             `json:"unlabelled,omitempty"`
	Since      time.Time       `json:"since"`
	Newest     time.Time       `json:"newest"`
}

// marshal encodes the leading candidates, up to maxRemote bytes.
func (c *contractCounts) marshal() ([]byte, error) {
	var out []remoteCandidate
	size := 0
	for _, one := range c.leading() {
		contract, err := json.Marshal(one.contract)
		if err != nil {
			return nil, err
		}
		if size += len(contract); size > maxRemote && len(out) > 0 {
			break
		}
		out = append(out, remoteCandidate{contract, one.first, one.messages, one.rows, one.unlabelled, one.since, one.newest})
	}
	return json.Marshal(out)
}

// parseCandidates reads what marshal wrote. It leaves out contracts that a configuration does not accept.
func parseCandidates(text []byte, s arrowio.Spec) (out []contractCandidate, err error) {
	var all []remoteCandidate
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for _, one := range all {
		contract, err := arrowio.ParseContract(one.Contract)
		if err != nil {
			return nil, err
		}
		if contract.Label() != s.Label || contract.Key() != s.Key || !s.Accepts(contract.Elements()) {
			continue
		}
		out = append(out, contractCandidate{contract: contract, first: one.First, messages: one.Messages, rows: one.Rows,
			unlabelled: one.Unlabelled, since: one.Since, newest: one.Newest})
	}
	return out, nil
}

// merge adds the counts of a candidate.
func (c *contractCounts) merge(other contractCandidate) {
	one := c.byID[other.contract.ID()]
	switch {
	case one == nil && len(c.byID) >= maxCandidates:
		c.other += other.messages
		return
	case one == nil:
		if c.byID == nil {
			c.byID = map[string]*contractCandidate{}
		}
		c.byID[other.contract.ID()] = &other
		return
	case other.first.Compare(one.first) < 0:
		one.contract, one.first = other.contract, other.first
	}
	one.messages += other.messages
	one.rows += other.rows
	one.unlabelled += other.unlabelled
	if other.since.Before(one.since) {
		one.since = other.since
	}
	if other.newest.After(one.newest) {
		one.newest = other.newest
	}
}

// hasTwoClasses reports whether there are two classes of two rows.
func (c *contractCandidate) hasTwoClasses() bool {
	n := 0
	for _, rows := range c.classes {
		if rows >= 2 {
			n++
		}
	}
	return n >= 2
}

// counting is the state of a learner whose contract is not known, or whose kept messages are not learned yet. Messages
// are kept in wire form: once the contract is known they are decoded under it, so that what is learned does not depend
// on when it became known.
type counting struct {
	contracts contractCounts
	remote    map[string][]contractCandidate // what the stages of other streams counted, by stream
	intake    intake                         // of messages that are read again, in blocks
	kept      []keptMessage
	keeps     bool      // a message of rows was kept: what follows it is kept too, so that the order stays
	rows      int       // of kept that can be learned from
	labels    int       // rows of kept messages of labels
	due       bool      // the worker is to fix the contract
	retryAt   time.Time // after the contract could not be stored
}

// leader is the leading candidate, nil if there is none or nothing is counted.
func (c *counting) leader() *contractCandidate {
	if c == nil {
		return nil
	}
	return c.contracts.leader()
}

// keptMessage is a message of rows or, if labels join them later, of labels, or a time that the labels have reached.
type keptMessage struct {
	at      spec.Position
	data    []byte
	rows    int       // that can be learned from; of a message of labels, all
	labels  bool      // it is a message of labels
	reached time.Time // see Stage.LabelsReached; then there are no data
}

// storeRetry is the time between two attempts to store a contract or a first model.
const storeRetry = time.Second

// count counts a message that arrived before the contract is known, and keeps it. The caller holds the lock.
func (l *learner) count(m *arrowio.Message, at spec.Position) {
	c, known := l.counting, l.stage.Contract() != nil
	u := l.countUsable(m)
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
		c.contracts.add(proposed, rowPosition(at, 0), at.Time, u, l.config.Classes)
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
	data, err := copyOf(l.copies, m)
	if err != nil {
		l.mu.warn("a message could not be kept until the schema is known; it is not learned", "seq", at.Seq, "error", err)
		l.dropped += rows
		return
	}
	c.kept, c.keeps = append(c.kept, keptMessage{at: at, data: data, rows: rows}), true
	c.rows += rows
	l.bytes += int64(len(data))
}

// keepLabels keeps a message of labels behind the rows that are kept: which row gets its label first must not depend on
// when the schema became known. It returns false if no rows are kept, or the memory for kept messages is used up. The
// caller holds the lock.
func (l *learner) keepLabels(m *arrowio.Message, at spec.Position) bool {
	c := l.counting
	if c == nil || !c.keeps || l.bytes > trainer.QueueBytes(l.config.Training.Window.Bytes) {
		return false
	}
	data, err := copyOf(l.copies, m)
	if err != nil {
		return false
	}
	c.kept = append(c.kept, keptMessage{at: at, data: data, rows: m.Rows(), labels: true})
	c.labels += m.Rows()
	l.bytes += int64(len(data))
	if l.stage.Contract() != nil {
		l.wakeForContract()
	}
	return true
}

// keepReached keeps a time that the labels have reached, like keepLabels.
func (l *learner) keepReached(t time.Time) bool {
	c := l.counting
	if c == nil || !c.keeps {
		return false
	}
	if n := len(c.kept); n > 0 && !c.kept[n-1].reached.IsZero() {
		c.kept[n-1].reached = t
	} else {
		c.kept = append(c.kept, keptMessage{reached: t})
	}
	if l.stage.Contract() != nil {
		l.wakeForContract()
	}
	return true
}

// copyOf returns a copy of a message in wire form, with the schema that it came with.
func copyOf(copies *arrowio.Encoder, m *arrowio.Message) ([]byte, error) {
	all := make([][]int, len(m.Batches()))
	for k, b := range m.Batches() {
		for i := range b.Rows() {
			all[k] = append(all[k], i)
		}
	}
	return copies.Rejected(m, all, nil)
}

// countUsable counts the rows of a message that can be learned from.
func (l *learner) countUsable(m *arrowio.Message) (u usableRows) {
	for r := range usable(l.config, m, spec.Position{}, 0) {
		if r.isKnown && l.config.Spec.Label != "" {
			u.labels = append(u.labels, r.label)
		}
		switch {
		case r.isKnown || l.late != nil:
			u.rows++
		case l.config.Until == spec.UntilPCA:
			u.unlabelled++
		}
	}
	return u
}

// isContractDue reports whether the leading candidate alone has the rows of a first model, or the memory for kept
// messages is used up. The caller holds the lock.
func (l *learner) isContractDue(now time.Time) bool {
	c := l.counting
	leader := c.contracts.leader()
	if leader == nil || l.config.Clock().Before(c.retryAt) {
		return false
	}
	need := trainer.FirstRows(l.config, leader.contract.Len())
	if leader.newest.After(now) {
		now = leader.newest
	}
	period := l.config.Training.Every.Period
	return leader.rows >= need || leader.unlabelled >= need ||
		(l.refitQueued || period > 0 && now.Sub(leader.since) >= period) && l.isTrainable(leader) ||
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

// storeContract calls a function of the host. A panic there is an error.
func storeContract(ctx context.Context, store func(context.Context, *arrowio.Contract) (*arrowio.Contract, error),
	c *arrowio.Contract) (_ *arrowio.Contract, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Config.StoreContract panicked: %v", p)
		}
	}()
	return store(ctx, c)
}

// endCounting stores the contract of the leading candidate if none is known, and learns the kept messages that fit the
// contract, in their order.
func (l *learner) endCounting(ctx context.Context) {
	l.mu.Lock()
	l.counting.due = false
	var leader contractCandidate // a copy: messages are counted until the contract is known
	if best := l.counting.contracts.leader(); best != nil {
		leader = *best
	}
	l.mu.Unlock()
	if l.stage.Contract() == nil {
		contract, err := leader.contract, error(nil)
		if l.config.StoreContract != nil {
			contract, err = storeContract(ctx, l.config.StoreContract, contract)
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
			l.retry = time.After(storeRetry) // no more messages may come
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
		if e != nil && len(e.Rows)+len(e.Unlabelled)+len(e.Fixes) > 0 {
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
	l.bytes -= int64(len(next.data))
	switch {
	case !next.reached.IsZero():
		l.late.reached(next.reached, l)
		return nil, true
	case next.labels:
		c.labels -= next.rows
		m, err := l.stage.DecodeLabels(next.data)
		if err != nil {
			l.mu.warn("a kept message of labels could not be read", "seq", next.at.Seq, "error", err)
			return nil, true
		}
		return l.labelEvent(m, next.at), true
	}
	c.rows -= next.rows
	m, err := l.stage.Decode(next.data)
	if err != nil {
		l.unfit++
		return nil, true
	}
	return l.messageEvent(m, next.at), true
}
