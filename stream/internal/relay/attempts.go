package relay

import (
	"encoding/json"
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
	askedAt time.Time
	since   time.Time
}

// maxCounted bounds the messages that are counted: the newest stay.
const maxCounted = 64

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
	t.counts = t.parse(note)
}

// parse reads a note. A note about another stream of the same name is ignored.
func (t *attempts) parse(note []byte) map[uint64]uint64 {
	var n attemptsNote
	if json.Unmarshal(note, &n) != nil || n.Created != t.created.UnixNano() || n.Attempts == nil {
		return map[uint64]uint64{}
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
