package spec

import "errors"

// The errors that a host handles, for errors.Is. What is wrong with a message is an [*arrowio.Error], whose codes
// errors.Is finds too.
var (
	// ErrNoModel is returned by Transform while no model is live.
	ErrNoModel = errors.New("no model is live yet")
	// ErrClosed is returned by methods that learn or wait after Close. The live model still transforms messages.
	ErrClosed = errors.New("the stage is closed")
	// ErrFixed is returned by methods that change the model of a stage with a fixed model.
	ErrFixed = errors.New("the stage has a fixed model and learns nothing")
	// ErrContract is returned by Transform and Learn for a message that was decoded under another contract than the
	// stage's, because that was not known yet. A host decodes the message again.
	ErrContract = errors.New("the message was decoded before the schema was known; decode it again")
	// ErrFewRows is returned by Refit when the window does not hold enough rows for a fit yet. A host learns more rows
	// and calls it again.
	ErrFewRows = errors.New("the window does not hold enough rows for a fit")
)
