package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// trials knows the messages that an earlier process had and did not acknowledge: one of them may have crashed it. Each
// is processed alone. From its third delivery on the attempt is noted before it begins, in the state bucket, where the
// next process finds it; after Attempts of them the message becomes a dead letter. The number of deliveries is no
// measure: it also counts those of messages that waited behind the one that crashed the process.
type trials struct {
	created time.Time // of the stream of which floor and upTo are numbers
	upTo    uint64    // number of the newest message that was delivered before this process began
	shared  time.Time // when another process was seen to get messages too, or some were lost on their way

	mu     sync.Mutex
	floor  uint64            // all up to here were acknowledged, or will not come again
	counts map[uint64]uint64 // attempts by sequence, as they were last read or noted
	legacy map[uint64]uint64 // those that an earlier version noted, in the consumer's metadata
	asked  time.Time
	since  time.Time
}

// metaTrials is the key of the consumer's metadata under which earlier versions noted attempts, as
// sequence:attempts,... maxTrials bounds how many messages are noted: the newest stay.
const (
	metaTrials = "embedd_trials"
	maxTrials  = 64
)

// trialsNote is the value of a lane's key in the state bucket.
type trialsNote struct {
	Created  int64             `json:"stream_created"` // of the input stream, in nanoseconds
	Attempts map[uint64]uint64 `json:"attempts"`       // by sequence
}

// beginTrials reads what is known of a lane when the process begins.
func (p *relay) beginTrials(ctx context.Context, l *lane, created time.Time, c *jetstream.ConsumerInfo) error {
	note, _, err := p.State.Get(ctx, p.trialsKey(l))
	if err != nil {
		return fmt.Errorf("reading the noted attempts of %s: %w", l.durable, err)
	}
	l.trials.begin(note, created, c)
	return nil
}

// trialsKey is the key of a lane's note in the state bucket.
func (p *relay) trialsKey(l *lane) string {
	q, _ := needs.ParsePartition(p.whole.durable, l.durable)
	return statestore.AttemptsKey(p.Name, q.String())
}

// begin takes what the consumer and the note know.
func (t *trials) begin(note []byte, created time.Time, c *jetstream.ConsumerInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.created, t.floor, t.upTo, t.since = created, c.AckFloor.Stream, c.Delivered.Stream, time.Now()
	if c.NumAckPending == 0 {
		t.floor = t.upTo
	}
	t.legacy = readTrials(c.Config.Metadata[metaTrials])
	t.counts = t.read(note)
}

// read reads a note. One of another stream under the same name says nothing of this one.
func (t *trials) read(note []byte) map[uint64]uint64 {
	var n trialsNote
	if json.Unmarshal(note, &n) != nil || n.Created != t.created.UnixNano() || n.Attempts == nil {
		return maps.Clone(t.legacy)
	}
	return n.Attempts
}

// concerns tells whether a message was another process's, and not acknowledged by it. number is that of the consumer's
// delivery before.
func (t *trials) concerns(in *input, number uint64, ackWait time.Duration) bool {
	if in.ConsumerSeq != number+1 {
		t.shared = time.Now()
	}
	return in.Delivered > 1 && (time.Since(t.shared) < 2*ackWait ||
		in.Origin.Seq <= t.upTo && in.Origin.Created.Equal(t.created))
}

func readTrials(text string) map[uint64]uint64 {
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

// forgetOldest keeps the newest messages.
func forgetOldest(counts map[uint64]uint64) {
	sequences := slices.Sorted(maps.Keys(counts))
	for _, seq := range sequences[:max(0, len(sequences)-maxTrials)] {
		delete(counts, seq)
	}
}

// try answers a message. One that a process before this one had is a dead letter where too many have died of it.
func (p *relay) try(ctx context.Context, in *input) *answer {
	p.suspect(ctx, in)
	if !in.tried || in.Delivered < 3 || p.parked.has(in) {
		return p.answer(ctx, in)
	}
	n := p.writeDown(ctx, in)
	if n <= p.Attempts {
		return p.answer(ctx, in)
	}
	in.attempts = p.Attempts
	a := p.deadMessage(&answer{in: in}, &arrowio.Error{Code: wire.ProcessDied, Row: -1,
		Detail: fmt.Sprintf("the process died %d times while it had this message, and nothing else when it died last",
			in.attempts),
		Hint: "see what is in it, and how much memory the process may have; replay it then"})
	p.tail.markStored(ctx, a, true)
	return a
}

// writeDown counts an attempt that is about to begin, for the process after this one. The first two deliveries are
// counted without: of the first nobody knew, and few messages come a third time.
func (p *relay) writeDown(ctx context.Context, in *input) uint64 {
	for attempt := 0; ; attempt++ {
		n, err := p.countTrial(ctx, in)
		if err == nil || ctx.Err() != nil {
			return n
		}
		p.Log.Warn("an attempt cannot be written down before it begins; trying again", "source", in.Origin.Source(),
			"error", err)
		if !natsx.Backoff(ctx, attempt) {
			return n
		}
	}
}

func (p *relay) countTrial(ctx context.Context, in *input) (uint64, error) {
	seq, counts, t := in.Origin.Seq, map[uint64]uint64(nil), &in.lane.trials
	_, err := p.State.Modify(ctx, p.trialsKey(in.lane), func(note []byte) ([]byte, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		counts = t.read(note)
		counts[seq] = max(counts[seq], 2) + 1
		forgetOldest(counts)
		return json.Marshal(trialsNote{t.created.UnixNano(), counts})
	})
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts = counts
	return counts[seq], nil
}

// trialPoll is how often it is checked whether a message was answered.
const trialPoll = 100 * time.Millisecond

// mayLearn tells whether a message may be learned from: not where it has killed. One of which that is not known yet
// waits until it was answered, for a while: the learning side must not die of it before the hot path has tried it.
func (p *relay) mayLearn(ctx context.Context, seq uint64, created time.Time) bool {
	if p.Partitions > 0 {
		return true // another replica may answer it; what kills who learns is found by care
	}
	t := &p.whole.trials
	for {
		t.mu.Lock()
		concerned := created.Equal(t.created) && seq <= t.upTo
		deadly := concerned && t.counts[seq] > p.Attempts
		waits := concerned && !deadly && seq > t.floor && time.Since(t.since) < 3*p.AckWait && p.gate.closed()&holding == 0
		ask := waits && time.Since(t.asked) > trialPoll
		if ask {
			t.asked = time.Now()
		}
		t.mu.Unlock()
		if !waits {
			return !deadly
		}
		if ask {
			if c, err := p.JS.Consumer(ctx, p.Stream, p.whole.durable); err == nil {
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
		select {
		case <-time.After(trialPoll):
		case <-ctx.Done():
			return false
		}
	}
}
