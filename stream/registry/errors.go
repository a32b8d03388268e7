package registry

import "errors"

// The errors that a caller reacts to, for errors.Is.
var (
	// ErrMissing reports that the store has no version or pipeline with the given name.
	ErrMissing = errors.New("the store has no such model")
	// ErrDamaged reports a pointer or a model that cannot be read.
	ErrDamaged = errors.New("the model store is damaged")
	// ErrNewer reports a pointer in the format of a newer version of embedd.
	ErrNewer = errors.New("the model store was written by a newer embedd")
	// ErrPinned is returned by [Registry.Save] while a version is pinned: nothing else goes live.
	ErrPinned = errors.New("a version is pinned")
	// ErrNotPinned is returned by [Registry.Unpin] where no version is pinned.
	ErrNotPinned = errors.New("no version is pinned")
	// ErrDim is returned for a version with other dimensions than the live one: readers of the output rely on them.
	ErrDim = errors.New("the dimensions differ")
	// ErrTooLarge is returned by [Registry.Save] for a model that a start could not read back.
	ErrTooLarge = errors.New("the model is too large for the store")
	// ErrOvertaken is returned by [Registry.Save] if the live model is not the one that the new model replaces: an
	// operator chose another meanwhile, or another process trains the same pipeline.
	ErrOvertaken = errors.New("another model went live meanwhile")
	// ErrNoMirror reports that a leaf node has its own model store in place of a mirror of its hub's.
	ErrNoMirror = errors.New("the model store is not a mirror of domain")
	// ErrFenced reports that this replica does not hold the lease, or lost it since.
	ErrFenced = errors.New("another replica trains the pipeline")
	// ErrNoConversion reports that no map from or to an epoch is known.
	ErrNoConversion = errors.New("no map leads to the epoch")
)

// errUnchanged ends an update that has nothing to change.
var errUnchanged = errors.New("unchanged")

// kindError is one of the errors above with a text of its own.
type kindError struct {
	kind error
	error
}

// withKind has errors.Is find an error by its kind; nil stays nil.
func withKind(kind, err error) error {
	if err == nil {
		return nil
	}
	return &kindError{kind, err}
}

func (e *kindError) Is(target error) bool { return target == e.kind }
func (e *kindError) Unwrap() error        { return e.error }

// isUnreadable reports whether a stored model or pointer is damaged or missing, and not only unreachable.
func isUnreadable(err error) bool { return errors.Is(err, ErrDamaged) || errors.Is(err, ErrMissing) }
