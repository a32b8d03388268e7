package operations

import (
	"context"
	"errors"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/scope"
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
func WithCode(code string, err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code, err}
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// codes has the codes of errors that carry none.
var codes = []struct {
	err  error
	code string
}{{registry.ErrMissing, CodeNoModel}, {plugin.ErrNoModel, CodeNoModel}, {registry.ErrNoConversion, CodeNoConversion},
	{registry.ErrPinned, CodePinned}, {registry.ErrNotPinned, CodeNotPinned}, {registry.ErrDim, CodeBadRequest},
	{registry.ErrOvertaken, CodeConflict}, {natsx.ErrReadersBusy, CodeConflict}, {plugin.ErrFixed, CodeFixed},
	{plugin.ErrFewRows, CodeFewRows}, {registry.ErrDamaged, CodeDamaged}, {spec.ErrDenied, CodeDenied},
	{plugin.ErrClosed, CodeStopping}, {context.Canceled, CodeStopping}}

// CodeOf is the code of an error.
func CodeOf(err error) string {
	var own *codedError
	if errors.As(err, &own) {
		return own.code
	}
	for _, one := range codes {
		if errors.Is(err, one.err) {
			return one.code
		}
	}
	return string(scope.CodeOf(err))
}
