package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestPrintable: no text of a publisher controls the terminal, and any other stays as it is.
func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"":                       "",
		"line\tof\ntext, ä 😀 �":  "line\tof\ntext, ä 😀 �",
		"\x1b[2Jcleared":         `\x1b[2Jcleared`,
		"a\rb\x00\x07\x7f":       `a\rb\x00\a\x7f`,
		"c1 \u009b31m":           `c1 \u009b31m`,
		"\u202egnp.exe":          `\u202egnp.exe`,
		"not UTF-8 \x9b\xff end": `not UTF-8 \x9b\xff end`,
	} {
		if got := Printable(s); got != want {
			t.Errorf("%q is printed as %q, want %q", s, got, want)
		}
	}
}

// TestNoteIsALine: a line break in the name of a column does not begin another line.
func TestNoteIsALine(t *testing.T) {
	var out bytes.Buffer
	(&Env{Stderr: &out}).Notef("column %s", "a\nembedd: all is well\x1b[2J")
	if got, want := out.String(), `embedd: note: column a\nembedd: all is well\x1b[2J`+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPrintableJSON: JSON has no character that a terminal interprets, and decodes to the same value.
func TestPrintableJSON(t *testing.T) {
	const text = "\x1b[2J\x7f \u009b31m \u202egnp.exe\n ä"
	line, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if n, err := (PrintableJSON{&out}).Write(append(line, '\n')); err != nil || n != len(line)+1 {
		t.Fatal(n, err)
	}
	var got string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != text {
		t.Errorf("%q decodes to %q: %v", out.String(), got, err)
	}
	if strings.ContainsFunc(out.String(), isInterpreted) {
		t.Errorf("%q", out.String())
	}
}
