package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// BucketName is the key-value bucket of all leases, Stream the stream behind it.
const (
	BucketName = "EMBEDD_LEASES"
	Stream     = "KV_" + BucketName
)

// Bucket has the leases of all pipelines.
type Bucket struct {
	keys     *natsx.Bucket
	silent   *natsx.Bucket // the same; its changes are not announced
	sessions sync.Map      // by TTL, of *sharedSession
}

// Open opens the bucket, and creates it with a number of replicas (see [natsx.WithReplicas]) where it is missing: as
// the client would, but without direct reads, since other replicas of the stream may be behind the leader. Changes are
// announced to the replicas that wait for them.
func Open(ctx context.Context, js jetstream.JetStream, replicas int) (*Bucket, error) {
	create := func(ctx context.Context) error {
		return natsx.CreateStream(ctx, js, jetstream.StreamConfig{Name: Stream,
			Subjects: []string{"$KV." + BucketName + ".>"}, Storage: jetstream.FileStorage,
			Description: "which replica of an embedd pipeline learns", MaxMsgsPerSubject: 1,
			Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true}, replicas)
	}
	keys, err := natsx.EnsureBucketBy(ctx, js, BucketName, create)
	var silent *natsx.Bucket
	if err == nil {
		silent, err = natsx.EnsureBucketBy(ctx, js, BucketName, create)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the leases (key-value bucket %s): %w", BucketName, err)
	}
	keys.AnnounceChanges()
	return &Bucket{keys: keys, silent: silent}, nil
}

// Claim is the value of a lease: its holder.
type Claim struct {
	Holder  string `json:"holder"`            // the instance, which is unique
	Host    string `json:"host,omitempty"`    // where it runs, for operators
	Process string `json:"process,omitempty"` // see processID
	TTL     int64  `json:"ttl_ms,omitempty"`  // how long it is valid without renewal, in milliseconds
	// Session is the session of the process, with which the claim ends; nil: the claim is renewed.
	Session *Session `json:"session,omitempty"`
	// Settings are what the members of a group must agree on, by configuration key.
	Settings map[string]string `json:"settings,omitempty"`

	// Of a member of a group: the parts that it owns or drains, the number of the newest assignment that it has read, and
	// whether it drains all of them because it leaves.
	Holds     []string `json:"holds,omitempty"`
	Seen      uint64   `json:"seen,omitempty"`
	IsLeaving bool     `json:"leaves,omitempty"`
	// Of the coordinator of a group: its assignment, and whether the coordinator has left, so that the lease is free.
	Assignment *Assignment `json:"assignment,omitempty"`
	IsLeft     bool        `json:"is_left,omitempty"`
}

// Session is the lease of a process that holds other leases.
type Session struct {
	Key    string `json:"key"`
	Holder string `json:"holder"`
}

// NewClaim is the claim of an instance in this process.
func NewClaim(instance string, settings map[string]string) Claim {
	host, _ := os.Hostname()
	return Claim{Holder: instance, Host: host, Process: processID(), Settings: settings}
}

// ttl is how long the claim is valid without renewal: the reader's TTL where it does not say so, as those of unknown
// writers, or where no replica can have that TTL. A forged claim may have any: it is valid for maxTTLFactor of the
// reader's. A holder renews its claim three times in its TTL, so one with up to eighteen times the reader's keeps it.
func (c *Claim) ttl(own time.Duration) time.Duration {
	if c.TTL < MinTTL.Milliseconds() || c.TTL > MaxTTL.Milliseconds() {
		return own
	}
	return min(time.Duration(c.TTL)*time.Millisecond, maxTTLFactor*own)
}

const maxTTLFactor = 6

// entry is the stored lease; the claim is nil if no replica holds it. The revision may be that of a delete marker.
type entry struct {
	claim      *Claim
	revision   uint64
	assignment *Assignment // in the claim, or left by the former holder
}

// read reads a lease at the leader of the bucket. A request may take a quarter of the TTL: if one is lost, the next is
// answered within half a TTL, all of which counts.
func (b *Bucket) read(ctx context.Context, key string, ttl time.Duration) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, ttl/4)
	defer cancel()
	value, revision, err := b.keys.Get(ctx, key)
	if value == nil || err != nil {
		return entry{revision: revision}, err // released
	}
	c := parseClaim(value)
	e := entry{c, revision, c.Assignment}
	if c.IsLeft {
		e.claim = nil
	}
	return e, nil
}

// unknownWriter is the holder of a claim that cannot be read.
const unknownWriter = "unknown writer"

// parseClaim parses a claim. What cannot be read is one of an unknown writer, which expires like any other.
func parseClaim(data []byte) *Claim {
	c := &Claim{}
	if err := json.Unmarshal(data, c); err != nil || c.Holder == "" {
		return &Claim{Holder: unknownWriter}
	}
	if c.Session != nil && !c.Session.isValid() {
		c.Session = nil
	}
	return c
}

// Refused returns the subjects of what was refused in the last minutes under the keys of a pipeline.
func (b *Bucket) Refused(pipeline string) []string { return b.keys.Refused(pipeline) }

// Save stores a value for the next holder of a lease, under its own key.
func (b *Bucket) Save(ctx context.Context, key string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = b.keys.Put(ctx, key, text)
	}
	return err
}

// Load reads what Save stored. Without a value that can be decoded, value is unchanged.
func Load[T any](ctx context.Context, b *Bucket, key string, value *T) error {
	text, _, err := b.keys.Get(ctx, key)
	var stored T
	if err == nil && text != nil && json.Unmarshal(text, &stored) == nil {
		*value = stored
	}
	return err
}

// write stores a claim if the key is still at a revision, 0 for none.
func (b *Bucket) write(ctx context.Context, key string, c *Claim, revision uint64, ttl time.Duration) (uint64,
	error) {
	ctx, cancel := context.WithTimeout(ctx, renewalInterval(ttl))
	defer cancel()
	value, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	next, err := b.keys.Renew(ctx, key, value, revision)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && !errors.Is(err, natsx.ErrConflict) {
		err = fmt.Errorf("%w %s: %w", errRefused, key, natsx.ExplainPublishError(err, key))
	}
	return next, err
}

var errRefused = errors.New("the server does not store key")

// delete deletes a claim that is still at a revision.
func (b *Bucket) delete(ctx context.Context, key string, revision uint64, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, renewalInterval(ttl))
	defer cancel()
	return b.keys.Delete(ctx, key, revision)
}

// end deletes the claim of a holder that is still at a revision, or leaves it for the next one.
func (b *Bucket) end(ctx context.Context, key string, c *Claim, revision uint64, ttl time.Duration) error {
	if !c.IsLeft {
		return b.delete(ctx, key, revision, ttl)
	}
	next, err := b.write(ctx, key, c, revision, ttl)
	if err == nil {
		b.keys.Announce(key, next)
	}
	return err
}
