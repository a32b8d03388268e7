package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable replaces what a terminal would interpret, control characters and marks of text direction, and invalid UTF-8
// by Go escapes such as \x1b. Line breaks and tabs stay. Texts of publishers reach the terminal only through it.
func Printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, isInterpreted) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case isInterpreted(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isInterpreted(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}

// escapeBreaks replaces line breaks by escapes.
func escapeBreaks(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }

// OneLine replaces the line breaks of a text by spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// PrintableJSON writes JSON with the same characters as JSON escapes, which decode to them.
type PrintableJSON struct{ io.Writer }

// Write writes whole characters.
func (w PrintableJSON) Write(p []byte) (int, error) {
	text := string(p)
	if utf8.ValidString(text) && !strings.ContainsFunc(text, isInterpreted) {
		return w.Writer.Write(p)
	}
	var b strings.Builder
	for _, r := range text {
		if isInterpreted(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	if _, err := io.WriteString(w.Writer, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}
