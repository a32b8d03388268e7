package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/nats-io/nats.go/jetstream"
)

// attemptStore stores attempts in the state bucket, under a key for each source.
type attemptStore struct {
	*scope.Scope
}

// load reads what is known about a source when the process starts.
func (s attemptStore) load(ctx context.Context, src *source, created time.Time, c *jetstream.ConsumerInfo) error {
	note, _, err := s.State.Get(ctx, s.key(src))
	if err != nil {
		return fmt.Errorf("reading the stored attempts of consumer %s: %w", src.durable, err)
	}
	src.attempts.begin(note, created, c)
	return nil
}

func (s attemptStore) key(src *source) string {
	q, _ := needs.ParsePartition(s.ConsumerName(), src.durable)
	return statestore.AttemptsKey(s.Name, q.String())
}

// record stores that an attempt is about to begin, and returns how many there were. The first two deliveries count
// without being stored: few messages are delivered a third time. It retries until ctx is done.
func (s attemptStore) record(ctx context.Context, in *input) uint64 {
	for attempt := 0; ; attempt++ {
		n, err := s.increment(ctx, in)
		if err == nil || ctx.Err() != nil {
			return n
		}
		s.Log.Warn("an attempt cannot be stored before it begins; trying again", "source", in.Origin.Source(), "error", err)
		if !natsx.Backoff(ctx, attempt) {
			return n
		}
	}
}

func (s attemptStore) increment(ctx context.Context, in *input) (uint64, error) {
	seq, counts, t := in.Origin.Seq, map[uint64]uint64(nil), &in.source.attempts
	_, err := s.State.Modify(ctx, s.key(in.source), func(note []byte) ([]byte, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		counts = t.parse(note)
		counts[seq] = max(counts[seq], 2) + 1
		sequences := slices.Sorted(maps.Keys(counts))
		for _, oldest := range sequences[:max(0, len(sequences)-maxCounted)] {
			delete(counts, oldest)
		}
		return json.Marshal(attemptsNote{t.created.UnixNano(), counts})
	})
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts = counts
	return counts[seq], nil
}

// attemptPoll is how often it is checked whether a message was answered.
const attemptPoll = 100 * time.Millisecond

// mayLearn reports whether a message of a source may be used for training: not if it crashed processes. It waits, for a
// while, until a suspect message was answered: training must not crash on a message before the hot path has tried it.
func (s attemptStore) mayLearn(ctx context.Context, src *source, seq uint64, created time.Time, g *answerGate) bool {
	t := &src.attempts
	for {
		t.mu.Lock()
		isCounted := created.Equal(t.created) && seq <= t.upTo
		crashes := isCounted && t.counts[seq] > s.Attempts
		waits := isCounted && !crashes && seq > t.floor && time.Since(t.since) < 3*s.AckWait && !g.isWaiting()
		ask := waits && time.Since(t.askedAt) > attemptPoll
		if ask {
			t.askedAt = time.Now()
		}
		t.mu.Unlock()
		if !waits {
			return !crashes
		}
		if ask {
			if c, err := s.JS.Consumer(ctx, s.Stream, src.durable); err == nil {
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
		case <-time.After(attemptPoll):
		case <-ctx.Done():
			return false
		}
	}
}
