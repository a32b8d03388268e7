package stage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/embedd/embedd/arrowio"
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

// candidates counts, per contract that messages propose, the messages that can be learned from. The order of columns
// and the classes of numbers make no other candidate. The candidate with the most messages leads, of equal ones the one
// with the first message in the stream. The count does not depend on the order of messages, up to maxCandidates.
type candidates struct {
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
func (c *candidates) add(contract *arrowio.Contract, at window.Position, t time.Time, u usableRows, maxClasses int) {
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
func (c *candidates) leader() (best *contractCandidate) {
	for _, one := range c.byID {
		if best == nil || compare(one, best) < 0 {
			best = one
		}
	}
	return best
}

// hint warns that messages have different schemas, if over a tenth of them do not have the leading one; else "".
func (c *candidates) hint() string {
	all, most := c.total(), 0
	for _, one := range c.byID {
		most = max(most, one.messages)
	}
	if 10*(all-most) <= all {
		return ""
	}
	return fmt.Sprintf("messages have different features: %d of %d have the most frequent ones, %v; send the same "+
		"from each publisher, or set schema.features with sizes", most, all, c.leader().contract)
}

// total is the number of messages of all candidates.
func (c *candidates) total() int {
	all := c.other
	for _, one := range c.byID {
		all += one.messages
	}
	return all
}

// leading returns the leading candidates, the leader first.
func (c *candidates) leading() (all []*contractCandidate) {
	for _, one := range c.byID {
		all = append(all, one)
	}
	slices.SortFunc(all, compare)
	return all[:min(len(all), maxReported)]
}

// status lists the leading candidates.
func (c *candidates) status() (out []spec.ContractCandidate) {
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
func (c *candidates) marshal() ([]byte, error) {
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
func (c *candidates) merge(other contractCandidate) {
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
