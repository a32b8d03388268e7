package health

import "sync/atomic"

// Component is a part of a pipeline that can keep it from answering.
type Component uint8

// The components, in the order in which their reasons are reported: a component that explains others comes first.
const (
	Server     Component = iota // the server hangs, or is partitioned from its cluster
	ModelStore                  // the store has not confirmed for too long which model is live
	Connection                  // the client is not connected
	Permission                  // on core NATS: a subject that the user may not publish on
	Publish                     // outputs are not stored
	Lookup                      // earlier answers cannot be looked up in the output
	Pull                        // messages cannot be pulled
	DeadLetter                  // dead letters are not stored
	Streams                     // what the last look at the streams found
	components
)

// Conditions are the reasons why a pipeline cannot answer, one for each component. A component sets and clears its own;
// states are derived from all of them in one place. The zero value has none. Safe for concurrent use.
type Conditions struct {
	reasons [components]atomic.Pointer[string]
}

// Set records why a component keeps the pipeline from answering. It reports whether the component was clear before.
func (c *Conditions) Set(component Component, reason string) (isNew bool) {
	return c.reasons[component].Swap(&reason) == nil
}

// SetError sets the component's reason to the error, or clears it when the error is nil.
func (c *Conditions) SetError(component Component, err error) {
	if err == nil {
		c.Clear(component)
		return
	}
	c.Set(component, err.Error())
}

// SetText sets the component's reason, or clears it when the reason is "".
func (c *Conditions) SetText(component Component, reason string) {
	if reason == "" {
		c.Clear(component)
		return
	}
	c.Set(component, reason)
}

// Clear records that a component works. It reports whether it had a reason before. It costs a load when it had none.
func (c *Conditions) Clear(component Component) (had bool) {
	at := &c.reasons[component]
	return at.Load() != nil && at.Swap(nil) != nil
}

// Reason returns why a component keeps the pipeline from answering, "" when it does not.
func (c *Conditions) Reason(component Component) string {
	if reason := c.reasons[component].Load(); reason != nil {
		return *reason
	}
	return ""
}

// First returns the first reason in the order of the components, "" when there is none.
func (c *Conditions) First() string {
	for component := range components {
		if reason := c.Reason(component); reason != "" {
			return reason
		}
	}
	return ""
}
