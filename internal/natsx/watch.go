package natsx

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/task"
)

// announceJitter bounds how long a process waits before it reads what was announced: all processes of a pipeline
// receive the announcement at once.
const announceJitter = 400 * time.Millisecond

// KeyPoll is how often a process asks whether a bucket was written, whatever was announced. TestMain shortens it.
var KeyPoll = 10 * time.Second

// A change of a key is announced on core NATS, as its name and revision, to the processes that watch it. So no process
// needs a consumer of the bucket, of which a stream has few. An announcement is a hint: it may be lost or false, the
// stored revision decides, and the keys are polled too.

// ChangedSubject is the subject on which changes of a pipeline's keys in a bucket are announced.
func ChangedSubject(pipeline, bucket string) string {
	return "embedd." + pipeline + ".changed." + bucket
}

// pipelineOf is the pipeline to which a key belongs.
func pipelineOf(key string) string {
	name, _, _ := strings.Cut(key, ".")
	return name
}

// AnnounceChanges has changes by this process announced from now on, except those by Renew.
func (b *Bucket) AnnounceChanges() { b.announces.Store(true) }

// Announce announces that a key has a revision. It is sent once, with the next flush of the connection.
func (b *Bucket) Announce(key string, revision uint64) {
	if b.announces.Load() {
		_ = b.js.Conn().Publish(ChangedSubject(pipelineOf(key), b.Name()),
			[]byte(key+" "+strconv.FormatUint(revision, 10)))
	}
}

// KeyWatch watches a key, or those that begin with a prefix, until Stop.
type KeyWatch struct {
	bucket  *Bucket
	pattern string
	notify  func(Change)
}

// Change is a revision of a key that was announced. An empty key means that any key may have changed: announcements
// are lost while the connection is down.
type Change struct {
	Key      string
	Revision uint64
}

// announcements are the watches of a pipeline's keys, which share a subscription.
type announcements struct {
	subscription *nats.Subscription // nil: the connection is closed
	watches      map[*KeyWatch]bool
}

// Watch calls notify with changes of a key, or with a final dot of those that begin so, until Stop, and with an empty
// key whenever the connection is restored. notify must not block. It may still run after Stop.
func (b *Bucket) Watch(pattern string, notify func(Change)) *KeyWatch {
	k, pipeline := &KeyWatch{b, pattern, notify}, pipelineOf(pattern)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.watches) == 0 {
		b.watches = map[string]*announcements{}
		b.restored = b.js.Conn().StatusChanged(nats.CONNECTED)
		go b.followConnection(b.restored)
	}
	a := b.watches[pipeline]
	if a == nil {
		a = &announcements{watches: map[*KeyWatch]bool{}}
		a.subscription, _ = b.receiver.Subscribe(ChangedSubject(pipeline, b.Name()), "", func(msg *nats.Msg) {
			b.notify(a, string(msg.Data))
		})
		b.watches[pipeline] = a
	}
	a.watches[k] = true
	return k
}

// followConnection notifies all watches whenever the connection is restored. It ends after the last watch.
func (b *Bucket) followConnection(restored <-chan nats.Status) {
	for range restored {
		var all []*KeyWatch
		b.mu.Lock()
		for _, a := range b.watches {
			all = slices.AppendSeq(all, maps.Keys(a.watches))
		}
		b.mu.Unlock()
		for _, k := range all {
			k.notify(Change{Revision: math.MaxUint64})
		}
	}
}

// notify notifies the watches of a key that was announced.
func (b *Bucket) notify(a *announcements, text string) {
	key, number, _ := strings.Cut(text, " ")
	revision, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return
	}
	var watches []*KeyWatch
	b.mu.Lock()
	for k := range a.watches {
		if key == k.pattern || strings.HasSuffix(k.pattern, ".") && strings.HasPrefix(key, k.pattern) {
			watches = append(watches, k)
		}
	}
	b.mu.Unlock()
	for _, k := range watches {
		k.notify(Change{key, revision})
	}
}

// Stop ends the watch.
func (k *KeyWatch) Stop() {
	b, pipeline := k.bucket, pipelineOf(k.pattern)
	b.mu.Lock()
	a := b.watches[pipeline]
	delete(a.watches, k)
	isLast := len(a.watches) == 0
	if isLast {
		delete(b.watches, pipeline)
	}
	if len(b.watches) == 0 {
		b.js.Conn().RemoveStatusListener(b.restored) // closes the channel
	}
	b.mu.Unlock()
	if isLast && a.subscription != nil {
		b.receiver.Unsubscribe(a.subscription)
	}
}

// AnnounceDelay is how long to wait before reading what was announced.
func AnnounceDelay() time.Duration { return rand.N(announceJitter) }

// Follow reads keys of a pipeline with FollowKeys.
func (b *Bucket) Follow(ctx context.Context, pipeline string, keys []FollowedKey) (stop func()) {
	return FollowKeys(ctx, KeySource{
		State: b.State,
		Watch: func(notify func(Change)) func() { return b.Watch(pipeline+".", notify).Stop },
		Poll:  func() time.Duration { return task.AtTick(jitter(KeyPoll)) },
	}, keys)
}

// KeySource is a bucket or a directory with keys that FollowKeys reads.
type KeySource struct {
	// State returns the state of the source at a time. It differs after each write.
	State func(context.Context) (state KeySourceState, at time.Time, err error)
	// Watch calls notify with announced changes until stop. notify does not block.
	Watch func(notify func(Change)) (stop func())
	// Poll returns how long to wait until the state is requested again.
	Poll func() time.Duration
}

// KeySourceState is the state of a bucket's stream: its creation in nanoseconds since 1970, since the sequences of a
// recreated stream begin again, and its last sequence. Created is 0 for files. The zero value shows nothing: the stream
// may not exist.
type KeySourceState struct {
	Created int64
	Last    uint64
}

// FollowedKey is a key that FollowKeys reads. Read returns the revision that it has read. Unchanged, if not nil, is
// called with a later time at which this revision was still the newest.
type FollowedKey struct {
	Key       string
	Read      func(context.Context) (uint64, error)
	Unchanged func(at time.Time)
}

// FollowKeys reads keys at once, and again whenever they may have changed, until ctx is done or stop: one that was
// announced, and all after the connection was restored, or the source was written since its state was last requested.
// After an error a key is read again, with growing pauses. Between two reads it uses no goroutine.
func FollowKeys(ctx context.Context, source KeySource, keys []FollowedKey) (stop func()) {
	f := &follower{source: source, keys: keys, read: make([]uint64, len(keys)), announced: make([]uint64, len(keys))}
	f.task = task.Every(ctx, 0, f.step)
	stopWatch := source.Watch(f.notify)
	f.pollAt = time.Now().Add(source.Poll())
	f.task.Now()
	end := sync.OnceFunc(func() {
		stopWatch()
		f.task.Stop()
	})
	forget := context.AfterFunc(ctx, end)
	return func() {
		forget()
		end()
	}
}

// follower reads keys for FollowKeys.
type follower struct {
	source KeySource
	keys   []FollowedKey
	task   *task.Task

	// Of the task:
	pollAt   time.Time      // when to request the state of the source next, whatever was announced or failed since
	last     KeySourceState // when it was last requested; zero: it is not known
	failures int            // in a row

	mu        sync.Mutex
	read      []uint64 // revisions that were read, plus 1; 0: the key is to be read
	announced []uint64 // revisions that were announced since the key was last requested
}

// maxFollowBackoff bounds the pauses of FollowKeys.
const maxFollowBackoff = 5

// step reads the keys that may have changed since they were read last.
func (f *follower) step(ctx context.Context) {
	var unchangedAt time.Time // the keys are as they were read
	if !time.Now().Before(f.pollAt) {
		f.pollAt = time.Now().Add(f.source.Poll())
		now, at, err := f.source.State(ctx)
		if unchangedAt = at; err != nil || now != f.last || now == (KeySourceState{}) { // it may not exist: see Bucket.State
			unchangedAt = time.Time{}
			f.mu.Lock()
			clear(f.read)
			f.mu.Unlock()
		}
		f.last = now
	}
	hasFailed := false
	for i, k := range f.keys {
		if !f.mustRead(i) {
			if k.Unchanged != nil && !unchangedAt.IsZero() {
				k.Unchanged(unchangedAt)
			}
			continue
		}
		revision, err := k.Read(ctx)
		if hasFailed = hasFailed || err != nil; err == nil {
			f.hasRead(i, revision)
		}
	}
	f.task.Within(time.Until(f.pollAt))
	if !hasFailed {
		f.failures = 0
		return
	}
	// Replicas that fail together do not try again together.
	f.task.Within(jitter(min(50*time.Millisecond<<min(f.failures, maxFollowBackoff), f.source.Poll())))
	f.failures++
}

// mustRead reports whether a key is to be read now.
func (f *follower) mustRead(i int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.announced[i] = 0
	return f.read[i] == 0
}

// hasRead notes the revision of a key that was read, unless a later one was announced meanwhile.
func (f *follower) hasRead(i int, revision uint64) {
	f.mu.Lock()
	isLater := f.announced[i] > revision
	if !isLater {
		f.read[i] = revision + 1
	}
	f.mu.Unlock()
	if isLater {
		f.task.Within(AnnounceDelay())
	}
}

// notify has the keys read again that may have changed.
func (f *follower) notify(change Change) {
	isDue := false
	f.mu.Lock()
	for i, k := range f.keys {
		switch {
		case change.Key != "" && change.Key != k.Key || change.Revision < f.read[i]:
		case f.read[i] == 0:
			f.announced[i] = max(f.announced[i], change.Revision)
		default:
			f.read[i], isDue = 0, true
		}
	}
	f.mu.Unlock()
	if isDue {
		f.task.Within(AnnounceDelay())
	}
}

// Touch wakes the watches of a key in this process, so that they read it again.
func (b *Bucket) Touch(key string) {
	b.mu.Lock()
	a := b.watches[pipelineOf(key)]
	b.mu.Unlock()
	if a != nil {
		b.notify(a, key+" "+strconv.FormatUint(math.MaxUint64, 10))
	}
}

// Names are the ends of the keys that begin with a prefix, of deleted ones too.
func (b *Bucket) Names(ctx context.Context, prefix string) ([]string, error) {
	return SubjectEnds(ctx, b.js, b.stream(), b.subject(prefix))
}

// SubjectEnds are the ends of the subjects of a stream's messages that begin with a prefix, sorted.
func SubjectEnds(ctx context.Context, js jetstream.JetStream, stream, prefix string) (ends []string, err error) {
	info, err := Hedge(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return nil, err
		}
		return s.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	})
	if err != nil {
		return nil, err
	}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		ends = append(ends, strings.TrimPrefix(subject, prefix))
	}
	return ends, nil
}

// State returns the state of the bucket as it was at most a second ago, and when that was. A bucket that does not exist
// is no error, and has the zero state: Get may create it.
func (b *Bucket) State(ctx context.Context) (now KeySourceState, at time.Time, err error) {
	s, at, err := b.streams.GetAt(ctx, b.stream(), time.Time{}, func(ctx context.Context) (jetstream.Stream, error) {
		return Stream(ctx, b.js, b.stream())
	})
	switch {
	case IsNotFound(err):
		return now, at, nil
	case err != nil:
		return now, at, err
	}
	return KeySourceState{s.CachedInfo().Created.UnixNano(), s.CachedInfo().State.LastSeq}, at, nil
}

// jitter is a random time around d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
