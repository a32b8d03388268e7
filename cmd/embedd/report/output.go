// Package report writes what a verb reports: text and tables for people or JSON for programs on stdout, and the
// progress of long steps on stderr.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// Output writes a report as the flag --format asks: text, or JSON with one object a line.
type Output struct {
	w    io.Writer
	JSON bool // --format json was given
}

// Flag declares --format and returns the Output that it controls.
func Flag(f *cli.Flags, e *cli.Env) *Output {
	o := &Output{w: e.Stdout}
	f.Func("format", "`FORM` of the report: text or json, which is one object a line (default text)",
		func(s string) error {
			if s != "text" && s != "json" {
				return fmt.Errorf("want text or json")
			}
			o.JSON = s == "json"
			return nil
		})
	f.Offer("format", "text", "json")
	return o
}

// MakeRoomFor sends the report to stderr if path, the file that the verb writes, is standard output.
func (o *Output) MakeRoomFor(e *cli.Env, path string) {
	if path == "-" {
		o.w = e.Stderr
	}
}

// Object writes v as one line of JSON.
func (o *Output) Object(v any) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // subjects contain >
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err := o.w.Write(line.Bytes())
	return err
}

// Printf writes text. With --format json it writes nothing.
func (o *Output) Printf(format string, args ...any) {
	if !o.JSON {
		fmt.Fprintf(o.w, format, args...)
	}
}

// Table starts a table, with a header unless none is given.
func (o *Output) Table(header ...any) *Table {
	t := NewTable(o.w)
	if len(header) > 0 {
		t.Row(header...)
	}
	return t
}

// Table aligns columns. It writes nothing before Flush.
type Table struct{ w *tabwriter.Writer }

// NewTable returns a table without a header.
func NewTable(w io.Writer) *Table { return &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// Row adds a row. A cell is one line: line breaks become spaces.
func (t *Table) Row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = strings.ReplaceAll(fmt.Sprint(c), "\n", " ")
	}
	fmt.Fprintln(t.w, strings.Join(text, "\t"))
}

// Flush writes the rows.
func (t *Table) Flush() error { return t.w.Flush() }

// OrDash is s, or "-" if it is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Shorten cuts a text after limit bytes.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
