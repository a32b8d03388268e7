package file

import (
	"fmt"
	"strings"

	"github.com/embedd/embedd/arrowio/internal/number"
)

// Options configure how a file is read.
type Options struct {
	Format    string   // one of FormatNames; "": it is that of the path's suffix, or of the first bytes of standard input
	Delimiter rune     // between fields of CSV; 0: a tab for .tsv, else detected from the header line
	NoHeader  bool     // the first line of CSV is a row; the columns are named x0, x1, ...
	Decimal   rune     // decimal mark of CSV numbers, a punctuation mark; 0: a point
	Missing   []string // words for a missing value in CSV columns of any type, in addition to Missing
	// Label is the column of classes. If its type has fractions but its values are whole numbers, they become integers,
	// in every format: some tools write 1 as 1.0.
	Label string
	// Categories are columns of JSON whose numbers and booleans become text, as those of the label: 3 and "3" are the
	// same.
	Categories []string
	// Err ends the first pass over a CSV file, which may take minutes, with its error; nil: nothing does.
	Err   func() error
	types *csvTypes // of several CSV files; nil: each value is read first
}

// formatOf returns the format of a file by Options.Format or its suffix.
func (how Options) formatOf(path string) (formatName, error) {
	if how.Format == "" {
		return formatOf(path)
	}
	f, ok := named[how.Format]
	if !ok {
		return 0, fmt.Errorf("%s: there is no format %q: use %s", path, how.Format, strings.Join(FormatNames(), ", "))
	}
	return f, nil
}

// Missing reports whether a word means a missing value in a CSV column of numbers or booleans. In a text column only
// the empty text does, because the other words may be names.
func Missing(word string) bool { return number.IsMissing(word) }

// delimiters are those that the header line is searched for.
const delimiters = ",;\t|"

// delimiterIn returns the delimiters in a line outside of quotes.
func delimiterIn(line string) (found string) {
	quoted := false
	for _, r := range line {
		if r == '"' {
			quoted = !quoted
		} else if !quoted && strings.ContainsRune(delimiters, r) && !strings.ContainsRune(found, r) {
			found += string(r)
		}
	}
	return found
}

// delimiterName returns the name of a delimiter in errors.
func delimiterName(r rune) string {
	switch r {
	case ',':
		return "a comma"
	case ';':
		return "a semicolon"
	case '\t':
		return "a tab"
	}
	return string(r)
}
