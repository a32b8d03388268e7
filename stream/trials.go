package stream

import (
	"context"
	"errors"
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
)

// trials knows the messages that a process before this one had and did not acknowledge: one of them may be why it died.
// Each is answered alone, with nothing else under way. From its third delivery on the attempt is written down before it
// begins, with the consumer, where the next process finds it; after so many the message is a dead letter. The number of
// its deliveries would not tell: it counts those too that waited behind the one that killed.
type trials struct {
	created time.Time // of the stream of which floor and upTo are numbers
	upTo    uint64    // number of the newest message that was delivered before this process began
	shared  time.Time // when another process was seen to get messages too, or some were lost on their way

	mu     sync.Mutex
	floor  uint64            // all up to here were acknowledged, or will not come again
	counts map[uint64]uint64 // attempts that were written down
	asked  time.Time
	since  time.Time
}

// metaTrials is the key of the consumer's metadata under which attempts are written down, as number:attempts,...
// maxTrials bounds them: the newest stay.
const (
	metaTrials = "embedd_trials"
	maxTrials  = 64
)

// begin takes what the consumer knows when the process begins.
func (t *trials) begin(created time.Time, c *jetstream.ConsumerInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.created, t.floor, t.upTo, t.since = created, c.AckFloor.Stream, c.Delivered.Stream, time.Now()
	if c.NumAckPending == 0 {
		t.floor = t.upTo
	}
	t.counts = readTrials(c.Config.Metadata[metaTrials])
}

// concerns tells whether a message was another process's, and not acknowledged by it. number is that of the consumer's
// delivery before.
func (t *trials) concerns(in *input, number uint64, ackWait time.Duration) bool {
	if in.number != number+1 {
		t.shared = time.Now()
	}
	return in.delivered > 1 && (time.Since(t.shared) < 2*ackWait ||
		in.origin.Seq <= t.upTo && in.origin.Created.Equal(t.created))
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

func writeTrials(counts map[uint64]uint64) string {
	seqs := slices.Sorted(maps.Keys(counts))
	var text []string
	for _, seq := range seqs[max(0, len(seqs)-maxTrials):] {
		text = append(text, fmt.Sprintf("%d:%d", seq, counts[seq]))
	}
	return strings.Join(text, ",")
}

// try answers a message. One that a process before this one had is a dead letter where too many have died of it.
func (p *pipeline) try(ctx context.Context, in *input) *answer {
	p.suspect(ctx, in)
	if !in.tried || in.delivered < 3 || p.parked.has(in) {
		return p.answer(ctx, in)
	}
	n := p.writeDown(ctx, in)
	if n <= p.Attempts {
		return p.answer(ctx, in)
	}
	in.attempts = p.Attempts
	a := p.deadMessage(&answer{in: in}, &arrowio.Error{Code: wire.ProcessDied, Row: -1,
		Detail: fmt.Sprintf("the process died %d times while it had this message, and nothing else when it died last", in.attempts),
		Hint:   "see what is in it, and how much memory the process may have; replay it then"})
	p.tail.markStored(ctx, a, true)
	return a
}

// writeDown counts an attempt that is about to begin, for the process after this one. The first two deliveries are
// counted without: of the first nobody knew, and few messages come a third time.
func (p *pipeline) writeDown(ctx context.Context, in *input) uint64 {
	for attempt := 0; ; attempt++ {
		n, err := p.countTrial(ctx, in)
		if err == nil || ctx.Err() != nil || errors.Is(err, jetstream.ErrConsumerNotFound) ||
			errors.Is(err, jetstream.ErrStreamNotFound) {
			return n // where the consumer is gone, the message is too
		}
		p.Log.Warn("an attempt cannot be written down before it begins; trying again", "source", in.origin.Source(),
			"error", err)
		if !natsx.Backoff(ctx, attempt) {
			return n
		}
	}
}

func (p *pipeline) countTrial(ctx context.Context, in *input) (uint64, error) {
	seq, counts := in.origin.Seq, map[uint64]uint64(nil)
	if err := p.annotate(ctx, in.lane.durable, metaTrials, func(text string) string {
		counts = readTrials(text) // another process's too
		counts[seq] = max(counts[seq], 2) + 1
		return writeTrials(counts)
	}); err != nil {
		return 0, err
	}
	t := &in.lane.trials
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts = counts
	return counts[seq], nil
}

// mayLearn tells whether a message may be learned from: not where it has killed. One of which that is not known yet
// waits until it was answered, for a while: the learning side must not die of it before the hot path has tried it.
func (p *pipeline) mayLearn(ctx context.Context, seq uint64, created time.Time) bool {
	if p.Partitions > 0 {
		return true // another replica may answer it; what kills who learns is found by care
	}
	t := &p.whole.trials
	for {
		t.mu.Lock()
		concerned := created.Equal(t.created) && seq <= t.upTo
		deadly := concerned && t.counts[seq] > p.Attempts
		waits := concerned && !deadly && seq > t.floor && time.Since(t.since) < 3*p.AckWait && !p.holds()
		ask := waits && time.Since(t.asked) > lookAgain
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
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return false
		}
	}
}
