package operations

import (
	"context"
	"errors"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// Codes of errors, in addition to those of messages in package wire.
const (
	CodeBadRequest = "bad_request" // the request is not the JSON of the endpoint, or requests what is not possible
	CodeNoModel    = "no_model"    // no model is live yet, or the store has none of that version
	// CodeNoConversion: no map leads to the epoch from the one before
	CodeNoConversion = "no_conversion"
	CodeStale        = "stale"      // the live model is too old, and the pipeline holds its inputs
	CodePinned       = "pinned"     // a version is pinned
	CodeNotPinned    = "not_pinned" // no version is pinned
	CodeFewRows      = "few_rows"   // there are not enough rows to fit a model
	CodeFixed        = "fixed"      // the pipeline has a fixed model
	CodeConflict     = "conflict"   // another model is live than the request was made for, or went live meanwhile
	CodeStopping     = "stopping"   // the engine is stopping
	CodeNotStored    = "not_stored" // no stream has the pipeline's dead letters
	CodeDamaged      = "damaged"    // the version cannot be read
	CodeDenied       = "denied"     // the daemon's account lacks a permission
	CodeNoAnswer     = "no_answer"  // the trainer, which is another replica, did not answer
)

// codedError is an error with the code of its answer.
type codedError struct {
	code string
	err  error
}

// WithCode returns an error with the code of its answer.
func WithCode(code string, err error) error { return &codedError{code, err} }

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// CodeOf is the code of an error.
func CodeOf(err error) string {
	var own *codedError
	var message *arrowio.Error
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &message):
		return string(message.Code)
	case errors.Is(err, registry.ErrMissing), errors.Is(err, plugin.ErrNoModel):
		return CodeNoModel
	case errors.Is(err, registry.ErrNoConversion):
		return CodeNoConversion
	case errors.Is(err, registry.ErrPinned):
		return CodePinned
	case errors.Is(err, registry.ErrNotPinned):
		return CodeNotPinned
	case errors.Is(err, registry.ErrDim):
		return CodeBadRequest
	case errors.Is(err, registry.ErrOvertaken):
		return CodeConflict
	case errors.Is(err, plugin.ErrFixed):
		return CodeFixed
	case errors.Is(err, plugin.ErrFewRows):
		return CodeFewRows
	case errors.Is(err, registry.ErrDamaged):
		return CodeDamaged
	case errors.Is(err, spec.ErrDenied):
		return CodeDenied
	case errors.Is(err, plugin.ErrClosed), errors.Is(err, context.Canceled):
		return CodeStopping
	}
	return string(wire.Internal)
}
