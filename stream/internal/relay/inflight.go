package relay

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/spec"
)

// maxPending is the largest number of messages that a process holds between delivery and acknowledgement.
const maxPending = spec.MinAckPending

// inFlight tracks messages from pull to acknowledgement and enforces the memory limit (Invariant 5): messages that are
// being processed count with their expanded size, queued ones with their size as received. Safe for concurrent use.
type inFlight struct {
	mu         sync.Mutex
	inputs     map[inputKey]*input
	bytes      int64
	queued     int64         // bytes of messages that are not being processed yet
	processing int           // messages that are
	maxBytes   func() int64  // up to which messages are pulled and expanded
	maxInputs  func() int    // messages that may be held
	freed      chan struct{} // signalled to pulls when bytes were freed
	removed    chan struct{} // signalled to the transformer when a message was removed

	activity *Activity
}

// inputKey identifies a message, also among streams of the same name that were created one after the other.
type inputKey struct {
	created int64
	seq     uint64
}

func keyOf(in *input) inputKey { return inputKey{in.Origin.Created.UnixNano(), in.Origin.Seq} }

func newInFlight(a *Activity, maxBytes func() int64, maxInputs func() int) *inFlight {
	return &inFlight{inputs: map[inputKey]*input{}, maxBytes: maxBytes, maxInputs: maxInputs,
		freed: make(chan struct{}, 1), removed: make(chan struct{}, 1), activity: a}
}

// markStale marks messages of a stream with another creation time: they are answered, but not acknowledged.
func (f *inFlight) markStale(created time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.markOthers(created)
}

func (f *inFlight) markOthers(created time.Time) {
	for _, in := range f.inputs {
		if !in.Origin.Created.Equal(created) {
			in.isStale.Store(true)
		}
	}
}

// retire marks all messages, because their consumer counts deliveries from an earlier number again: an older copy of
// the stream may have been restored, in which their sequences name other messages.
func (f *inFlight) retire() { f.markStale(time.Time{}) }

// add adds a message. It returns false for a redelivery of a message in flight. A message of the same sequence that was
// stored at another time shows that an older copy of the stream was restored, even if no earlier delivery did.
func (f *inFlight) add(in *input) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.inputs[keyOf(in)]; ok {
		if !known.Time.Equal(in.Time) {
			f.markOthers(time.Time{})
		}
		return false
	}
	f.inputs[keyOf(in)] = in
	if in.source.isOrdered() {
		in.source.inFlight++
	}
	f.bytes += in.size
	f.queued += in.size
	return true
}

// notOffered returns the messages that the training path does not have, in stream order.
func (f *inFlight) notOffered() []*input {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*input
	for _, in := range f.inputs {
		if !in.training.IsOffered() {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b *input) int { return cmp.Compare(a.Origin.Seq, b.Origin.Seq) })
	return out
}

func (f *inFlight) remove(in *input) {
	f.mu.Lock()
	if in.source.isOrdered() {
		in.source.inFlight--
		natsx.Signal(in.source.removed)
	}
	delete(f.inputs, keyOf(in))
	f.bytes -= in.size + in.expanded
	if in.isProcessing {
		f.processing--
		f.activity.processing.Add(-1)
	} else {
		f.queued -= in.size
	}
	f.mu.Unlock()
	endSpan(in.span, nil)
	natsx.Signal(f.freed)
	natsx.Signal(f.removed)
}

// await waits until isReady, which is called with the lock held, returns true. It returns false when ctx is done first.
func (f *inFlight) await(ctx context.Context, changed <-chan struct{}, isReady func() bool) bool {
	for {
		f.mu.Lock()
		ok := isReady()
		f.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// beginProcessing waits until there is room for the expanded message, and counts it as processing. One message always
// has room when no other is processed; a suspect waits for that. It returns false when ctx is done first.
func (f *inFlight) beginProcessing(ctx context.Context, in *input, expanded int64) bool {
	limit := f.maxBytes()
	if !f.await(ctx, f.removed, func() bool {
		if f.processing > 0 && (in.isSuspect || f.bytes+expanded > limit) {
			return false
		}
		in.isProcessing, in.expanded = true, expanded
		f.bytes += expanded
		f.queued -= in.size
		f.processing++
		return true
	}) {
		return false
	}
	f.activity.processing.Add(1)
	natsx.Signal(f.freed)
	return true
}

// grow counts the size of an answer if it is larger than was estimated before it was made.
func (f *inFlight) grow(in *input, answer int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if more := answer - in.size - in.expanded; more > 0 {
		in.expanded += more
		f.bytes += more
	}
}

// awaitIdle waits until no message is processed. It returns false when ctx is done first.
func (f *inFlight) awaitIdle(ctx context.Context) bool {
	return f.await(ctx, f.removed, func() bool { return f.processing == 0 })
}

func (f *inFlight) size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

// hasRoom reports whether one more message may be held.
func (f *inFlight) hasRoom() bool {
	limit := f.maxBytes()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes < limit && len(f.inputs) < f.maxInputs()
}

// awaitRoom waits until a pull is worth it, and returns the room; 0 when ctx is done first. A pull is for at least half
// of the messages that may be held, so that no pull is for a few. It waits while more than one pull's bytes are queued:
// messages that are pulled long before they are processed only fill memory, and have left the processor's caches by
// then.
func (f *inFlight) awaitRoom(ctx context.Context) (bytes int64, messages int) {
	limit := f.maxBytes()
	if !f.await(ctx, f.freed, func() bool {
		bytes, messages = limit-f.bytes, f.maxInputs()-len(f.inputs)
		return bytes > 0 && messages >= max(f.maxInputs()/2, 1) && f.queued <= natsx.MaxFetchBytes
	}) {
		return 0, 0
	}
	natsx.Signal(f.freed) // other pulls wait for the same
	return bytes, messages
}

// awaitNone waits until no message of a source is in flight. It returns false when ctx is done first.
func (f *inFlight) awaitNone(ctx context.Context, s *source) bool {
	return f.await(ctx, s.removed, func() bool { return s.inFlight == 0 })
}

// all returns the messages that an acknowledgement can name.
func (f *inFlight) all() []*natsx.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*natsx.Message, 0, len(f.inputs))
	for _, in := range f.inputs {
		if !in.isStale.Load() {
			out = append(out, in.msg)
		}
	}
	return out
}

// keepAlive reports the messages to the server as in progress.
func (f *inFlight) keepAlive() {
	for _, m := range f.all() {
		_ = m.InProgress() // while the connection is down messages are redelivered, and deduplicated
	}
}
