package wire

import (
	"fmt"
	"strconv"
)

// Kind is what the body of a dead letter contains.
type Kind string

// The kinds of dead letter.
const (
	KindMessage Kind = "message" // the original message
	KindRows    Kind = "rows"    // an Arrow message of the original schema with only the rejected rows
)

// Letter is the metadata of a dead letter.
type Letter struct {
	Error    string // what was wrong and how to fix it
	Code     Code
	Attempts uint64 // how often embedd tried to process the input, including the last time
	Origin   Origin
	Subject  string // of the input
	Pipeline string
	Kind     Kind
	Rows     string // positions of the rejected rows in the message; only with KindRows
}

// Pairs returns the pairs of a dead letter, in the order in which they are written. Embedd-Part, Embedd-Letter and
// Embedd-Truncated follow in the headers only.
func (l Letter) Pairs() []Pair {
	out := []Pair{{HeaderError, l.Error}, {HeaderCode, string(l.Code)},
		{HeaderAttempts, strconv.FormatUint(l.Attempts, 10)}}
	out = l.Origin.AppendPairs(out, 0, 1)
	out = append(out, Pair{HeaderSubject, l.Subject}, Pair{HeaderPipeline, l.Pipeline},
		Pair{HeaderKind, string(l.Kind)})
	if l.Kind == KindRows {
		out = append(out, Pair{HeaderRows, l.Rows})
	}
	return out
}

// PartOf returns the value of Embedd-Part for a part counted from 0.
func PartOf(part, parts int) string { return fmt.Sprintf("%d/%d", part+1, parts) }

// ParsePart reads the value of Embedd-Part. Without one, the message is the only part.
func ParsePart(value string) (part, parts int, ok bool) {
	if value == "" {
		return 0, 1, true
	}
	n, err := fmt.Sscanf(value, "%d/%d", &part, &parts)
	return part - 1, parts, n == 2 && err == nil && part >= 1 && part <= parts
}
