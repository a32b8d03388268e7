package file

import (
	"slices"
	"strings"
)

// Options say how a file is read, where the file does not.
type Options struct {
	Delimiter rune     // between the fields of CSV; 0: a tab for .tsv, else what the header line tells
	Decimal   rune     // between the whole and the fraction of a CSV number; 0: a point
	Missing   []string // words of CSV that stand for no value in a column of any type, beside Missing()
	// Label is the column of classes. Whole numbers in a type with fractions are integers there, in every format:
	// what one tool writes as 1, another writes as 1.0.
	Label string
}

var missing = []string{"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"}

// Missing tells the words that stand for no value in a CSV column of numbers or booleans. In a column of text only the
// empty one does: there the others may be names.
func Missing(word string) bool { return slices.Contains(missing, word) }

// delimiters are those that a header line may tell.
const delimiters = ",;\t|"

// delimiterIn returns those delimiters that stand in a line outside of quotes.
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

// delimiterName is what an error calls it.
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
