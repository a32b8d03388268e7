package wire

import (
	"strconv"
	"strings"
)

// The headers. But for Content-Type they stand in the schema's metadata too.
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

	// Of dead letters, beside Embedd-Source.
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
	NATSPrefix  = "Nats-"                               // of every header that is the server's
	Prefix      = "Embedd-"                             // of every header that is embedd's own
	Version     = "1"                                   // the value of Embedd-Wire
	ContentType = "application/vnd.apache.arrow.stream" // the value of Content-Type
)

// Reserved tells whether a header's name is the server's or embedd's own, in whatever case of letters: neither is
// copied from an input, for what a server does not read some client or mirror may.
func Reserved(name string) bool { return begins(name, NATSPrefix) || begins(name, Prefix) }

func begins(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// Pair is one entry of the headers or of the schema's metadata.
type Pair struct{ Key, Value string }

// VersionPair is the entry that says which version of the contract a message follows.
func VersionPair() Pair { return Pair{HeaderWire, Version} }

// Model names the model that made an output.
type Model struct {
	Version string // its name in the store, else the first 16 hexadecimal digits of its digest
	Method  string
	Epoch   uint64 // outputs are comparable within one epoch
}

// Pairs are the entries of a model, in the order in which they are written.
func (m Model) Pairs() []Pair {
	return []Pair{{HeaderModel, m.Version}, {HeaderMethod, m.Method}, {HeaderEpoch, strconv.FormatUint(m.Epoch, 10)}}
}
