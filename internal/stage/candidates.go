package stage

import (
	"cmp"
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
	one := c.byID[contract.ID()]
	switch {
	case one == nil && len(c.byID) >= maxCandidates:
		c.other++
		return
	case one == nil:
		one = &contractCandidate{contract: contract, first: at, classes: map[string]int{}, since: t, newest: t}
		if c.byID == nil {
			c.byID = map[string]*contractCandidate{}
		}
		c.byID[contract.ID()] = one
	case at.Compare(one.first) < 0:
		one.contract, one.first = contract, at
	}
	one.messages++
	one.rows += u.rows
	one.unlabelled += u.unlabelled
	for _, label := range u.labels {
		if _, known := one.classes[label]; known || len(one.classes) < maxClasses {
			one.classes[label]++
		}
	}
	if t.Before(one.since) {
		one.since = t
	}
	if t.After(one.newest) {
		one.newest = t
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

// hint says that messages disagree, "" unless over a tenth of them are not of the leader.
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

// status lists the leading candidates.
func (c *candidates) status() []spec.ContractCandidate {
	var all []*contractCandidate
	for _, one := range c.byID {
		all = append(all, one)
	}
	slices.SortFunc(all, compare)
	var out []spec.ContractCandidate
	for _, one := range all[:min(len(all), maxReported)] {
		out = append(out, spec.ContractCandidate{Contract: one.contract, Messages: one.messages,
			Rows: one.rows + one.unlabelled, First: one.first.Seq})
	}
	return out
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
