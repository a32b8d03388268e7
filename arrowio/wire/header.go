package wire

import (
	"strconv"
	"strings"
)

// The headers. All but Content-Type are also in the schema's metadata.
const (
	HeaderContentType = "Content-Type"

	HeaderWire   = "Embedd-Wire"
	HeaderModel  = "Embedd-Model"
	HeaderMethod = "Embedd-Method"
	HeaderEpoch  = "Embedd-Epoch"
	HeaderSource = "Embedd-Source"
	HeaderPart   = "Embedd-Part"
	HeaderStale  = "Embedd-Stale"

	HeaderRedelivered = "Embedd-Redelivered"

	// Headers of dead letters; Embedd-Source is on these too.
	HeaderError     = "Embedd-Error"
	HeaderCode      = "Embedd-Code"
	HeaderAttempts  = "Embedd-Attempts"
	HeaderKind      = "Embedd-Kind"
	HeaderRows      = "Embedd-Rows"
	HeaderSubject   = "Embedd-Subject"
	HeaderLetter    = "Embedd-Letter"
	HeaderTruncated = "Embedd-Truncated"
)

const (
	NATSPrefix  = "Nats-"                               // prefix of the server's headers
	Prefix      = "Embedd-"                             // prefix of embedd's headers
	Version     = "1"                                   // the value of Embedd-Wire
	ContentType = "application/vnd.apache.arrow.stream" // the value of Content-Type
)

// Reserved reports whether a header belongs to the server or to embedd, in any case of letters. Such headers are not
// copied from an input, because a client or a mirror might interpret them.
func Reserved(name string) bool { return begins(name, NATSPrefix) || begins(name, Prefix) }

func begins(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// Pair is an entry of the headers or of the schema's metadata.
type Pair struct{ Key, Value string }

// VersionPair returns the pair with the version of docs/wire.md that a message follows.
func VersionPair() Pair { return Pair{HeaderWire, Version} }

// Model identifies the model of an output.
type Model struct {
	Version string // its version in the store, else the first 16 hexadecimal digits of its digest
	Method  string
	Epoch   uint64 // outputs are comparable within one epoch
}

// Pairs returns the pairs of a model, in the order in which they are written.
func (m Model) Pairs() []Pair {
	return []Pair{{HeaderModel, m.Version}, {HeaderMethod, m.Method}, {HeaderEpoch, strconv.FormatUint(m.Epoch, 10)}}
}
