package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// output writes what a verb reports: JSON objects, one a line, or text for people.
type output struct {
	w    io.Writer
	json bool // --format json was given
}

// output declares --format and returns the writer that obeys it. Use it after parse.
func (f *flags) output(e *env) *output {
	o := &output{w: e.stdout}
	f.Func("format", "`FORM` of the report: text or json, which is one object a line (default text)",
		func(s string) error {
			switch s {
			case "text", "json":
				o.json = s == "json"
				return nil
			}
			return fmt.Errorf("want text or json")
		})
	f.offer("format", "text", "json")
	return o
}

// object writes v as one line of JSON.
func (o *output) object(v any) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // subjects hold > and people read this
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err := o.w.Write(line.Bytes())
	return err
}

// printf writes text for people. With --format json it writes nothing.
func (o *output) printf(format string, args ...any) {
	if !o.json {
		fmt.Fprintf(o.w, format, args...)
	}
}

// table starts a table for people; its first row is the header.
func (o *output) table(header ...any) *table {
	t := newTable(o.w)
	t.row(header...)
	return t
}

// table aligns columns. Nothing is written before flush.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) *table { return &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t *table) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = strings.ReplaceAll(fmt.Sprint(c), "\n", " ")
	}
	fmt.Fprintln(t.w, strings.Join(text, "\t"))
}

func (t *table) flush() error { return t.w.Flush() }
