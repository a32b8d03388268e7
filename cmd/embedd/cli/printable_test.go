package cli

import "testing"

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
