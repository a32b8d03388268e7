package arrowio

import (
	"fmt"
	"runtime/debug"

	"github.com/embedd/embedd/arrowio/wire"
)

// Error is the one error type of this package.
type Error = wire.Error

// rescue turns a panic into an error: a fault that the checks did not foresee costs one message, not the process.
func rescue(err *error) {
	if r := recover(); r != nil {
		e := wire.Errorf(wire.Internal, "unexpected fault: %s", wire.Clip(fmt.Sprint(r))).WithHint(
			"report it with the message's bytes")
		e.Stack = string(debug.Stack())
		*err = e
	}
}
