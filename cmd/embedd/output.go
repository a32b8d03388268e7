package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/embedd/embedd/arrowio/file"
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

// beside makes the report leave on stderr where the file that is written is standard output.
func (o *output) beside(e *env, path string) {
	if path == "-" {
		o.w = e.stderr
	}
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

// createData makes a file of rows, the argument of -o; "-" is the verb's standard output.
func createData(e *env, path string) (*file.Writer, error) {
	if path != "-" {
		return file.Create(path)
	}
	if err := noTerminal(e, path); err != nil {
		return nil, err
	}
	return file.NewWriter(e.stdout, "standard output"), nil
}

// writeOut writes the argument of -o: a file that appears under its name when it is whole, or for "-" the verb's
// standard output.
func writeOut(e *env, path string, write func(io.Writer) error) error {
	if path != "-" {
		return writeWhole(path, write)
	}
	if err := noTerminal(e, path); err != nil {
		return err
	}
	return write(e.stdout)
}

// writeWhole writes a file beside path and renames it.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	out, err := os.OpenFile(fmt.Sprintf("%s.%d.tmp", path, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return fmt.Errorf("%s cannot be made: %w", filepath.Clean(path), err)
	}
	defer func() {
		if err != nil {
			out.Close()
			os.Remove(out.Name())
		}
	}()
	if err := write(out); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(out.Name(), path)
}

// noTerminal refuses to write what is no text to a terminal, before there is work that would be lost.
func noTerminal(e *env, path string) error {
	if path == "-" && isTerminal(e.stdout) {
		return usagef("standard output is a terminal, and what -o - writes is no text: redirect it, or name a file with -o")
	}
	return nil
}
