package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"
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

// MinServerVersion is the oldest server version that does.
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
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	stream jetstream.Stream // behind it
	watch  *natsx.BucketWatch
	prefix string // before the subject of a key: the way into a domain
	log    *slog.Logger
}

// Open opens the bucket, and creates it with a number of replicas (see [natsx.WithReplicas]) where it is missing.
func Open(ctx context.Context, js jetstream.JetStream, replicas int, log *slog.Logger) (*Bucket, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	kv, err := natsx.Ensure(ctx,
		func(ctx context.Context) (jetstream.KeyValue, error) { return js.KeyValue(ctx, BucketName) },
		func(ctx context.Context) error { return create(ctx, js, replicas) })
	if err != nil {
		return nil, fmt.Errorf("opening the leases (key-value bucket %s): %w", BucketName, err)
	}
	stream, err := natsx.Await(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return js.Stream(ctx,
			Stream)
	})
	if err != nil {
		return nil, fmt.Errorf("opening the leases (stream %s): %w", Stream, err)
	}
	return &Bucket{js: js, kv: kv, stream: stream, watch: natsx.NewBucketWatch(kv, log),
		prefix: natsx.PublishPrefix(js), log: log}, nil
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
	return natsx.WithReplicas(js, replicas, func(n int) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: Stream, Subjects: []string{subject(">")}, Replicas: n,
			Description: "which replica of an embedd pipeline learns", Storage: jetstream.FileStorage,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
			AllowMsgTTL: true, SubjectDeleteMarkerTTL: markerTTL})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil // another replica was first
		}
		return err
	})
}

func subject(key string) string { return "$KV." + BucketName + "." + key }

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
	m, err := b.stream.GetLastMsgForSubject(ctx, subject(key))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return entry{}, nil
	case err != nil:
		return entry{}, err
	case natsx.IsDeleteMarker(m.Header):
		return entry{revision: m.Sequence}, nil // released, or expired
	}
	c, ok := parseClaim(m.Data)
	if !ok {
		c = Claim{Holder: "unknown writer"} // it expires like any other
	}
	return entry{&c, m.Sequence}, nil
}

func parseClaim(data []byte) (c Claim, ok bool) {
	err := json.Unmarshal(data, &c)
	return c, err == nil && c.Holder != ""
}

// SetBookmark stores a text for the next holder of a lease, under its own key, without a TTL.
func (b *Bucket) SetBookmark(ctx context.Context, key, word string) error {
	msg := nats.NewMsg(b.prefix + subject(key))
	msg.Data = []byte(word)
	_, err := b.js.PublishMsg(ctx, msg)
	return err
}

// Bookmark reads what SetBookmark stored, "" if nothing.
func (b *Bucket) Bookmark(ctx context.Context, key string) (string, error) {
	m, err := b.stream.GetLastMsgForSubject(ctx, subject(key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return string(m.Data), nil
}

// write stores a claim if the key is still at a revision, 0 for none.
func (b *Bucket) write(ctx context.Context, key string, c *Claim, revision uint64,
	life time.Duration) (uint64, error) {
	value, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	msg := nats.NewMsg(b.prefix + subject(key))
	msg.Data = value
	return natsx.PublishExpecting(ctx, b.js, msg, revision, jetstream.WithMsgTTL(life))
}

// remove deletes a lease that is still at a revision.
func (b *Bucket) remove(ctx context.Context, key string, revision uint64) error {
	msg := nats.NewMsg(b.prefix + subject(key))
	msg.Header.Set("KV-Operation", "DEL")
	_, err := natsx.PublishExpecting(ctx, b.js, msg, revision)
	return err
}
