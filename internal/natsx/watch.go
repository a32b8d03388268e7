package natsx

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// announceJitter bounds how long a process waits before it reads what was announced: all processes of a pipeline
	// receive the announcement at once.
	announceJitter = 400 * time.Millisecond
	// maxAnnounced is how many announcements a watch keeps.
	maxAnnounced = 16
)

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
	bucket      *Bucket
	pattern     string
	changed     chan Change // the last ones that were announced
	reconnected chan nats.Status
}

// Change is the revision of a key that was announced.
type Change struct {
	Key      string
	Revision uint64
}

// announcements are the watches of a pipeline's keys, which share a subscription.
type announcements struct {
	subscription *nats.Subscription // nil: the connection is closed
	watches      map[*KeyWatch]bool
}

// Watch watches a key, or with a final dot those that begin so, until Stop.
func (b *Bucket) Watch(pattern string) *KeyWatch {
	conn, pipeline := b.js.Conn(), pipelineOf(pattern)
	k := &KeyWatch{bucket: b, pattern: pattern, changed: make(chan Change, maxAnnounced),
		reconnected: conn.StatusChanged(nats.CONNECTED)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watches == nil {
		b.watches = map[string]*announcements{}
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

// notify wakes the watches of a key that was announced.
func (b *Bucket) notify(a *announcements, text string) {
	key, number, _ := strings.Cut(text, " ")
	revision, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range a.watches {
		if key == k.pattern || strings.HasSuffix(k.pattern, ".") && strings.HasPrefix(key, k.pattern) {
			if len(k.changed) == maxAnnounced {
				select {
				case <-k.changed:
				default: // it was just emptied
				}
			}
			k.changed <- Change{key, revision}
		}
	}
}

// Stop ends the watch.
func (k *KeyWatch) Stop() {
	b, pipeline := k.bucket, pipelineOf(k.pattern)
	b.js.Conn().RemoveStatusListener(k.reconnected)
	b.mu.Lock()
	a := b.watches[pipeline]
	delete(a.watches, k)
	isLast := len(a.watches) == 0
	if isLast {
		delete(b.watches, pipeline)
	}
	b.mu.Unlock()
	if isLast && a.subscription != nil {
		b.receiver.Unsubscribe(a.subscription)
	}
}

// Changed receives the last changes that were announced.
func (k *KeyWatch) Changed() <-chan Change { return k.changed }

// Reconnected receives when the connection is restored: announcements may be lost.
func (k *KeyWatch) Reconnected() <-chan nats.Status { return k.reconnected }

// Hint waits until a later revision of the key than one is announced, or the connection is restored, or ctx is done.
func (k *KeyWatch) Hint(ctx context.Context, revision uint64) {
	for {
		select {
		case newest := <-k.changed:
			if newest.Revision <= revision {
				continue
			}
		case <-k.reconnected:
		case <-ctx.Done():
			return
		}
		Sleep(ctx, AnnounceDelay())
		return
	}
}

// AnnounceDelay is how long to wait before reading what was announced.
func AnnounceDelay() time.Duration { return rand.N(announceJitter) }

// Followed is a key that Follow reads. Read returns the revision that it has read.
type Followed struct {
	Key  string
	Read func(context.Context) (uint64, error)
}

// Follow reads keys of a pipeline at once, and again whenever they may have changed, until ctx is done: one that was
// announced, and all after the connection was restored, or the bucket was written since it was asked last. After an
// error a key is read again, with growing pauses.
func (b *Bucket) Follow(ctx context.Context, pipeline string, keys []Followed) {
	watch := b.Watch(pipeline + ".")
	defer watch.Stop()
	poll := time.NewTimer(jitter(KeyPoll))
	defer poll.Stop()
	revisions := make([]uint64, len(keys)) // that were read, plus 1; 0: the key is to be read
	for attempt, last := 0, uint64(0); ctx.Err() == nil; attempt++ {
		for i, k := range keys {
			if revisions[i] == 0 {
				if revision, err := k.Read(ctx); err == nil {
					revisions[i] = revision + 1
				}
			}
		}
		var retry <-chan time.Time // nil: all keys were read
		if slices.Contains(revisions, 0) {
			retry = time.After(50 * time.Millisecond << min(attempt, maxFollowBackoff))
		} else {
			attempt = -1
		}
		last = watch.await(ctx, retry, poll, keys, revisions, last)
	}
}

// maxFollowBackoff bounds the pauses of Follow.
const maxFollowBackoff = 5

// await waits for a change, or for the retry of keys that could not be read, and sets the revisions of these keys to 0.
// When poll fires it asks whether the bucket was written, whatever was announced or failed since. It returns the
// sequence of the bucket's stream as it was asked last; 0: it could not be asked.
func (k *KeyWatch) await(ctx context.Context, retry <-chan time.Time, poll *time.Timer, keys []Followed,
	revisions []uint64, last uint64) uint64 {
	for {
		select {
		case change := <-k.changed:
			i := slices.IndexFunc(keys, func(f Followed) bool { return f.Key == change.Key })
			if i < 0 || revisions[i] == 0 || change.Revision < revisions[i] {
				continue
			}
			Sleep(ctx, AnnounceDelay())
			revisions[i] = 0
			return last
		case <-k.reconnected:
			Sleep(ctx, AnnounceDelay())
		case <-retry:
			return last
		case <-poll.C:
			poll.Reset(jitter(KeyPoll))
			now, err := k.bucket.lastSequence(ctx)
			if err == nil && now == last {
				continue
			}
			if last = now; err != nil {
				last = 0
			}
		case <-ctx.Done():
		}
		clear(revisions)
		return last
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

// lastSequence is the last sequence of the bucket's stream, as it was at most a quarter of KeyPoll ago.
func (b *Bucket) lastSequence(ctx context.Context) (uint64, error) {
	s, err := b.streams.Get(ctx, b.stream(), func(ctx context.Context) (jetstream.Stream, error) {
		return Hedge(ctx, func(ctx context.Context) (jetstream.Stream, error) { return b.js.Stream(ctx, b.stream()) })
	})
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.LastSeq, nil
}

// jitter is a random time around d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
