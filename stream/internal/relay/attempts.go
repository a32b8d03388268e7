package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// attempts counts the attempts at messages that an earlier process received and did not acknowledge: one of them may
// have crashed it. Each is processed alone. From its third delivery on, an attempt is stored in the state bucket before
// it begins. After Pipeline.Attempts of them the message becomes a dead letter. The number of deliveries is no measure:
// it includes those of messages that were queued behind the one that crashed the process.
type attempts struct {
	*scope.Scope
	durable  string    // name of the consumer
	created  time.Time // of the input stream
	upTo     uint64    // sequence of the newest message that was delivered before this process started
	sharedAt time.Time // when another process was last seen to receive messages, or some were lost

	mu      sync.Mutex
	floor   uint64       // all messages up to here are acknowledged or will not be delivered again
	note    attemptsNote // as last read or stored
	askedAt time.Time
	since   time.Time
}

// maxCounted bounds the messages that are counted: the one that is attempted now and the newest stay.
const maxCounted = 64

// attemptsNote is the value of a consumer's key in the state bucket.
type attemptsNote struct {
	Created  int64             `json:"stream_created"` // of the input stream, in nanoseconds
	Attempts map[uint64]uint64 `json:"attempts"`       // by sequence
	Stored   map[uint64]int64  `json:"stored"`         // when each message was stored, in nanoseconds
}

// of returns the attempts at a message. If an older copy of the stream was restored, a new message has the sequence of
// another one, and a different time.
func (n *attemptsNote) of(m *scope.Message) uint64 {
	if stored := n.Stored[m.Origin.Seq]; stored != 0 && stored != m.Time.UnixNano() {
		return 0
	}
	return n.Attempts[m.Origin.Seq]
}

// load starts with the state of a consumer and what is stored about its messages.
func (t *attempts) load(ctx context.Context, s *scope.Scope, created time.Time, c *jetstream.ConsumerInfo) error {
	t.mu.Lock()
	if t.Scope == nil { // the transformer and training read them without the lock while the consumer is bound again
		t.Scope, t.durable = s, c.Name
	}
	t.mu.Unlock()
	note, _, err := s.State.Get(ctx, t.key())
	if err != nil {
		return fmt.Errorf("reading the stored attempts of consumer %s: %w", c.Name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.created, t.floor, t.upTo, t.since = created, c.AckFloor.Stream, c.Delivered.Stream, time.Now()
	if c.NumAckPending == 0 {
		t.floor = t.upTo
	}
	t.note = t.parse(note)
	return nil
}

func (t *attempts) key() string {
	q, _ := needs.ParsePartition(t.ConsumerName(), t.durable)
	return statestore.AttemptsKey(t.Name, q.String())
}

// parse reads a note. A note about another stream of the same name is ignored.
func (t *attempts) parse(note []byte) (n attemptsNote) {
	if json.Unmarshal(note, &n) != nil || n.Created != t.created.UnixNano() || n.Attempts == nil {
		n = attemptsNote{Created: t.created.UnixNano(), Attempts: map[uint64]uint64{}}
	}
	if n.Stored == nil { // also in a note of an earlier version
		n.Stored = map[uint64]int64{}
	}
	return n
}

// isSuspect reports whether another process had a message and did not acknowledge it. previous is the consumer sequence
// of the delivery before.
func (t *attempts) isSuspect(m *scope.Message, previous uint64) bool {
	if m.ConsumerSeq != previous+1 {
		t.sharedAt = time.Now()
	}
	return m.Delivered > 1 && (time.Since(t.sharedAt) < 2*t.AckWait ||
		m.Origin.Seq <= t.upTo && m.Origin.Created.Equal(t.created))
}

// record stores that an attempt is about to begin, and returns how many there were. The first two deliveries count
// without being stored: few messages are delivered a third time. It retries until ctx is done.
func (t *attempts) record(ctx context.Context, m *scope.Message) uint64 {
	for attempt := 0; ; attempt++ {
		n, err := t.increment(ctx, m)
		if err == nil || ctx.Err() != nil {
			return n
		}
		t.Log.Warn("an attempt cannot be stored before it begins; trying again", "source", m.Origin.Source(), "error", err)
		if !natsx.Backoff(ctx, attempt) {
			return n
		}
	}
}

func (t *attempts) increment(ctx context.Context, m *scope.Message) (uint64, error) {
	var note attemptsNote
	seq := m.Origin.Seq
	_, err := t.State.Modify(ctx, t.key(), func(value []byte) ([]byte, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		note = t.parse(value)
		n := max(note.of(m), 2) + 1
		delete(note.Attempts, seq) // it stays, also if it is the oldest
		sequences := slices.Sorted(maps.Keys(note.Attempts))
		for _, oldest := range sequences[:max(0, len(sequences)-maxCounted+1)] {
			delete(note.Attempts, oldest)
			delete(note.Stored, oldest)
		}
		note.Attempts[seq], note.Stored[seq] = n, m.Time.UnixNano()
		return json.Marshal(note)
	})
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note = note
	return note.Attempts[seq], nil
}

// areUsedUp reports whether more attempts at a message were recorded than are allowed.
func (t *attempts) areUsedUp(m *scope.Message) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return m.Origin.Created.Equal(t.created) && t.note.of(m) > t.Attempts
}

// retractTimeout is how long the server may take to remove an attempt.
const retractTimeout = 2 * time.Second

// retract removes the attempt at an input that is not answered here: it did not crash the process. It is called while
// nothing else is in progress, or at a stop.
func (t *attempts) retract(ctx context.Context, in *input) {
	if !in.isCounted {
		return
	}
	in.isCounted = false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), retractTimeout)
	defer cancel()
	_, err := t.State.Modify(ctx, t.key(), func(value []byte) ([]byte, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		note := t.parse(value)
		if note.of(&in.Message) == 0 { // any client can write the bucket
			return value, nil
		}
		note.Attempts[in.Origin.Seq]--
		return json.Marshal(note)
	})
	if err != nil {
		t.Log.Warn("an attempt that did not crash the process stays recorded", "source", in.Origin.Source(), "error", err)
	}
}

// attemptPoll is how often it is checked whether a message was answered.
const attemptPoll = 100 * time.Millisecond

// mayLearn reports whether a message may be used for training, which is not the case if it has crashed processes. A
// message that is suspected of it must be answered first, and mayLearn waits for that for a limited time. created is
// the creation time of the stream.
func (t *attempts) mayLearn(ctx context.Context, m *scope.Message, created time.Time, g *answerGate) bool {
	seq := m.Origin.Seq
	for {
		t.mu.Lock()
		isCounted := created.Equal(t.created) && seq <= t.upTo
		crashes := isCounted && t.note.of(m) > t.Attempts
		waits := isCounted && !crashes && seq > t.floor && time.Since(t.since) < 3*t.AckWait && !g.isWaitingForModel()
		ask := waits && time.Since(t.askedAt) > attemptPoll
		if ask {
			t.askedAt = time.Now()
		}
		t.mu.Unlock()
		if !waits {
			return !crashes
		}
		if ask {
			if c, err := t.JS.Consumer(ctx, t.Stream, t.durable); err == nil {
				info := c.CachedInfo()
				t.mu.Lock()
				t.floor = max(t.floor, info.AckFloor.Stream)
				if info.NumAckPending == 0 {
					t.floor = t.upTo
				}
				t.mu.Unlock()
				continue
			}
		}
		if !natsx.Sleep(ctx, attemptPoll) {
			return false
		}
	}
}
