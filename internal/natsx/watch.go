package natsx

import (
	"context"
	"math"
	"math/rand/v2"
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
	// keyPoll is how often a process asks whether a bucket was written, whatever was announced.
	keyPoll = 10 * time.Second
	// maxAnnounced is how many announcements a watch keeps.
	maxAnnounced = 16
)

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
	last        uint64 // sequence of the stream at the last poll
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

// Wait is Hint that also returns when the bucket was written since it was asked last, or cannot be asked. The first
// call returns when it is asked first: the key may have been written after it was read.
func (k *KeyWatch) Wait(ctx context.Context, revision uint64) {
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, jitter(keyPoll))
		k.Hint(within, revision)
		isHint := within.Err() == nil
		cancel()
		if isHint || ctx.Err() != nil {
			return
		}
		last, err := k.bucket.lastSequence(ctx)
		if err == nil && last == k.last {
			continue
		}
		if k.last = last; err != nil {
			k.last = 0
		}
		return
	}
}

// Follow calls read at once, and again whenever the key may have changed, until ctx is done. read returns the revision
// that it has read; after an error it is called again, with growing pauses.
func (b *Bucket) Follow(ctx context.Context, key string, read func(context.Context) (uint64, error)) {
	watch := b.Watch(key)
	defer watch.Stop()
	for attempt := 0; ctx.Err() == nil; attempt++ {
		revision, err := read(ctx)
		if err != nil {
			Backoff(ctx, min(attempt, maxFollowBackoff))
			continue
		}
		attempt = -1
		watch.Wait(ctx, revision)
	}
}

// maxFollowBackoff bounds the pauses of Follow.
const maxFollowBackoff = 5

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
func (b *Bucket) Names(ctx context.Context, prefix string) (names []string, err error) {
	info, err := Hedge(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		s, err := b.js.Stream(ctx, b.stream())
		if err != nil {
			return nil, err
		}
		return s.Info(ctx, jetstream.WithSubjectFilter(b.subject(prefix+">")))
	})
	if err != nil {
		return nil, err
	}
	for subject := range info.State.Subjects {
		names = append(names, strings.TrimPrefix(subject, b.subject(prefix)))
	}
	return names, nil
}

// lastSequence is the last sequence of the bucket's stream, as it was at most a quarter of keyPoll ago.
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
