package wire

import (
	"slices"
	"strings"
)

// The headers. All but Content-Type are also in the schema's metadata. The comment behind a new one is its row in the
// table of docs/wire.md, which go test -run TestDocument -update adds: "on output: the model's version in the store".
const (
	HeaderContentType = "Content-Type"

	HeaderWire   = "Embedd-Wire"
	HeaderModel  = "Embedd-Model"
	HeaderMethod = "Embedd-Method"
	HeaderEpoch  = "Embedd-Epoch"
	HeaderSameAs = "Embedd-Same" // on output: the first of the epochs recorded as one with it; else absent
	// on output: absent in the first epoch; the version whose `embedd model show` has the map from the outputs of the
	// epoch before, see docs/models.md
	HeaderConversion = "Embedd-Conversion"
	HeaderSource     = "Embedd-Source"
	HeaderPart       = "Embedd-Part"
	HeaderStale      = "Embedd-Stale"

	HeaderRedelivered = "Embedd-Redelivered"

	// Headers of dead letters; Embedd-Source is on these too.
	HeaderError     = "Embedd-Error"
	HeaderCode      = "Embedd-Code"
	HeaderAttempts  = "Embedd-Attempts"
	HeaderKind      = "Embedd-Kind"
	HeaderRows      = "Embedd-Rows"
	HeaderSubject   = "Embedd-Subject"
	HeaderPipeline  = "Embedd-Pipeline" // on dead letter: the pipeline; several may share a subject of dead letters
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

// bodyHeaders describe the body of a message, by the names of HTTP.
var bodyHeaders = []string{HeaderContentType, "Content-Digest", "Content-Encoding", "Content-Length", "Content-MD5",
	"Content-Range", "Digest", "ETag", "Repr-Digest", "Transfer-Encoding"}

// DescribesBody reports whether a header describes the body of its message, in any case of letters. Such headers of an
// input are not copied to a message with another body.
func DescribesBody(name string) bool {
	return slices.ContainsFunc(bodyHeaders, func(h string) bool { return strings.EqualFold(h, name) })
}

func begins(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// Pair is an entry of the headers or of the schema's metadata.
type Pair struct{ Key, Value string }

// VersionPair returns the pair with the version of docs/wire.md that a message follows.
func VersionPair() Pair { return Pair{HeaderWire, Version} }
