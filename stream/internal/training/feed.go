package training

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/bytequeue"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/stream/internal/scope"
)

// Message is a message to learn. It has no data if the hot path has decoded it and nothing in it can be learned.
type Message struct {
	scope.Message

	after uint64 // the input has no message between this sequence number and the message's own
	// binding is the number of times that the hot path had bound its consumer. One binding reads one stream.
	binding int

	isDecoded bool // by the hot path, with this result
	decoded   *arrowio.Message
	rows      int // of it, also if there is nothing in it to learn
	err       error
	size      int64
}

// messageSize is the memory of a Message in addition to that of the received message.
const messageSize = 256

// Decode returns the decoded message, nil without an error when there is nothing in it to learn.
func (m *Message) Decode(s *stage.Stage) (*arrowio.Message, error) {
	if m.isDecoded {
		return m.decoded, m.err
	}
	if m.IsDeleteMarker() {
		return nil, nil
	}
	return s.Decode(m.Data)
}

func (m *Message) bytes() int64 { return m.size }

// Delivery is the state of the feed for one delivery to the hot path.
type Delivery struct {
	after     uint64
	binding   int
	isOffered atomic.Bool // the learning path has the message, or reads it from the stream
}

// IsOffered reports whether the learning path has the message, or reads it from the stream.
func (d *Delivery) IsOffered() bool { return d.isOffered.Load() }

// MarkOffered keeps the message out of the feed: the learning path reads it from the stream.
func (d *Delivery) MarkOffered() { d.isOffered.Store(true) }

// Feed has the messages that the hot path received, in the order of their deliveries, so that a message is read and
// decoded once for both paths. It is bounded in bytes. A message that was dropped, or that another replica received,
// leaves a gap between its neighbours.
type Feed struct {
	*bytequeue.Queue[*Message]
	isOnly bool // the input can be read only once: nothing fills gaps, and redeliveries count too

	mu sync.Mutex
	feedState
	delivered uint64    // the consumer's sequence number of the newest delivery
	pulled    uint64    // stream sequence number of the newest message that was not a redelivery
	isWhole   bool      // this process received all deliveries since then
	seen      sequences // if isOnly: messages that were offered or will be
}

// streamEnd is the last message that was pulled of a stream.
type streamEnd struct {
	created time.Time
	pulled  uint64
}

// maxFeed bounds the feed when learning can read the stream again. Messages that wait for long have left the
// processor's caches, and so has the memory of new ones: with 64 MiB the hot path takes a fifth more processor time.
const maxFeed = 8 << 20

func newFeed(maxBytes int64, isOnly bool) *Feed {
	if !isOnly {
		maxBytes = min(maxBytes, maxFeed)
	}
	return &Feed{Queue: bytequeue.New(maxBytes, (*Message).bytes), isOnly: isOnly}
}

// Bind is called when the hot path has bound its consumer, to a stream that was created at a time.
func (f *Feed) Bind(created time.Time, c *jetstream.ConsumerInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.created.Equal(created) {
		f.seen, f.previous = nil, streamEnd{f.created, f.pulled}
	}
	f.binding++
	f.created = created
	f.delivered, f.pulled, f.offered = c.Delivered.Consumer, c.Delivered.Stream, c.Delivered.Stream
	f.isWhole = true
	f.Wake()
}

// RecordDelivery records a delivery when it is pulled, and sets what the feed keeps of it.
func (f *Feed) RecordDelivery(m *scope.Message, d *Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.ConsumerSeq != f.delivered+1 {
		f.isWhole, f.gapAt = false, time.Now() // another process received the messages between, or they were lost
	}
	f.delivered = max(f.delivered, m.ConsumerSeq)
	d.binding = f.binding
	isFirst := m.Delivered == 1 && m.Origin.Seq > f.pulled
	d.after = m.Origin.Seq - 1
	if isFirst {
		if f.isWhole {
			d.after = f.pulled
		}
		f.pulled, f.isWhole = m.Origin.Seq, true
	}
	if f.isOnly {
		d.isOffered.Store(!f.seen.add(d.after+1, m.Origin.Seq))
	} else {
		d.isOffered.Store(!isFirst)
	}
}

// WaitRoom waits until the feed is less than half full. It returns false when ctx is done first.
func (f *Feed) WaitRoom(ctx context.Context) bool { return f.WaitBelow(ctx, f.Limit()/2) }

// feedState is the progress of the hot path.
type feedState struct {
	binding  int
	created  time.Time // of the stream
	offered  uint64    // messages up to here were offered, or the hot path will not offer them
	gapAt    time.Time // when another process was last seen to receive messages
	previous streamEnd // end of the previous stream of that name
}

func (f *Feed) state() feedState {
	if f == nil {
		return feedState{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.feedState
}

// push adds a message and returns those that were dropped for it.
func (f *Feed) push(m *Message) (dropped []*Message) {
	dropped = f.Queue.Push(m)
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.binding == f.binding {
		f.offered = max(f.offered, m.Origin.Seq)
	}
	return dropped
}
