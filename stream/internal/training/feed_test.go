package training

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/internal/scope"
)

// TestSequences: a set of numbers knows what it has, however it was filled, and does not grow with what it has.
func TestSequences(t *testing.T) {
	var s sequences
	for _, c := range []struct {
		first, last uint64
		fresh       bool
		runs        int
	}{
		{1, 1, true, 1}, {2, 2, true, 1}, {2, 2, false, 1}, {5, 7, true, 2}, {6, 6, false, 2}, {1, 1, false, 2},
		{10, 10, true, 3}, {9, 9, true, 3}, {3, 4, true, 2}, {8, 8, true, 1}, {10, 10, false, 1}, {11, 20, true, 1},
	} {
		if fresh := s.add(c.first, c.last); fresh != c.fresh || len(s) != c.runs {
			t.Fatalf("adding %d to %d: fresh is %t, want %t; %v, want %d runs", c.first, c.last, fresh, c.fresh,
				s, c.runs)
		}
	}
	for i := range uint64(3 * maxRuns) {
		s.add(100+2*i, 100+2*i)
	}
	if len(s) != maxRuns || s.add(100+6*maxRuns-2, 100+6*maxRuns-2) {
		t.Errorf("%d runs, want the newest %d", len(s), maxRuns)
	}
}

// TestFeedSeesGaps: the messages between two deliveries to this process are known to be none only if the consumer's
// delivery numbers show that no other process got any.
func TestFeedSeesGaps(t *testing.T) {
	type pulled struct{ number, seq, times uint64 }
	for name, c := range map[string]struct {
		only       bool
		deliveries []pulled
		after      []uint64 // of each; where it is not taught
		taught     []bool
	}{
		"in step": {false, []pulled{{6, 11, 1}, {7, 12, 1}, {8, 15, 1}}, []uint64{10, 11, 12},
			[]bool{false, false, false}},
		"other process": {false, []pulled{{6, 11, 1}, {8, 15, 1}, {9, 16, 1}}, []uint64{10, 14, 15},
			[]bool{false, false, false}},
		"redelivered": {false, []pulled{{6, 9, 2}, {7, 11, 1}, {8, 11, 2}, {9, 13, 1}}, []uint64{0, 10, 0, 11},
			[]bool{true, false, true, false}},
		"lost before": {false, []pulled{{6, 11, 1}, {8, 9, 2}, {9, 15, 1}}, []uint64{10, 0, 14},
			[]bool{false, true, false}},
		"read once": {true, []pulled{{6, 9, 2}, {7, 11, 1}, {8, 11, 2}, {9, 13, 1}, {10, 12, 3}},
			[]uint64{8, 10, 0, 11, 0}, []bool{false, false, true, false, true}},
		"once, a part": {true, []pulled{{7, 12, 1}, {8, 11, 2}, {9, 12, 2}}, []uint64{11, 10, 0},
			[]bool{false, false, true}},
	} {
		f := newFeed(1<<20, c.only)
		f.Bind(time.Unix(1, 0), &jetstream.ConsumerInfo{Delivered: jetstream.SequenceInfo{Consumer: 5, Stream: 10}})
		for i, d := range c.deliveries {
			in, delivery := scope.Message{Origin: wire.Origin{Seq: d.seq}, ConsumerSeq: d.number, Delivered: d.times},
				new(Delivery)
			f.RecordDelivery(&in, delivery)
			if delivery.IsOffered() != c.taught[i] || !c.taught[i] && delivery.after != c.after[i] {
				t.Errorf("%s: delivery %+v is taught: %t and comes after %d, want %t and %d", name, d, delivery.IsOffered(),
					delivery.after, c.taught[i], c.after[i])
			}
		}
	}
}

// TestFeedIsBounded: where the stream can be read again little waits for learning, however much may be in flight.
func TestFeedIsBounded(t *testing.T) {
	for only, want := range map[bool]int64{false: maxFeed, true: 20 << 20} {
		f := newFeed(64<<20, only)
		for seq := range uint64(20) {
			f.push(&Message{Message: scope.Message{Origin: wire.Origin{Seq: seq + 1}}, size: 1 << 20})
		}
		if f.Bytes() != want {
			t.Errorf("read once %t: %d bytes wait, want %d", only, f.Bytes(), want)
		}
	}
}
