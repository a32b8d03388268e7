package stage

import (
	"fmt"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin/spec"
)

// Contract is the schema of the messages of the stage, nil while it is not known.
func (s *Stage) Contract() *arrowio.Contract { return s.contract.Load() }

// Features returns the names of the features in order, nil while the contract is not known.
func (s *Stage) Features() []string { return s.contract.Load().Elements() }

// setFeatures makes the features those of a model or a summary. The error is that the contract has others.
func (s *Stage) setFeatures(features []string) error {
	for {
		if c := s.contract.Load(); c != nil {
			if c.Has(features) {
				return nil
			}
			return &arrowio.Error{Code: wire.SchemaChanged, Row: -1,
				Detail: fmt.Sprintf("the schema has %d features and the model has %d, or others", c.Len(), len(features)),
				Hint:   "use a model of these features, or change the schema: embedd schema reset, or schema.features"}
		}
		c, err := arrowio.NewContract(features, s.config.Spec.Label, s.config.Spec.Key)
		if err != nil {
			return err
		}
		if s.contract.CompareAndSwap(nil, c) {
			return nil
		}
	}
}

// contractOf returns the contract for learning from a message, nil while it is not known. The first message that is
// learned from sets it.
func (s *Stage) contractOf(m *arrowio.Message) (*arrowio.Contract, error) {
	proposed := m.Contract()
	if proposed != nil {
		s.contract.CompareAndSwap(nil, proposed)
	}
	c := s.contract.Load()
	if !c.Equal(proposed) {
		return nil, spec.ErrContract
	}
	return c, nil
}
