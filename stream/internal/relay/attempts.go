package relay

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/internal/scope"
)

// attempts counts the attempts at messages that an earlier process had and did not acknowledge: one of them may have
// crashed it. Each of them is processed alone. From its third delivery on, an attempt is stored in the state bucket
// before it begins, where the next process finds it. After Pipeline.Attempts of them the message becomes a dead letter.
// The number of deliveries is no measure: it also counts those of messages that were queued behind the one that crashed
// the process.
type attempts struct {
	created  time.Time // of the input stream
	upTo     uint64    // sequence of the newest message that was delivered before this process started
	sharedAt time.Time // when another process was last seen to receive messages, or some were lost

	mu      sync.Mutex
	floor   uint64            // all messages up to here are acknowledged or will not be delivered again
	counts  map[uint64]uint64 // attempts by sequence, as last read or stored
	legacy  map[uint64]uint64 // those that earlier versions stored in the consumer's metadata
	askedAt time.Time
	since   time.Time
}

// attemptsMetadata is the key of the consumer's metadata where earlier versions stored attempts, as
// sequence:attempts,... maxCounted bounds the messages that are counted: the newest stay.
const (
	attemptsMetadata = "embedd_trials"
	maxCounted       = 64
)

// attemptsNote is the value of a source's key in the state bucket.
type attemptsNote struct {
	Created  int64             `json:"stream_created"` // of the input stream, in nanoseconds
	Attempts map[uint64]uint64 `json:"attempts"`       // by sequence
}

// begin starts with what the consumer and the stored note say.
func (t *attempts) begin(note []byte, created time.Time, c *jetstream.ConsumerInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.created, t.floor, t.upTo, t.since = created, c.AckFloor.Stream, c.Delivered.Stream, time.Now()
	if c.NumAckPending == 0 {
		t.floor = t.upTo
	}
	t.legacy = parseAttempts(c.Config.Metadata[attemptsMetadata])
	t.counts = t.parse(note)
}

// parse reads a note. A note about another stream of the same name is ignored.
func (t *attempts) parse(note []byte) map[uint64]uint64 {
	var n attemptsNote
	if json.Unmarshal(note, &n) != nil || n.Created != t.created.UnixNano() || n.Attempts == nil {
		return maps.Clone(t.legacy)
	}
	return n.Attempts
}

// isSuspect reports whether another process had a message and did not acknowledge it. previous is the consumer sequence
// of the delivery before.
func (t *attempts) isSuspect(m *scope.Message, previous uint64, ackWait time.Duration) bool {
	if m.ConsumerSeq != previous+1 {
		t.sharedAt = time.Now()
	}
	return m.Delivered > 1 && (time.Since(t.sharedAt) < 2*ackWait ||
		m.Origin.Seq <= t.upTo && m.Origin.Created.Equal(t.created))
}

func parseAttempts(text string) map[uint64]uint64 {
	counts := map[uint64]uint64{}
	for _, one := range strings.Split(text, ",") {
		number, count, _ := strings.Cut(one, ":")
		seq, err := strconv.ParseUint(number, 10, 64)
		n, err2 := strconv.ParseUint(count, 10, 64)
		if err == nil && err2 == nil {
			counts[seq] = n
		}
	}
	return counts
}
