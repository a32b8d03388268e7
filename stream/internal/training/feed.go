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

// Message is a message to learn. One that the hot path has decoded has no data when there is nothing in it to learn.
type Message struct {
	scope.Message

	after uint64 // the input has no message between this sequence number and the message's own
	// binding counts how often the hot path had bound its consumer: what it received under one binding is of one stream.
	binding int

	isDecoded bool // by the hot path, with this result
	decoded   *arrowio.Message
	err       error
	size      int64
}

// messageSize is what a Message takes in memory in addition to what was received.
const messageSize = 256

// Decode returns the decoded message, nil without an error when there is nothing in it to learn.
func (m *Message) Decode(s *stage.Stage) (*arrowio.Message, error) {
	if m.isDecoded {
		return m.decoded, m.err
	}
	return s.Decode(m.Data)
}

func (m *Message) bytes() int64 { return m.size }

// Delivery is what the feed keeps of one delivery to the hot path.
type Delivery struct {
	after    uint64
	binding  int
	isHanded atomic.Bool // the learning path has the message, or gets it in another way
}

// IsHanded reports whether the learning path has the message, or gets it in another way.
func (d *Delivery) IsHanded() bool { return d.isHanded.Load() }

// MarkHanded keeps the message from being handed on: learning reads it for itself.
func (d *Delivery) MarkHanded() { d.isHanded.Store(true) }

// Feed has what the hot path received, in the order of its deliveries, so that one read and one decoding serve both
// paths. It is bounded in bytes. What falls out, and what another replica of the same consumer received, is a gap
// between a message and the one before it.
type Feed struct {
	*bytequeue.Queue[*Message]
	isOnly bool // the input can be read only once: nothing fills gaps, and redeliveries count too

	mu        sync.Mutex
	binding   int
	created   time.Time // of the stream
	delivered uint64    // the consumer's sequence number of the newest delivery
	pulled    uint64    // stream sequence number of the newest first delivery
	isWhole   bool      // all deliveries since then came to this process
	gapAt     time.Time // when another process was last seen to receive messages
	handed    uint64    // stream sequence number up to which what was pulled has been handed on
	seen      sequences // if isOnly: what was handed on or is on its way
	previous  streamEnd // of the stream of that name before
}

// streamEnd is how far a stream was read.
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
	f.delivered, f.pulled, f.handed = c.Delivered.Consumer, c.Delivered.Stream, c.Delivered.Stream
	f.isWhole = true
	f.Wake()
}

// Saw records a delivery when it is pulled, and sets what the feed keeps of it.
func (f *Feed) Saw(m *scope.Message, d *Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.ConsumerSeq != f.delivered+1 {
		f.isWhole, f.gapAt = false, time.Now() // another process received what is between, or it was lost
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
		d.isHanded.Store(!f.seen.add(d.after+1, m.Origin.Seq))
	} else {
		d.isHanded.Store(!isFirst)
	}
}

// WaitRoom waits until the feed is less than half full. It returns false when ctx is done first.
func (f *Feed) WaitRoom(ctx context.Context) bool { return f.WaitBelow(ctx, f.Limit()/2) }

// feedState is how far the hot path is.
type feedState struct {
	binding  int
	created  time.Time
	handed   uint64 // all up to here was handed on, or the hot path will not bring it
	gapAt    time.Time
	previous streamEnd
}

func (f *Feed) state() feedState {
	if f == nil {
		return feedState{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return feedState{f.binding, f.created, f.handed, f.gapAt, f.previous}
}

// push adds a message and returns those that were dropped for it.
func (f *Feed) push(m *Message) (dropped []*Message) {
	dropped = f.Queue.Push(m)
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.binding == f.binding {
		f.handed = max(f.handed, m.Origin.Seq)
	}
	return dropped
}
