// Package report writes what a verb reports: text and tables for people or JSON for programs on stdout, and the
// progress of long steps on stderr.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// Output writes a report as the flag --format asks: text, or JSON with one object a line.
type Output struct {
	w     io.Writer
	limit int  // columns of a line; 0: none
	JSON  bool // --format json was given
}

// Flag declares --format and returns the Output that it controls. Text is wrapped so that it fits the terminal or,
// without one, defaultColumns.
func Flag(f *cli.Flags, e *cli.Env) *Output {
	o := &Output{w: e.Stdout, limit: columnsOf(e.Stdout)}
	f.Words("format", "`FORM` of the report: text or json, which is one object a line (default text)",
		func(word string) { o.JSON = word == "json" }, "text", "json")
	return o
}

// MakeRoomFor sends the report to stderr if path, the file that the verb writes, is standard output: - or a name of it,
// such as /dev/stdout.
func (o *Output) MakeRoomFor(e *cli.Env, path string) {
	if path == "-" || isFile(e.Stdout, path) {
		o.w = e.Stderr
	}
}

// isFile reports whether a stream is the file at a path.
func isFile(stream any, path string) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	is, err := file.Stat()
	named, namedErr := os.Stat(path)
	return err == nil && namedErr == nil && os.SameFile(is, named)
}

// Object writes v as one line of JSON.
func (o *Output) Object(v any) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // subjects contain >
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err := cli.PrintableJSON{Writer: o.w}.Write(line.Bytes())
	return err
}

// Objects writes each of a list as one line of JSON.
func Objects[T any](o *Output, list []T) error {
	for _, v := range list {
		if err := o.Object(v); err != nil {
			return err
		}
	}
	return nil
}

// Printf writes printable text. With --format json it writes nothing.
func (o *Output) Printf(format string, args ...any) {
	if !o.JSON {
		io.WriteString(o.w, cli.Printable(fmt.Sprintf(format, args...)))
	}
}

// Result writes what a verb did: the object for programs, or the text.
func (o *Output) Result(v any, format string, args ...any) error {
	if o.JSON {
		return o.Object(v)
	}
	o.Printf(format, args...)
	return nil
}

// Paragraph writes a lead and a printable text, broken into lines that fit; those after the first are indented.
func (o *Output) Paragraph(lead, text string, indent int) {
	o.Printf("%s", paragraph(lead, cli.Printable(lineBreaks.Replace(text)), o.limit, indent))
}

// Table starts a table, with a header unless none is given.
func (o *Output) Table(header ...any) *Table {
	t := NewTable(o.w)
	t.limit = o.limit
	if len(header) > 0 {
		t.Row(header...)
	}
	return t
}

// OrDash is s, or "-" if it is empty.
func OrDash(s string) string { return cmp.Or(s, "-") }

// Shorten cuts a text after limit bytes.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// Progress shows how far a long step is: one line that rewrites itself on a terminal, elsewhere a plain line every few
// seconds, so that a log file stays readable. A step that reports nothing for a while is shown again with the seconds
// since its last report. It is safe for concurrent use.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	next     time.Time // the earliest time of the next line
	printed  string    // the last plain line
	shown    bool      // the last line of the terminal is a progress line
	silence  time.Duration
	phase    string // the last report, and its time
	reported time.Time
	quit     chan struct{} // ends watch; nil if it does not run
	ended    chan struct{}
}

const (
	terminalPace = 100 * time.Millisecond
	plainPace    = 5 * time.Second
)

// NewProgress shows progress on stderr. The first plain line comes after plainPace, so that short work prints nothing.
func NewProgress(e *cli.Env) *Progress {
	p := &Progress{w: e.Stderr, terminal: cli.IsTerminal(e.Stderr), silence: plainPace}
	if !p.terminal {
		p.next = time.Now().Add(plainPace)
	}
	return p
}

// Show reports that phase is at done, between 0 and 1. A negative done means that the share is unknown.
func (p *Progress) Show(phase string, done float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done >= 0 {
		phase = fmt.Sprintf("%s %3.0f %%", phase, 100*min(done, 1))
	}
	p.phase, p.reported = phase, time.Now()
	if p.quit == nil {
		p.quit, p.ended = make(chan struct{}), make(chan struct{})
		go p.watch(p.quit, p.ended, p.silence)
	}
	p.print(phase)
}

// watch shows a step again that reports nothing.
func (p *Progress) watch(quit, ended chan struct{}, silence time.Duration) {
	defer close(ended)
	tick := time.NewTicker(silence / 5)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			p.mu.Lock()
			if since := time.Since(p.reported); since >= silence {
				p.print(fmt.Sprintf("%s, %.0f s in this step", p.phase, since.Seconds()))
			}
			p.mu.Unlock()
		}
	}
}

// print writes a line if the last one is old enough. The caller holds p.mu.
func (p *Progress) print(phase string) {
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	phase = cli.Printable(phase)
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", phase)
		p.next, p.shown = now.Add(terminalPace), true
		return
	}
	fmt.Fprintln(p.w, phase)
	p.printed, p.next = phase, now.Add(plainPace)
}

// End removes the line of a terminal. Elsewhere, if lines were printed, it prints the last report, such as the full
// count, unless that is the last line. The Progress may be used again.
func (p *Progress) End() {
	p.mu.Lock()
	quit, ended := p.quit, p.ended
	p.quit = nil
	p.mu.Unlock()
	if quit != nil {
		close(quit)
		<-ended
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
	if last := cli.Printable(p.phase); p.printed != "" && p.printed != last {
		fmt.Fprintln(p.w, last)
	}
	p.printed = ""
}
