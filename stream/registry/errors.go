package registry

import "errors"

// The errors that a caller reacts to, for errors.Is.
var (
	// ErrMissing is returned where the store has no version and no pipeline of a name.
	ErrMissing = errors.New("the store has no such model")
	// ErrDamaged is returned where a pointer or a model is there and cannot be read.
	ErrDamaged = errors.New("the model store is damaged")
	// ErrNewer is returned where a pointer is of a form that a newer embedd writes.
	ErrNewer = errors.New("the model store is of a newer embedd")
	// ErrPinned is returned by [Registry.Save] while a version is pinned: nothing else goes live.
	ErrPinned = errors.New("a version is pinned")
	// ErrNotPinned is returned by [Registry.Unpin] where no version is pinned.
	ErrNotPinned = errors.New("no version is pinned")
	// ErrDim is returned for a version with other dimensions than the live one: readers of the output rely on them.
	ErrDim = errors.New("the dimensions differ")
	// ErrTooLarge is returned by [Registry.Save] for a model that a start could not read back.
	ErrTooLarge = errors.New("the model is too large for the store")
	// ErrOvertaken is returned by [Registry.Save] where the live model is not the one that the new model replaces:
	// somebody chose another meanwhile, or another process learns the same pipeline.
	ErrOvertaken = errors.New("another model went live meanwhile")
	// ErrNoMirror is returned where a leaf node has a model store of its own in place of a mirror of its hub's.
	ErrNoMirror = errors.New("the model store is no mirror of domain")
	// ErrFenced is returned where this replica does not hold the lease, or another has taken it since.
	ErrFenced = errors.New("another replica learns the pipeline")
)

// Errors of a store, for the registry alone.
var (
	errMoved  = errors.New("the pointer moved meanwhile")
	errAbsent = errors.New("there is no such entry")
)
