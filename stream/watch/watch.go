// Package watch tells who waits for keys of a key-value bucket that they have changed: one watch for all keys of a
// process, where each key with a watch of its own would cost the server a consumer.
package watch

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// settle is how long a watch waits for more keys to join before it begins: pipelines begin one after the other.
const settle = 20 * time.Millisecond

// renew is how long a watch goes on before it is begun anew: so long a change may go unseen where the server lost who
// watches, or a marker went missing with a leader.
const renew = time.Minute

// Bucket is one watch on a bucket. Its goroutine runs while somebody waits for a key.
type Bucket struct {
	kv  jetstream.KeyValue
	log *slog.Logger

	mu     sync.Mutex
	keys   []*Key
	cancel context.CancelFunc // of the watch; nil while nobody waits
	done   chan struct{}
	joined chan struct{} // signalled when the set of keys has changed
}

// Of is the watch on a bucket. It starts nothing.
func Of(kv jetstream.KeyValue, log *slog.Logger) *Bucket {
	return &Bucket{kv: kv, log: log, joined: make(chan struct{}, 1)}
}

// Key is one key that somebody waits for.
type Key struct {
	bucket  *Bucket
	name    string
	changed chan struct{}

	mu       sync.Mutex
	revision uint64 // the newest that was seen
	ended    bool   // that was a mark: the key was removed, or has ended
}

// Join begins to watch a key; Leave ends it.
func (b *Bucket) Join(name string) *Key {
	k := &Key{bucket: b, name: name, changed: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys = append(b.keys, k)
	if b.cancel == nil {
		ctx, cancel := context.WithCancel(context.Background())
		b.cancel, b.done = cancel, make(chan struct{})
		go b.run(ctx, b.done)
	}
	signal(b.joined)
	return k
}

// Leave ends the watch on the key; with the last of them the goroutine ends, and is waited for.
func (k *Key) Leave() {
	b := k.bucket
	b.mu.Lock()
	b.keys = slices.DeleteFunc(b.keys, func(one *Key) bool { return one == k })
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
func (k *Key) Changed() <-chan struct{} { return k.changed }

// Await waits until the key is seen at another revision, may have changed unseen, or ctx is done.
func (k *Key) Await(ctx context.Context, revision uint64) {
	k.mu.Lock()
	seen := k.revision
	k.mu.Unlock()
	if seen > revision {
		return
	}
	select {
	case <-k.changed:
	case <-ctx.Done():
	}
}

// Ended tells whether the key was last seen to be removed, or to have ended; that it changed unseen may mean the same.
func (k *Key) Ended() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ended
}

func (k *Key) saw(revision uint64, ended bool) {
	k.mu.Lock()
	k.revision, k.ended = revision, ended
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
func (b *Bucket) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	for wait := settle; ctx.Err() == nil; {
		if !sleep(ctx, wait) {
			return
		}
		if err := b.watch(ctx); err != nil && ctx.Err() == nil {
			b.log.Debug("a bucket cannot be watched; trying again", "bucket", b.kv.Bucket(), "error", err)
			wait = min(max(2*wait, 100*time.Millisecond), 5*time.Second)
			b.mu.Lock()
			for _, k := range b.keys {
				signal(k.changed) // who can ask need not wait for the watch
			}
			b.mu.Unlock()
			continue
		}
		wait = settle
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// watch tells of changes until the keys are others, or it is time to begin anew. It begins with what is there: who
// missed a change before hears of it.
func (b *Bucket) watch(ctx context.Context) error {
	select {
	case <-b.joined:
	default:
	}
	b.mu.Lock()
	var names []string
	for _, k := range b.keys {
		names = append(names, k.name)
	}
	b.mu.Unlock()
	slices.Sort(names)
	if names = slices.Compact(names); names == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, renew)
	defer cancel()
	w, err := b.kv.WatchFiltered(ctx, names, jetstream.MetaOnly())
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
				b.tell(entry)
			}
		case <-b.joined:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *Bucket) tell(entry jetstream.KeyValueEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.keys {
		if k.name == entry.Key() {
			k.saw(entry.Revision(), entry.Operation() != jetstream.KeyValuePut)
		}
	}
}
