package stage

import (
	"fmt"
	"maps"
	"slices"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
)

// Contract is the schema of the messages of the stage, nil while it is not known.
func (s *Stage) Contract() *arrowio.Contract { return s.contract.Load() }

// Features returns the names of the features in order, nil while the contract is not known.
func (s *Stage) Features() []string { return s.contract.Load().Elements() }

// ContractFixed is closed when the contract is known.
func (s *Stage) ContractFixed() <-chan struct{} { return s.contractSet }

// setContract sets the stage's contract if it has none, and reports whether it did.
func (s *Stage) setContract(c *arrowio.Contract) bool {
	if !s.contract.CompareAndSwap(nil, c) {
		return false
	}
	close(s.contractSet)
	return true
}

// FixContract sets the stage's contract to one that another process stored, or that is configured. Messages that were
// kept while candidates were counted are learned if they match it. It is an error if the stage has another contract.
func (s *Stage) FixContract(c *arrowio.Contract) error {
	if s.setContract(c) {
		if s.learner != nil {
			s.learner.contractKnown()
		}
		return nil
	}
	if known := s.Contract(); !known.Equal(c) {
		return &arrowio.Error{Code: wire.SchemaChanged, Row: -1,
			Detail: fmt.Sprintf("the schema is %v, and the stored one is %v", known, c),
			Hint:   "restart the process to use the stored schema"}
	}
	return nil
}

// setFeatures makes the features those of a model or a summary. The error is that the contract has others.
func (s *Stage) setFeatures(features []string) error {
	if s.Contract() == nil {
		c, err := arrowio.NewContract(features, s.config.Spec.Label, s.config.Spec.Key)
		if err != nil {
			return err
		}
		if s.FixContract(c) == nil {
			return nil
		}
	}
	if c := s.Contract(); !c.Has(features) {
		return &arrowio.Error{Code: wire.SchemaChanged, Row: -1,
			Detail: fmt.Sprintf("the schema has %d features and the model has %d, or others", c.Len(), len(features)),
			Hint:   "use a model of these features, or change the schema: embedd schema reset, or schema.features"}
	}
	return nil
}

// Counted describes the contracts that messages proposed, for CountRemote of another stage, and returns how many
// messages there were. It returns nil if the contract is known or no message proposed one.
func (s *Stage) Counted() (text []byte, messages int, err error) {
	l := s.learner
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counting == nil || l.counting.leader() == nil {
		return nil, 0, nil
	}
	text, err = l.counting.contracts.marshal()
	return text, l.counting.contracts.total(), err
}

// CountRemote adds what the stage of another stream counted. It replaces what was added for that stream before.
func (s *Stage) CountRemote(stream string, counted []byte) error {
	all, err := parseCandidates(counted, s.config.Spec)
	if err != nil {
		return fmt.Errorf("reading the schemas that %s counted: %w", stream, err)
	}
	l := s.learner
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counting
	if c == nil {
		return nil
	}
	if c.remote == nil {
		c.remote = map[string][]contractCandidate{}
	}
	c.remote[stream], c.contracts = all, contractCounts{}
	for _, one := range slices.Sorted(maps.Keys(c.remote)) {
		for _, candidate := range c.remote[one] {
			c.contracts.merge(candidate)
		}
	}
	if l.isContractDue(l.config.Clock()) {
		l.wakeForContract()
	}
	return nil
}
