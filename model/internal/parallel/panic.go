package parallel

import (
	"fmt"
	"runtime/debug"
)

// Panic is a panic as an error: of a function that was given, or of the library
// itself.
type Panic struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked
}

func (p *Panic) Error() string { return fmt.Sprintf("panicked: %v; please report it", p.Value) }

// Recover, deferred at the boundary of a package, makes a panic of the function
// its error, with its name in front.
func Recover(err *error, name string) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%s: %w", name, caught(v))
	}
}

// caught is what recover returned as a Panic. One that went on as a panic keeps
// its stack.
func caught(v any) *Panic {
	if p, ok := v.(*Panic); ok {
		return p
	}
	return &Panic{Value: v, Stack: debug.Stack()}
}
