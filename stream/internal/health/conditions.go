package health

import (
	"sync/atomic"

	"github.com/embedd/embedd/stream/spec"
)

// Component is a part of a pipeline that has a condition of its own.
type Component uint8

// The components, in the order in which their reasons are reported: a component that explains others comes first.
const (
	Server           Component = iota // the server hangs, or is partitioned from its cluster
	ModelStore                        // the store has not confirmed for too long which model is live
	Connection                        // the client is not connected
	Permission                        // on core NATS: the user may not publish outputs
	Publish                           // outputs are not stored
	Lookup                            // earlier answers cannot be looked up in the output
	Pull                              // messages cannot be pulled
	Streams                           // what the last look at the streams found
	DeadLetter                        // dead letters are not stored
	DeadLetterStream                  // the last look at the streams found that dead letters would not be stored
	DeadLetterShare                   // nearly all of the newest messages became dead letters
	NoLabels                          // none of the newest rows has a label
	ForeignEntry                      // a key was overwritten by a message that no replica wrote
	StolenDeliveries                  // a client that is no replica pulls from the consumer
	Reload                            // the last reload of the configuration failed: the one before is in force
	components
)

// componentTable has the name of each condition in metrics and status, and what it blocks.
var componentTable = [components]struct {
	name   string
	blocks spec.Blocks
}{
	Server:           {"server", spec.BlocksAnswers},
	ModelStore:       {"model_store", spec.BlocksAnswers},
	Connection:       {"connection", spec.BlocksAnswers},
	Permission:       {"permission", spec.BlocksAnswers},
	Publish:          {"publish", spec.BlocksAnswers},
	Lookup:           {"lookup", spec.BlocksAnswers},
	Pull:             {"pull", spec.BlocksAnswers},
	Streams:          {"streams", spec.BlocksAnswers},
	DeadLetter:       {"dead_letters", spec.BlocksDeadLetters},
	DeadLetterStream: {"dead_letter_stream", spec.BlocksDeadLetters},
	DeadLetterShare:  {"dead_share", spec.BlocksNothing},
	NoLabels:         {"no_labels", spec.BlocksNothing},
	ForeignEntry:     {"foreign_entry", spec.BlocksNothing},
	StolenDeliveries: {"stolen_deliveries", spec.BlocksNothing},
	Reload:           {"reload", spec.BlocksNothing},
}

// Conditions are the reasons why a pipeline cannot answer, or needs attention, one for each component. A component sets
// and clears its own; states are derived from all of them in one place. The zero value has none. Safe for concurrent
// use.
type Conditions struct {
	reasons [components]atomic.Pointer[string]
}

// Set records the reason of a component. It reports whether the component was clear before.
func (c *Conditions) Set(component Component, reason string) (isNew bool) {
	return c.reasons[component].Swap(&reason) == nil
}

// SetError sets the component's reason to the error, or clears it when the error is nil.
func (c *Conditions) SetError(component Component, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.SetText(component, text)
}

// SetText sets the component's reason, or clears it when the reason is "". It reports whether there is a reason now and
// was none before, or the reverse.
func (c *Conditions) SetText(component Component, reason string) (changed bool) {
	if reason == "" {
		return c.Clear(component)
	}
	return c.Set(component, reason)
}

// Clear records that a component works. It reports whether it had a reason before. It costs a load when it had none.
func (c *Conditions) Clear(component Component) (had bool) {
	at := &c.reasons[component]
	return at.Load() != nil && at.Swap(nil) != nil
}

// Reopen clears what a pipeline reported before it is opened again: nothing else would clear what only its parts of
// before knew. The conditions of the process stay.
func (c *Conditions) Reopen() {
	for component := range components {
		if component != Server && component != Reload {
			c.Clear(component)
		}
	}
}

// Reason returns the reason of a component, "" when it is clear.
func (c *Conditions) Reason(component Component) string {
	if reason := c.reasons[component].Load(); reason != nil {
		return *reason
	}
	return ""
}

// First returns the reason of the first component, in the order of the table, that has one and blocks this kind of
// answer; "" if there is none.
func (c *Conditions) First(blocks spec.Blocks) string {
	for component, one := range componentTable {
		if reason := c.Reason(Component(component)); reason != "" && one.blocks == blocks {
			return reason
		}
	}
	return ""
}

// All returns the conditions that hold, in the order of the components.
func (c *Conditions) All() (all []spec.Condition) {
	for component, one := range componentTable {
		if reason := c.Reason(Component(component)); reason != "" {
			all = append(all, spec.Condition{Name: one.name, Blocks: one.blocks, Reason: reason})
		}
	}
	return all
}
