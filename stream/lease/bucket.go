package lease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// BucketName is the key-value bucket of all leases, Stream the stream behind it.
const (
	BucketName = "EMBEDD_LEASES"
	Stream     = "KV_" + BucketName
)

// ErrOldServer is returned by [Open] for a server that does not support a TTL for each key.
var ErrOldServer = errors.New("leases need a TTL for each key, which NATS servers support from 2.11 on")

// MinServerVersion is the oldest server version with a TTL for each key.
var MinServerVersion = [3]int{2, 11, 0}

// Create creates the bucket where it is missing.
func Create(ctx context.Context, js jetstream.JetStream, replicas int) error {
	if err := create(ctx, js, replicas); err != nil {
		return fmt.Errorf("creating the leases (key-value bucket %s): %w", BucketName, err)
	}
	return nil
}

// markerTTL is how long the delete marker of an expired key stays.
const markerTTL = time.Minute

// Bucket has the leases of all pipelines.
type Bucket struct {
	kv   jetstream.KeyValue
	keys *natsx.Bucket // of kv
	log  *slog.Logger
}

// Open opens the bucket, and creates it with a number of replicas (see [natsx.WithReplicas]) where it is missing.
func Open(ctx context.Context, js jetstream.JetStream, replicas int, log *slog.Logger) (*Bucket, error) {
	kv, err := natsx.Ensure(ctx,
		func(ctx context.Context) (jetstream.KeyValue, error) { return js.KeyValue(ctx, BucketName) },
		func(ctx context.Context) error { return create(ctx, js, replicas) })
	if err != nil {
		return nil, fmt.Errorf("opening the leases (key-value bucket %s): %w", BucketName, err)
	}
	return &Bucket{kv: kv, keys: natsx.NewBucket(js, kv), log: cmp.Or(log, slog.New(slog.DiscardHandler))}, nil
}

// create creates the bucket as the client would, but without direct reads: other replicas of the stream may be behind
// the leader.
func create(ctx context.Context, js jetstream.JetStream, replicas int) error {
	account, err := js.AccountInfo(ctx)
	if err != nil {
		return err
	}
	if account.API.Level < 1 {
		return fmt.Errorf("%w; this one is %s", ErrOldServer, js.Conn().ConnectedServerVersion())
	}
	return natsx.CreateStream(ctx, js, jetstream.StreamConfig{Name: Stream, Subjects: []string{"$KV." + BucketName + ".>"},
		Description: "which replica of an embedd pipeline learns", Storage: jetstream.FileStorage,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
		AllowMsgTTL: true, SubjectDeleteMarkerTTL: markerTTL}, replicas)
}

// Claim is the value of a lease: its holder.
type Claim struct {
	Holder  string `json:"holder"`            // the instance, which is unique
	Host    string `json:"host,omitempty"`    // where it runs, for operators
	Process string `json:"process,omitempty"` // see processID
	// Settings are what the replicas of a pipeline must agree on, by configuration key.
	Settings map[string]string `json:"settings,omitempty"`
}

// NewClaim is the claim of an instance in this process.
func NewClaim(instance string, settings map[string]string) Claim {
	host, _ := os.Hostname()
	return Claim{Holder: instance, Host: host, Process: processID(), Settings: settings}
}

// entry is the stored lease; the claim is nil if no replica holds it. The revision may be that of a delete marker.
type entry struct {
	claim    *Claim
	revision uint64
}

// read reads a lease at the leader of the bucket.
func (b *Bucket) read(ctx context.Context, key string) (entry, error) {
	value, revision, err := b.keys.Get(ctx, key)
	if value == nil || err != nil {
		return entry{revision: revision}, err // released, or expired
	}
	c, ok := parseClaim(value)
	if !ok {
		c = Claim{Holder: "unknown writer"} // it expires like any other
	}
	return entry{&c, revision}, nil
}

// Refused returns what was refused in the last minutes under the keys of a pipeline.
func (b *Bucket) Refused(pipeline string) []natsx.Refusal { return b.keys.Refused(pipeline) }

func parseClaim(data []byte) (c Claim, ok bool) {
	err := json.Unmarshal(data, &c)
	return c, err == nil && c.Holder != ""
}

// SetBookmark stores a text for the next holder of a lease, under its own key, without a TTL.
func (b *Bucket) SetBookmark(ctx context.Context, key, word string) error {
	return b.keys.Put(ctx, key, []byte(word))
}

// Bookmark reads what SetBookmark stored, "" if nothing. It may be an answer of the server that a client had stored
// there.
func (b *Bucket) Bookmark(ctx context.Context, key string) (string, error) {
	text, err := b.keys.Any(ctx, key)
	return string(text), err
}

// write stores a claim if the key is still at a revision, 0 for none.
func (b *Bucket) write(ctx context.Context, key string, c *Claim, revision uint64,
	life time.Duration) (uint64, error) {
	value, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	return b.keys.Update(ctx, key, value, revision, jetstream.WithMsgTTL(life))
}

// member is the holder of a lease of a group.
type member struct {
	claim Claim
	seen  time.Time // when it was last renewed, by this clock
}

// WatchMembers calls changed with the members of a group, at first and whenever they change, until ctx is done. A
// member is the last token of a key GROUP.NAME whose lease is held and was renewed within ttl. own is the claim of
// this process.
func (b *Bucket) WatchMembers(ctx context.Context, group string, ttl time.Duration, own Claim, changed func([]string)) {
	there, last := map[string]member{}, []string(nil)
	tick := time.NewTicker(ttl / 10)
	defer tick.Stop()
	for ctx.Err() == nil {
		w, err := b.kv.Watch(ctx, group+".*")
		if err != nil {
			b.log.Debug("a group of leases cannot be watched; trying again", "group", group, "error", err)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
			continue
		}
		for whole, open := false, true; open && ctx.Err() == nil; {
			var entry jetstream.KeyValueEntry
			select {
			case entry, open = <-w.Updates():
				if !open { // the watch has ended, so the members are not known
					break
				}
				if whole = whole || entry == nil; entry != nil {
					updateMember(there, strings.TrimPrefix(entry.Key(), group+"."), entry)
				}
			case <-tick.C:
			case <-ctx.Done():
			}
			// A delete marker can be missing after the bucket's leader changed, and a crash on this machine is known sooner.
			for name, m := range there {
				if time.Since(m.seen) > ttl*3/2 || hasDied(&m.claim, &own) {
					delete(there, name)
				}
			}
			if now := slices.Sorted(maps.Keys(there)); whole && !slices.Equal(now, last) {
				last = now
				changed(slices.Clone(now))
			}
		}
		_ = w.Stop()
		select { // no watch ends sooner than the next begins
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func updateMember(there map[string]member, name string, entry jetstream.KeyValueEntry) {
	c, ok := parseClaim(entry.Value())
	if entry.Operation() != jetstream.KeyValuePut || !ok {
		delete(there, name)
		return
	}
	there[name] = member{c, time.Now()}
}
