package arrowio

import (
	"fmt"
	"runtime/debug"
	"strings"
	"unicode"

	"github.com/embedd/embedd/arrowio/wire"
)

// Error is the one error type of this package.
type Error struct {
	Code   wire.Code // the word that a dead letter carries
	Column string    // the column concerned, or ""
	Row    int       // the row concerned, counted from 0 in its batch, or -1
	Batch  int       // the batch of that row, counted from 0
	Detail string    // what was wrong, with figures
	Hint   string    // how to mend it, or ""
	Also   []*Error  // further rows of the message with the same fault, of too_wide alone
	Stack  string    // where a fault of this package happened, for a log; not part of the sentence
}

// Error returns one sentence that names column, row, limit and the cure.
func (e *Error) Error() string {
	var b strings.Builder
	var where []string
	if e.Column != "" {
		where = append(where, fmt.Sprintf("column %q", clip(e.Column)))
	}
	if e.Row >= 0 {
		where = append(where, fmt.Sprintf("row %d", e.Row))
	}
	if e.Row >= 0 && e.Batch > 0 {
		where = append(where, fmt.Sprintf("batch %d", e.Batch))
	}
	if where != nil {
		b.WriteString(strings.Join(where, ", ") + ": ")
	}
	b.WriteString(e.Detail)
	if e.Hint != "" {
		b.WriteString("; ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

// Unwrap returns the code, so that errors.Is finds it.
func (e *Error) Unwrap() error { return e.Code }

// clip makes a name from the wire fit for a header or a log line: short, UTF-8, without control characters.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

func fault(code wire.Code, format string, args ...any) *Error {
	return &Error{Code: code, Row: -1, Detail: fmt.Sprintf(format, args...)}
}

// broken is the error of a flatbuffer that cannot be walked.
func broken(err error) *Error {
	return fault(wire.Malformed, "%v", err).hint("publish the bytes of an Arrow IPC stream writer unchanged")
}

// hint adds the cure.
func (e *Error) hint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// in names the column, unless one is named already.
func (e *Error) in(column string) *Error {
	if e != nil && e.Column == "" {
		e.Column = column
	}
	return e
}

// entry says that the row is one of a dictionary's entries, and no row of a batch.
func (e *Error) entry() *Error {
	if e != nil && e.Row >= 0 {
		e.Detail = fmt.Sprintf("dictionary entry %d: %s", e.Row, e.Detail)
		e.Row = -1
	}
	return e
}

// at names the row.
func (e *Error) at(row int) *Error {
	e.Row = row
	return e
}

// rescue turns a panic into an error: a fault that the checks did not foresee costs one message, not the process.
func rescue(err *error) {
	if r := recover(); r != nil {
		e := fault(wire.Internal, "unexpected fault: %s", clip(fmt.Sprint(r))).hint(
			"report it with the message's bytes")
		e.Stack = string(debug.Stack())
		*err = e
	}
}
