// Package fail ends a fit at the first error, from any depth: a method reads as its formulas, and no step repeats the
// handling of an error that only the caller of the whole fit can handle. A function that ends a fit in this way has no
// error result; Catch, deferred where errors are values again, returns the error. Package parallel passes a failure on
// from its goroutines to their caller.
package fail

// Failure is the value that panic is called with.
type Failure struct{ Err error }

// Error makes the runtime print a failure that nothing catches.
func (f Failure) Error() string { return f.Err.Error() }

// With is the failure of an error: panic(fail.With(err)).
func With(err error) Failure { return Failure{err} }

// Check ends the fit if err is not nil.
func Check(err error) {
	if err != nil {
		panic(Failure{err})
	}
}

// Must is v; it ends the fit if err is not nil.
func Must[V any](v V, err error) V {
	Check(err)
	return v
}

// Must2 is Must for two values.
func Must2[V, W any](v V, w W, err error) (V, W) {
	Check(err)
	return v, w
}

// Catch, deferred, sets err to the error of a failure. Other panics continue.
func Catch(err *error) {
	switch v := recover().(type) {
	case nil:
	case Failure:
		*err = v.Err
	default:
		panic(v)
	}
}
