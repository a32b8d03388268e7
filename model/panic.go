package model

// Panic is a recovered panic as an error: of a function that the caller passed, such as Criterion.InBasis or
// Config.Progress, or of the library itself. Fit, FitMoments, Evaluate, Project, Align and Read return errors that wrap
// it, whichever goroutine panicked. Find it with a variable of this type and [errors.As].
type Panic interface {
	error
	Value() any    // what panic was called with
	Stack() []byte // of the goroutine that panicked
}
