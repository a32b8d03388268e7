package wire

import "strconv"

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
	Attempts uint64 // deliveries of the input, the one that ended in this letter included
	Origin   Origin
	Kind     Kind
	Rows     string // places of the rejected rows in the message; with KindRows alone
}

// Pairs are the entries of a dead letter, in the order in which they are written. Embedd-Truncated comes after them,
// in the header alone: whether the body fits is known only when it is written.
func (l Letter) Pairs() []Pair {
	out := []Pair{{HeaderError, l.Error}, {HeaderCode, string(l.Code)},
		{HeaderAttempts, strconv.FormatUint(l.Attempts, 10)}}
	out = append(out, l.Origin.Pairs(0, 1)...)
	out = append(out, Pair{HeaderKind, string(l.Kind)})
	if l.Kind == KindRows {
		out = append(out, Pair{HeaderRows, l.Rows})
	}
	return out
}
