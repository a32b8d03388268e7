package registry

import (
	"errors"
	"io"
)

// The errors that a caller reacts to, for errors.Is.
var (
	// ErrMissing reports that the store has no version or pipeline of a name.
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
)

// Errors of a store, for the registry alone.
var (
	errMoved  = errors.New("the pointer moved meanwhile")
	errAbsent = errors.New("there is no such entry")
)

// errUnchanged ends an update that has nothing to change.
var errUnchanged = errors.New("unchanged")

func unlessUnchanged(err error) error {
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// missing is an ErrMissing with its own text.
type missing struct{ text string }

func (e *missing) Error() string { return e.text }

func (e *missing) Unwrap() error { return ErrMissing }

// damaged is an ErrDamaged with its own text.
type damaged struct{ error }

func (e *damaged) Is(target error) bool { return target == ErrDamaged }

func (e *damaged) Unwrap() error { return e.error }

// unreachable is an error of the request for bytes, not of the bytes.
type unreachable struct{ error }

func (e *unreachable) Unwrap() error { return e.error }

// source remembers that its bytes could not be requested.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if u := new(unreachable); errors.As(err, &u) {
		s.err = err
	}
	return n, err
}
