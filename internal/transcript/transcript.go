// Package transcript replays files of events for tests of steps that do no I/O. A line is an event with its arguments,
// and what must come of it: "row seq=3 at=2s -> give 3". What follows # is a comment.
package transcript

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Event is one line.
type Event struct {
	Name string
	args map[string]string
	t    *testing.T
	at   string
}

// Text returns an argument unchanged, or "" if it is not given.
func (e *Event) Text(key string) string { return e.args[key] }

// Int is an argument that is a whole number, 0 where it is not given.
func (e *Event) Int(key string) int { return value(e, key, strconv.Atoi) }

// Float is an argument that is a number, 0 where it is not given.
func (e *Event) Float(key string) float64 {
	return value(e, key, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
}

// Time is an argument that is a duration, as a time after 1970; 1970 where it is not given.
func (e *Event) Time(key string) time.Time { return time.Unix(0, 0).Add(e.Duration(key)) }

// Duration is an argument that is a duration, 0 where it is not given.
func (e *Event) Duration(key string) time.Duration { return value(e, key, time.ParseDuration) }

func value[T any](e *Event, key string, parse func(string) (T, error)) (v T) {
	text, given := e.args[key]
	if !given {
		return v
	}
	v, err := parse(text)
	if err != nil {
		e.Fatalf("%s: %v", key, err)
	}
	return v
}

// Fatalf ends the test with the place of the event.
func (e *Event) Fatalf(format string, args ...any) {
	e.t.Helper()
	e.t.Fatalf(e.at+": "+format, args...)
}

// Replay runs each file that matches pattern as a separate test. begin prepares one, and returns a function that
// performs an event and reports its result.
func Replay(t *testing.T, pattern string, begin func() func(*Event) string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts %s: %v", pattern, err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) { replay(t, name, begin()) })
	}
}

func replay(t *testing.T, name string, take func(*Event) string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		text, want, _ := strings.Cut(text, "->")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		e := &Event{Name: words[0], args: map[string]string{}, t: t, at: name + ":" + strconv.Itoa(n)}
		for _, w := range words[1:] {
			key, v, _ := strings.Cut(w, "=")
			e.args[key] = v
		}
		if got := take(e); got != strings.TrimSpace(want) {
			t.Errorf("%s: %s\n got %s\nwant %s", e.at, strings.TrimSpace(text), got, strings.TrimSpace(want))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
