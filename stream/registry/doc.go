// Package registry stores the models of pipelines: every version with its origin, and which of them is live, previous
// and pinned.
//
// A [Store] has the bytes: in JetStream, or in a [Directory]. Models are written once and never changed. Everything
// else that is known of a pipeline's versions is one small [Pointer], which is changed by compare-and-set: first it
// claims a name, then the model is written and read back as a start reads it, then the pointer names it as live. So
// the pointer never names a model that is missing, damaged or unreadable, wherever a crash occurs.
//
// Errors for errors.Is: [ErrMissing], [ErrPinned], [ErrNotPinned], [ErrDim], [ErrTooLarge], [ErrOvertaken].
package registry
