package wire

import (
	"fmt"
	"strings"
	"unicode"
)

// Error is why a message, or a row of it, cannot be used. Code and sentence are sent in the headers of a dead letter.
// errors.Is finds the code: errors.Is(err, wire.SchemaChanged).
type Error struct {
	Code   Code
	Column string   // the column concerned, or ""
	Row    int      // the row concerned, from 0 in its batch, or -1
	Batch  int      // the batch of that row, from 0
	Detail string   // what was wrong, with figures
	Hint   string   // how to fix it, or ""
	Also   []*Error // further rows of the message with the same error; only for TooWide
	Stack  string   // where an internal error happened, for a log; not part of the sentence
}

// Errorf returns an error with a formatted Detail, and without a row.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Row: -1, Detail: fmt.Sprintf(format, args...)}
}

// WithHint sets the hint and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// In sets the column unless one is set, and returns e. A nil e stays nil.
func (e *Error) In(column string) *Error {
	if e != nil && e.Column == "" {
		e.Column = column
	}
	return e
}

// At sets the row and returns e.
func (e *Error) At(row int) *Error {
	e.Row = row
	return e
}

// Error returns one sentence: column and row, what was wrong, and how to fix it.
func (e *Error) Error() string {
	var b strings.Builder
	var where []string
	if e.Column != "" {
		where = append(where, fmt.Sprintf("column %q", Clip(e.Column)))
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

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Code }

// Clip makes a name from a message fit for a header or a log line: its first 64 bytes, UTF-8, without control
// characters.
func Clip(s string) string {
	const most = 64 // bytes of a text in an error
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

// Codes are all codes.
var Codes = []Code{NotArrow, NotJSON, NotCSV, Truncated, Malformed, TooLarge, TooManyRows, TooManyFields, Unsupported,
	FeatureCount, MissingColumn, NotNumeric, LabelType, KeyType, SchemaChanged, NameTaken, Dictionary, NonFinite, TooWide,
	LargeHeaders, BadSubject, ProcessDied, Internal}
