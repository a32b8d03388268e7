// Package cli is what every verb shares with the process that runs it: the standard streams, the errors that choose the
// exit code, and the kinds of flags.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// Env is what a verb sees of its process. Tests pass buffers.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Clock          func() time.Time // nil: the system's clock

	explain []func(error) error
}

// OnError registers a function that may add context to the error with which the verb fails, such as what a connection
// knows about a permission that was denied.
func (e *Env) OnError(explain func(error) error) { e.explain = append(e.explain, explain) }

// Explain passes an error through all functions that OnError registered.
func (e *Env) Explain(err error) error {
	for _, explain := range e.explain {
		err = explain(err)
	}
	return err
}

// Notef prints a note on stderr.
func (e *Env) Notef(format string, args ...any) {
	fmt.Fprintf(e.Stderr, "embedd: note: "+format+"\n", args...)
}

// IsTerminal reports whether a standard stream is a terminal.
func IsTerminal(file any) bool {
	f, ok := file.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// UsageError ends the process with code 2: the command line or the configuration is wrong.
type UsageError struct{ Err error }

func (u UsageError) Error() string { return u.Err.Error() }
func (u UsageError) Unwrap() error { return u.Err }

// Usagef returns a UsageError with the formatted message.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// CheckError ends the process with code 3: the command worked, and what it checked does not hold.
type CheckError struct{ Err error }

func (c CheckError) Error() string { return c.Err.Error() }
func (c CheckError) Unwrap() error { return c.Err }

// Checkf returns a CheckError with the formatted message.
func Checkf(format string, args ...any) error { return CheckError{fmt.Errorf(format, args...)} }

// DidYouMean returns ` (did you mean "near"?)` if one of the names is close to the given one, else "".
func DidYouMean(given string, names []string) string {
	near := config.Nearest(given, names)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", near)
}

// Listed joins names with commas; of more than twelve it counts the rest.
func Listed(names []string) string {
	if len(names) > 12 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:12], ", "), len(names)-12)
	}
	return strings.Join(names, ", ")
}

// Sleep waits for d, or until ctx is cancelled.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
