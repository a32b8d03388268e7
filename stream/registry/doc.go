// Package registry keeps the models of pipelines: every version with where it came from, and which of them is live,
// previous and pinned.
//
// A [Store] is where the bytes are: the server's JetStream, or a [Directory]. Models are written once and never
// changed. All that is known of the versions of a pipeline is one small [Pointer], which moves by compare-and-swap:
// first it claims a name, then the model is written and read back by the reader that a start uses, then the pointer
// names it as live. So the pointer never names a model that is missing, damaged or cannot be read, wherever a crash
// comes between.
//
// Errors are told apart with errors.Is: [ErrMissing], [ErrPinned], [ErrNotPinned], [ErrDim], [ErrTooLarge],
// [ErrOvertaken].
package registry
