package file

import (
	"cmp"
	"strings"
	"unicode"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio/internal/number"
)

// columnKind is the common type of the values of a column.
type columnKind struct {
	values              int // values that are not missing
	words               int // words for missing values, unless the column is text
	ints, floats, bools int
	yesNo, units        int // texts that are yes or no, and numbers with unit
	unit                string
	zeros               int // integers written with leading zeros: identifiers, not quantities
	textLine            int // line of the first value that is not a number
	text                string
	textFile            string // " of FILE" if there are several files
	missing             string // a word of Options.Missing that is a boolean, and a value of the column
}

// merge adds the counts of the same column of another file.
func (k *columnKind) merge(other columnKind, path string) {
	k.values, k.words = k.values+other.values, k.words+other.words
	k.ints, k.floats, k.bools = k.ints+other.ints, k.floats+other.floats, k.bools+other.bools
	k.zeros += other.zeros
	k.yesNo += other.yesNo
	if k.unit = cmp.Or(k.unit, other.unit); k.unit == other.unit {
		k.units += other.units
	}
	if k.textLine == 0 && other.textLine > 0 {
		k.textLine, k.text, k.textFile = other.textLine, other.text, " of "+path
	}
	if k.missing == "" {
		k.missing = other.missing
	}
}

// see counts a trimmed value that is not missing in every column. plain is its kind by number.Scan.
func (k *columnKind) see(s string, plain number.Kind, decimal rune, line int) {
	if plain == number.None && number.IsMissing(s) {
		k.words++
		return
	}
	k.values++
	if plain == number.Integer && number.FitsInt64(s) {
		k.ints++
		k.floats++
		if digits := strings.TrimLeft(s, "+-"); len(digits) > 1 && digits[0] == '0' {
			k.zeros++
		}
		return
	}
	if plain != number.None {
		k.floats++
		return
	}
	if _, ok := number.Parse(s, decimal); ok { // an infinity
		k.floats++
		return
	}
	if k.textLine == 0 {
		k.textLine, k.text = line, s
	}
	if _, ok := number.ParseBool(s); ok {
		k.bools++
	}
	if strings.EqualFold(s, "yes") || strings.EqualFold(s, "no") {
		k.yesNo++
	}
	if unit := unitOf(s, decimal); unit != "" && unit == cmp.Or(k.unit, unit) {
		k.units, k.unit = k.units+1, unit
	}
}

func (k *columnKind) dataType() arrow.DataType {
	switch {
	case k.values == 0: // no value; a text column of nulls is never taken for a feature
		return arrow.BinaryTypes.String
	case k.ints == k.values && k.zeros > 0:
		return arrow.BinaryTypes.String
	case k.ints == k.values:
		return arrow.PrimitiveTypes.Int64
	case k.floats == k.values:
		return arrow.PrimitiveTypes.Float64
	case k.bools == k.values:
		return arrow.FixedWidthTypes.Boolean
	}
	return arrow.BinaryTypes.String
}

// unitOf returns the word after a number, such as kg in 1.29 kg; "" if the text has another form.
func unitOf(text string, decimal rune) string {
	value, unit, _ := strings.Cut(text, " ")
	if unit == "" || strings.ContainsFunc(unit, func(r rune) bool { return !unicode.IsLetter(r) }) {
		return ""
	}
	if _, isNumber := number.Parse(value, decimal); !isNumber {
		return ""
	}
	return unit
}
