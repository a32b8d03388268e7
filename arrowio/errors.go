package arrowio

import (
	"fmt"
	"runtime/debug"
	"strings"
	"unicode"
)

// Code says in one word why a message, or rows of it, cannot be used. Codes are part of the wire contract: they
// travel in the header of a dead letter and never change their meaning. A Code is itself the error that errors.Is
// looks for in an *Error, through every wrap: errors.Is(err, arrowio.SchemaChanged).
type Code string

func (c Code) Error() string { return string(c) }

// The codes that this package gives.
const (
	NotArrow      Code = "not_arrow"       // the bytes are not an Arrow IPC stream
	Truncated     Code = "truncated"       // the stream ends before what it declares
	Malformed     Code = "malformed"       // an Arrow stream that contradicts itself or the format
	TooLarge      Code = "too_large"       // more bytes than a limit allows
	TooManyRows   Code = "too_many_rows"   // more rows or batches than a limit allows
	TooManyFields Code = "too_many_fields" // more fields, metadata or nesting than a limit allows
	Unsupported   Code = "unsupported"     // valid Arrow of a kind that is not read here
	FeatureCount  Code = "feature_count"   // a feature column with another number of elements than is fixed
	MissingColumn Code = "missing_column"  // a feature column is not in the message
	NotNumeric    Code = "not_numeric"     // a feature column does not hold numbers
	LabelType     Code = "label_type"      // the label column has a type that cannot name a class
	KeyType       Code = "key_type"        // the key column has a type that cannot be a key
	SchemaChanged Code = "schema_changed"  // features, label or key differ from what the first message fixed
	NameTaken     Code = "name_taken"      // a kept column has the name of the output column
	Dictionary    Code = "dictionary"      // a dictionary is replaced or extended inside the message
	RowsFixed     Code = "rows_fixed"      // rows cannot be taken out of a column of this type
	TooWide       Code = "too_wide"        // one row alone is over the size limit
	Internal      Code = "internal"        // a fault of this package, or wrong use of it
)

// Error is the one error type of this package.
type Error struct {
	Code   Code
	Column string // the column concerned, or ""
	Row    int    // the row concerned, counted from 0 in its batch, or -1
	Batch  int    // the batch of that row, counted from 0
	Detail string // what was wrong, with figures
	Hint   string // how to mend it, or ""
	Stack  string // where a fault of this package happened, for a log; not part of the sentence
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

func fault(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Row: -1, Detail: fmt.Sprintf(format, args...)}
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
		e := fault(Internal, "unexpected fault: %s", clip(fmt.Sprint(r))).hint("report it with the message's bytes")
		e.Stack = string(debug.Stack())
		*err = e
	}
}
