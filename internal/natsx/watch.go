package natsx

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/wildcard"
)

const (
	// watchDelay is how long a watch waits for more keys before it begins: pipelines start one after another.
	watchDelay = 20 * time.Millisecond
	// watchAge is how long a watch lasts before it is recreated. A change may be missed that long where a server lost
	// the consumer, or a delete marker was lost with a leader.
	watchAge = time.Minute
)

// BucketWatch shares one watch of a bucket among all keys that a process watches: a watch for each key would cost the
// server a consumer each. Its goroutine runs while a key is watched.
type BucketWatch struct {
	kv  jetstream.KeyValue
	log *slog.Logger

	mu      sync.Mutex
	keys    []*KeyWatch
	cancel  context.CancelFunc // of the goroutine; nil while no key is watched
	done    chan struct{}
	changed chan struct{} // signalled when the set of keys has changed
}

// NewBucketWatch returns the shared watch of a bucket. It starts nothing.
func NewBucketWatch(kv jetstream.KeyValue, log *slog.Logger) *BucketWatch {
	return &BucketWatch{kv: kv, log: log, changed: make(chan struct{}, 1)}
}

// KeyWatch is the watch of one key, or of the keys that match a pattern.
type KeyWatch struct {
	bucket  *BucketWatch
	pattern string
	changed chan struct{}

	mu       sync.Mutex
	revision uint64 // the newest that was seen
	deleted  bool   // it was a delete marker
}

// Watch watches a key, or the keys that match a pattern, until Stop.
func (b *BucketWatch) Watch(pattern string) *KeyWatch {
	k := &KeyWatch{bucket: b, pattern: pattern, changed: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys = append(b.keys, k)
	if b.cancel == nil {
		ctx, cancel := context.WithCancel(context.Background())
		b.cancel, b.done = cancel, make(chan struct{})
		go b.run(ctx, b.done)
	}
	signal(b.changed)
	return k
}

// Stop ends the watch of the key, and with the last one waits for the goroutine to end.
func (k *KeyWatch) Stop() {
	b := k.bucket
	b.mu.Lock()
	b.keys = slices.DeleteFunc(b.keys, func(o *KeyWatch) bool { return o == k })
	var done chan struct{}
	if len(b.keys) == 0 && b.cancel != nil {
		b.cancel()
		done, b.cancel = b.done, nil
	}
	b.mu.Unlock()
	if done != nil {
		<-done
	}
}

// Changed is signalled when the key has changed, or may have.
func (k *KeyWatch) Changed() <-chan struct{} { return k.changed }

// Wait returns when the key has another revision, may have changed unseen, or ctx is done.
func (k *KeyWatch) Wait(ctx context.Context, revision uint64) {
	k.mu.Lock()
	newest := k.revision
	k.mu.Unlock()
	if newest > revision {
		return
	}
	select {
	case <-k.changed:
	case <-ctx.Done():
	}
}

// IsDeleted reports whether the key was last seen to be deleted or expired. It may also have changed unseen.
func (k *KeyWatch) IsDeleted() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.deleted
}

func (k *KeyWatch) update(revision uint64, deleted bool) {
	k.mu.Lock()
	k.revision, k.deleted = revision, deleted
	k.mu.Unlock()
	signal(k.changed)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run watches until ctx is done.
func (b *BucketWatch) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	for wait := watchDelay; ctx.Err() == nil; {
		if !Sleep(ctx, wait) {
			return
		}
		if err := b.watch(ctx); err != nil && ctx.Err() == nil {
			b.log.Debug("a bucket cannot be watched; trying again", "bucket", b.kv.Bucket(), "error", err)
			wait = min(max(2*wait, 100*time.Millisecond), 5*time.Second)
			b.mu.Lock()
			for _, k := range b.keys {
				signal(k.changed) // the watchers can read the key meanwhile
			}
			b.mu.Unlock()
			continue
		}
		wait = watchDelay
	}
}

// jitter is a random time around d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// watch reports changes until the set of keys changes or the watch is to be recreated. It begins with the current
// values, so a change that was missed before is reported.
func (b *BucketWatch) watch(ctx context.Context) error {
	select {
	case <-b.changed:
	default:
	}
	b.mu.Lock()
	var patterns []string
	for _, k := range b.keys {
		patterns = append(patterns, k.pattern)
	}
	b.mu.Unlock()
	slices.Sort(patterns)
	patterns = slices.Compact(patterns)
	all := slices.Clone(patterns)
	patterns = slices.DeleteFunc(patterns, func(p string) bool { // the server rejects filters that overlap
		return slices.ContainsFunc(all, func(o string) bool { return o != p && wildcard.Covers(o, p) })
	})
	if len(patterns) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, watchAge)
	defer cancel()
	w, err := b.kv.WatchFiltered(ctx, patterns, jetstream.MetaOnly())
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case entry, ok := <-w.Updates():
			if !ok {
				return nil
			}
			if entry != nil {
				b.report(entry)
			}
		case <-b.changed:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *BucketWatch) report(entry jetstream.KeyValueEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.keys {
		if wildcard.Covers(k.pattern, entry.Key()) {
			k.update(entry.Revision(), entry.Operation() != jetstream.KeyValuePut)
		}
	}
}
