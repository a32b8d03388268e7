package stream

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/bytequeue"
)

// lesson is one message on its way to the learning side.
type lesson struct {
	origin  wire.Origin
	subject string
	time    time.Time
	after   uint64 // the input has no message between this number and the lesson's own
	// counts the times that the hot path bound its consumer; what it saw under one binding is of one stream
	binding int

	data    []byte           // the message
	decoded bool             // the hot path has decoded it: message and err say what came of it
	message *arrowio.Message // nil beside no error: nothing in it to learn from
	err     error
	size    int64
}

func (l *lesson) bytes() int64 { return l.size }

// end is how far a stream was read.
type end struct {
	created time.Time
	pulled  uint64
}

// lessonSize is what a lesson takes beside its message.
const lessonSize = 256

// feed is what the hot path has read, in the order of its deliveries, for the learning side to use again: one read and
// one decoding serve both. It is bounded in bytes; what falls out, and what another replica of the same durable
// consumer took, shows as a gap between a lesson's after and the number before it.
type feed struct {
	*bytequeue.Queue[*lesson]
	// An input that can be read only once has no second reader that could fill gaps: its redeliveries count too.
	only bool

	mu        sync.Mutex
	binding   int
	created   time.Time
	delivered uint64 // the durable consumer's number of the newest delivery
	pulled    uint64 // sequence number of the newest message that was delivered for the first time
	whole     bool   // all deliveries since then were ours
	broken    time.Time
	handed    uint64 // sequence number up to which what was pulled has been handed on
	seen      spans  // where only: what was handed on or is on its way
	before    end    // of the stream of that name before
}

// maxFeed is how many bytes wait for learning where it can read them again. Messages that lie about for long are new to
// the processor's caches each time, and so is the memory of those that come meanwhile: with 64 MiB of them the hot path
// takes a fifth more processor time.
const maxFeed = 8 << 20

func newFeed(most int64, only bool) *feed {
	if !only {
		most = min(most, maxFeed)
	}
	return &feed{Queue: bytequeue.New(most, (*lesson).bytes), only: only}
}

// bind begins with a consumer: what it delivered before this process did not see.
func (f *feed) bind(created time.Time, c *jetstream.ConsumerInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.created.Equal(created) {
		f.seen, f.before = nil, end{f.created, f.pulled}
	}
	f.binding++
	f.created = created
	f.delivered, f.pulled, f.handed = c.Delivered.Consumer, c.Delivered.Stream, c.Delivered.Stream
	f.whole = true
	f.Wake()
}

// saw records a delivery as it is pulled, and says in the input what it is for the learning side.
func (f *feed) saw(in *input) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.ConsumerSeq != f.delivered+1 {
		f.whole, f.broken = false, time.Now() // somebody else got what lies between, or it was lost on the way
	}
	f.delivered = max(f.delivered, in.ConsumerSeq)
	in.binding = f.binding
	first := in.Delivered == 1 && in.Origin.Seq > f.pulled
	in.after = in.Origin.Seq - 1
	if first {
		if f.whole {
			in.after = f.pulled
		}
		f.pulled, f.whole = in.Origin.Seq, true
	}
	if f.only {
		in.taught.Store(!f.seen.add(in.after+1, in.Origin.Seq))
	} else {
		in.taught.Store(!first)
	}
}

// standing is how far the hot path is.
type standing struct {
	binding int
	created time.Time
	handed  uint64    // all up to here was handed on, or is nothing that the hot path will bring
	broken  time.Time // when somebody else was seen to get messages
	before  end
}

func (f *feed) standing() standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return standing{f.binding, f.created, f.handed, f.broken, f.before}
}

// hand gives a lesson to the learning side, and returns what had to be dropped for it.
func (f *feed) hand(l *lesson) (dropped []*lesson) {
	dropped = f.Push(l)
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.binding == f.binding {
		f.handed = max(f.handed, l.origin.Seq)
	}
	return dropped
}

// spans is a set of sequence numbers, kept as ascending runs that do not touch.
type spans []span

type span struct{ first, last uint64 }

// maxSpans bounds the set. A stream that is read from end to end has one run, and one more for each message that
// somebody else got.
const maxSpans = 1024

// add puts a run in and reports whether its last number was new.
func (s *spans) add(first, last uint64) bool {
	var out spans
	added := false
	fresh := true
	for _, have := range *s {
		switch {
		case have.last+1 < first:
			out = append(out, have)
		case last+1 < have.first:
			if !added {
				out, added = append(out, span{first, last}), true
			}
			out = append(out, have)
		default:
			fresh = fresh && (last < have.first || last > have.last)
			first, last = min(first, have.first), max(last, have.last)
		}
	}
	if !added {
		out = append(out, span{first, last})
	}
	if len(out) > maxSpans {
		out = out[len(out)-maxSpans:]
	}
	*s = out
	return fresh
}
