package wire

import (
	"fmt"
	"strconv"
)

// Kind says what the body of a dead letter holds.
type Kind string

// The kinds of dead letter.
const (
	KindMessage Kind = "message" // the original message
	KindRows    Kind = "rows"    // an Arrow message of the original schema with only the rejected rows
)

// Letter is what a dead letter says of itself.
type Letter struct {
	Error    string // what was wrong and how to mend it
	Code     Code
	Attempts uint64 // how often embedd tried to process the input, the time that ended in this letter included
	Origin   Origin
	Subject  string // of the input
	Kind     Kind
	Rows     string // places of the rejected rows in the message; with KindRows alone
}

// Pairs are the entries of a dead letter, in the order in which they are written. How its body left comes after them, in
// the header alone: Embedd-Part, Embedd-Letter and Embedd-Truncated.
func (l Letter) Pairs() []Pair {
	out := []Pair{{HeaderError, l.Error}, {HeaderCode, string(l.Code)},
		{HeaderAttempts, strconv.FormatUint(l.Attempts, 10)}}
	out = append(out, l.Origin.Pairs(0, 1)...)
	out = append(out, Pair{HeaderSubject, l.Subject}, Pair{HeaderKind, string(l.Kind)})
	if l.Kind == KindRows {
		out = append(out, Pair{HeaderRows, l.Rows})
	}
	return out
}

// PartOf is the value of Embedd-Part, a part counted from 0.
func PartOf(part, parts int) string { return fmt.Sprintf("%d/%d", part+1, parts) }

// ParsePart reads the value of Embedd-Part; a message that has none is the only part.
func ParsePart(value string) (part, parts int, ok bool) {
	if value == "" {
		return 0, 1, true
	}
	n, err := fmt.Sscanf(value, "%d/%d", &part, &parts)
	return part - 1, parts, n == 2 && err == nil && part >= 1 && part <= parts
}
