package health

import (
	"sync/atomic"

	"github.com/embedd/embedd/stream/spec"
)

// Component is a part of a pipeline that has a condition of its own.
type Component uint8

// The components, in the order in which their reasons are reported: a component that explains others comes first. Each
// has the name of its condition in metrics and status, and what that blocks.
var (
	// The server hangs, or is partitioned from its cluster.
	Server = component("server", spec.BlocksAnswers)
	// The store has not confirmed for too long which model is live.
	ModelStore = component("model_store", spec.BlocksAnswers)
	// The client is not connected.
	Connection = component("connection", spec.BlocksAnswers)
	// On core NATS, the user may not publish outputs.
	Permission = component("permission", spec.BlocksAnswers)
	// Outputs are not stored.
	Publish = component("publish", spec.BlocksAnswers)
	// Earlier answers cannot be looked up in the output.
	Lookup = component("lookup", spec.BlocksAnswers)
	// The server does not store the session with which this replica owns partitions.
	Leases = component("leases", spec.BlocksAnswers)
	// Messages cannot be pulled.
	Pull = component("pull", spec.BlocksAnswers)
	// The last check of the streams found a fault.
	Streams = component("streams", spec.BlocksAnswers)
	// Dead letters are not stored.
	DeadLetter = component("dead_letters", spec.BlocksDeadLetters)
	// The last check of the streams found that dead letters would not be stored.
	DeadLetterStream = component("dead_letter_stream", spec.BlocksDeadLetters)
	// Nearly all of the newest messages became dead letters.
	DeadLetterShare = component("dead_share", spec.BlocksNothing)
	// None of the newest rows has a label.
	NoLabels = component("no_labels", spec.BlocksNothing)
	// A key was overwritten by a message that no replica wrote.
	ForeignEntry = component("foreign_entry", spec.BlocksNothing)
	// A client that is no replica pulls from the consumer.
	StolenDeliveries = component("stolen_deliveries", spec.BlocksNothing)
	// The last reload of the configuration failed: the one before is in force.
	Reload = component("reload", spec.BlocksNothing)
)

// maxComponents is the number of components, for arrays.
const maxComponents = 16

// componentTable has the components that were defined.
var componentTable []spec.Condition

func component(name string, blocks spec.Blocks) Component {
	componentTable = append(componentTable, spec.Condition{Name: name, Blocks: blocks})
	return Component(len(componentTable) - 1)
}

// Conditions are the reasons why a pipeline cannot answer, or needs attention, one for each component. A component sets
// and clears its own; states are derived from all of them in one place. The zero value has none. Safe for concurrent
// use.
type Conditions struct {
	reasons [maxComponents]atomic.Pointer[string]
}

// Set sets the component's reason, or clears it when the reason is "". It reports whether there is a reason now and was
// none before, or the reverse.
func (c *Conditions) Set(component Component, reason string) (changed bool) {
	if reason == "" {
		return c.Clear(component)
	}
	return c.reasons[component].Swap(&reason) == nil
}

// SetError sets the component's reason to the error, or clears it when the error is nil.
func (c *Conditions) SetError(component Component, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.Set(component, text)
}

// Clear records that a component works. It reports whether it had a reason before. It costs a load when it had none.
func (c *Conditions) Clear(component Component) (had bool) {
	at := &c.reasons[component]
	return at.Load() != nil && at.Swap(nil) != nil
}

// Reopen clears what a pipeline reported before it is opened again: nothing else would clear what only its parts of
// before knew. The conditions of the process stay.
func (c *Conditions) Reopen() {
	for i := range c.reasons {
		if component := Component(i); component != Server && component != Reload {
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
		if reason := c.Reason(Component(component)); reason != "" && one.Blocks == blocks {
			return reason
		}
	}
	return ""
}

// All returns the conditions that hold, in the order of the components.
func (c *Conditions) All() (all []spec.Condition) {
	for component, one := range componentTable {
		if reason := c.Reason(Component(component)); reason != "" {
			all = append(all, spec.Condition{Name: one.Name, Blocks: one.Blocks, Reason: reason})
		}
	}
	return all
}
