package natsx

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A server checks whether a client may publish on the subject of a request, and does not check the subject of the
// reply. So a client that may send any request can have the answer stored under any subject: under a key of a bucket,
// for which it has no permission.

// isWritten reports whether a message was written as an entry: it has the mark of a Bucket or was written by
// compare-and-set, as by earlier versions, whose header a mirror or source of the stream loses. Answers of a server
// have neither, or are copies of stored messages, which the server marks with the place of the original.
func isWritten(header nats.Header) bool {
	return (header.Get(writerHeader) != "" || header.Get(jetstream.ExpectedLastSubjSeqHeader) != "") &&
		!IsCopy(header)
}

// IsCopy reports whether a stored message is an answer with another stored message.
func IsCopy(header nats.Header) bool { return len(header[jetstream.StreamHeader]) > 0 }

// withoutPlace returns the stored header of a message that was read with a direct get, to which the server has added
// where the message is stored.
func withoutPlace(header nats.Header) nats.Header {
	stored := maps.Clone(header)
	if places := stored[jetstream.StreamHeader]; len(places) > 0 {
		stored[jetstream.StreamHeader] = places[:len(places)-1]
	}
	return stored
}

const (
	// refusalAge is how long a refusal is reported: the key is usually written again at once.
	refusalAge = 10 * time.Minute
	// maxRefused bounds the keys of which a refusal is kept.
	maxRefused = 1000
)

// refuse notes that a key has a message that no client wrote there on purpose.
func (b *Bucket) refuse(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused == nil {
		b.refused = map[string]time.Time{}
	}
	if _, isKnown := b.refused[key]; isKnown || len(b.refused) < maxRefused {
		b.refused[key] = time.Now()
	}
}

// Refused returns the subjects of what Get has refused in the last minutes under a key, and under those that begin with
// it and a dot.
func (b *Bucket) Refused(key string) (subjects []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range slices.Sorted(maps.Keys(b.refused)) {
		if time.Since(b.refused[one]) > refusalAge {
			delete(b.refused, one)
		} else if one == key || strings.HasPrefix(one, key+".") {
			subjects = append(subjects, b.subject(one))
		}
	}
	return subjects
}
