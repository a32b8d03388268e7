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

// Name is the name of the key-value bucket that holds the leases, Stream that of the stream behind it.
const (
	BucketName = "EMBEDD_LEASES"
	Stream     = "KV_" + BucketName
)

// ErrOldServer is returned by [Open] for a server that does not end keys by itself.
var ErrOldServer = errors.New("leases need keys that end by themselves, which NATS servers have from 2.11 on")

// MinServerVersion is the oldest server that does.
var MinServerVersion = [3]int{2, 11, 0}

// Create makes the bucket where it is missing.
func Create(ctx context.Context, js jetstream.JetStream, replicas int) error {
	if err := create(ctx, js, replicas); err != nil {
		return fmt.Errorf("making the leases (key-value bucket %s): %w", BucketName, err)
	}
	return nil
}

// markerTTL is how long the mark of a key that has ended stays.
const markerTTL = time.Minute

// Bucket is where the leases of all pipelines are.
type Bucket struct {
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	stream jetstream.Stream // behind it
	watch  *natsx.BucketWatch
	prefix string // before the subject of a key: the way into a domain
	log    *slog.Logger
}

// Open binds the bucket, or makes it where it is missing with so many replicas (see [natsx.WithReplicas]): it is ours,
// not the user's.
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

// create makes the bucket as the client would, but that it is read at its leader alone: what another replica of it holds
// may be old.
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

// Claim is what a lease says of who holds it.
type Claim struct {
	Holder  string `json:"holder"`            // the instance; no two have the same
	Host    string `json:"host,omitempty"`    // where it runs, for people
	Process string `json:"process,omitempty"` // by which others on the same machine see that it has died
	// Settings are what the replicas of a pipeline must agree on, by the keys of the configuration.
	Settings map[string]string `json:"settings,omitempty"`
}

// NewClaim is the claim of this process, for an instance in it.
func NewClaim(instance string, settings map[string]string) Claim {
	host, _ := os.Hostname()
	return Claim{Holder: instance, Host: host, Process: processID(), Settings: settings}
}

// entry is a lease as it stands; no claim where nobody holds it. The revision is that of what the key holds, if only a
// mark.
type entry struct {
	claim    *Claim
	revision uint64
}

// read asks the leader of the bucket.
func (b *Bucket) read(ctx context.Context, key string) (entry, error) {
	m, err := b.stream.GetLastMsgForSubject(ctx, subject(key))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return entry{}, nil
	case err != nil:
		return entry{}, err
	case natsx.IsDeleteMarker(m.Header):
		return entry{revision: m.Sequence}, nil // given back, or ended by the server
	}
	c, ok := parseClaim(m.Data)
	if !ok {
		c = Claim{Holder: "somebody who wrote what is no lease"} // it ends as any
	}
	return entry{&c, m.Sequence}, nil
}

func parseClaim(data []byte) (c Claim, ok bool) {
	err := json.Unmarshal(data, &c)
	return c, err == nil && c.Holder != ""
}

// SetBookmark keeps a word for whoever holds a lease next, under a key of its own; it does not end. Left reads it, "" where
// there is none.
func (b *Bucket) SetBookmark(ctx context.Context, key, word string) error {
	msg := nats.NewMsg(b.prefix + subject(key))
	msg.Data = []byte(word)
	_, err := b.js.PublishMsg(ctx, msg)
	return err
}

// Bookmark reads what was left; see Leave.
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

// write sets a claim where the key still is at a revision; 0: where it is not there.
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

// remove ends a lease that is still at a revision.
func (b *Bucket) remove(ctx context.Context, key string, revision uint64) error {
	msg := nats.NewMsg(b.prefix + subject(key))
	msg.Header.Set("KV-Operation", "DEL")
	_, err := natsx.PublishExpecting(ctx, b.js, msg, revision)
	return err
}
