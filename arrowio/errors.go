package arrowio

import (
	"fmt"
	"runtime/debug"

	"github.com/embedd/embedd/arrowio/wire"
)

// Error is the error type of this package.
type Error = wire.Error

// rescue, deferred in each function that a host calls, returns the *Error that the reading or writing of a message
// stopped with. It converts any other panic into an error, so that a bug costs one message instead of the process.
func rescue(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		e := wire.Errorf(wire.Internal, "unexpected fault: %s", wire.Clip(fmt.Sprint(r))).WithHint(
			"report it with the message's bytes")
		e.Stack = string(debug.Stack())
		*err = e
	}
}
