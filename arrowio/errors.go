package arrowio

import (
	"fmt"
	"runtime/debug"

	"github.com/embedd/embedd/arrowio/wire"
)

// Error is the error type of this package.
type Error = wire.Error

// rescue converts a panic into an error, so that a bug costs one message instead of the process.
func rescue(err *error) {
	if r := recover(); r != nil {
		e := wire.Errorf(wire.Internal, "unexpected fault: %s", wire.Clip(fmt.Sprint(r))).WithHint(
			"report it with the message's bytes")
		e.Stack = string(debug.Stack())
		*err = e
	}
}
