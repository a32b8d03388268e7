package parallel

import (
	"fmt"
	"runtime/debug"

	"github.com/embedd/embedd/model/internal/fail"
)

// Panic is a recovered panic as an error. It implements model.Panic.
type Panic struct {
	value any
	stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panicked: %v; please report it", p.value) }

// Value is what panic was called with.
func (p *Panic) Value() any { return p.value }

// Stack is the stack of the goroutine that panicked.
func (p *Panic) Stack() []byte { return p.stack }

// Recover, deferred in an exported function, turns a panic into the error that the function returns, prefixed with
// name. The error of a failure has no prefix.
func Recover(err *error, name string) {
	if v := recover(); v != nil {
		*err = caught(v)
		if _, ok := (*err).(*Panic); ok {
			*err = fmt.Errorf("%s: %w", name, *err)
		}
	}
}

// caught is the error of a recovered value: that of a failure, else a Panic. A Panic that was panicked again keeps its
// stack.
func caught(v any) error {
	switch v := v.(type) {
	case fail.Failure:
		return v.Err
	case *Panic:
		return v
	}
	return &Panic{value: v, stack: debug.Stack()}
}
