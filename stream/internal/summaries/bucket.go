package summaries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// BucketName is the key-value bucket of all summaries, Stream the stream behind it.
const (
	BucketName = "EMBEDD_SUMMARIES"
	Stream     = "KV_" + BucketName

	bucketRoot = "$KV." + BucketName + "."
)

// Bucket has the summaries of all pipelines.
type Bucket struct{ store }

// PayloadShortage returns why the server takes no messages as large as summaries, with the fix; "" if it does.
func PayloadShortage(conn *nats.Conn) string {
	most := conn.MaxPayload()
	if most <= 0 || most >= 2*maxPartBytes {
		return ""
	}
	return fmt.Sprintf("the server takes messages of %d bytes, and summaries need %d; raise its max_payload, or leave "+
		"training.block out", most, 2*maxPartBytes)
}

// Open opens the bucket, and creates it where it is missing, with a number of replicas (see [natsx.WithReplicas]).
func Open(ctx context.Context, js jetstream.JetStream, replicas int) (*Bucket, error) {
	if short := PayloadShortage(js.Conn()); short != "" {
		return nil, errors.New(short)
	}
	s, err := open(ctx, js, jetstream.StreamConfig{Name: Stream, Subjects: []string{bucketRoot + ">"},
		Description: "what embedd pipelines learn from, summed up", Storage: jetstream.FileStorage, MaxMsgsPerSubject: 1,
		Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true}, bucketRoot, replicas)
	if err != nil {
		return nil, err
	}
	return &Bucket{s}, nil
}

// remove deletes keys without leaving delete markers.
func (b *Bucket) remove(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := b.stream.Purge(ctx, jetstream.WithPurgeSubject(b.root+key)); err != nil {
			return err
		}
	}
	return nil
}

// Collection has the summaries of one pipeline, for one incarnation of its stream and one configuration.
type Collection struct {
	*Bucket
	pipeline, key string
}

// Collection returns that of a pipeline with an input stream of a creation time, and a digest of its settings.
func (b *Bucket) Collection(pipeline, settings string, created time.Time) *Collection {
	return &Collection{b, pipeline, pipeline + "." + settings + "." + timeKey(created)}
}

func (s *Collection) block(n uint64) string { return s.key + "." + strconv.FormatUint(n, 10) }

// DeleteObsolete deletes the other collections of the pipeline, of earlier configurations and streams, and the
// summaries of this one before a block, which were stored late.
func (s *Collection) DeleteObsolete(ctx context.Context, from uint64) error {
	keys, err := natsx.SubjectEnds(ctx, s.js, Stream, s.root+s.pipeline+".")
	if err != nil {
		return err
	}
	obsolete := map[string]bool{}
	for _, key := range keys {
		token := strings.Split(key, ".")
		if len(token) < 3 {
			continue
		}
		collection := s.pipeline + "." + token[0] + "." + token[1]
		if n, err := strconv.ParseUint(token[2], 10, 64); collection != s.key {
			obsolete[collection] = true
		} else if err == nil && n < from {
			obsolete[s.block(n)] = true
		}
	}
	for key := range obsolete {
		if err := s.remove(ctx, key, key+".>"); err != nil {
			return err
		}
	}
	return nil
}

// Progress records which blocks are needed.
type Progress struct {
	From     uint64   `json:"from"`     // the oldest block that is still there
	Next     uint64   `json:"next"`     // the block that is learned, or sent, next
	Features []string `json:"features"` // of the rows, in their order
}

// Progress returns what was stored last; nil if nothing was.
func (s *Collection) Progress(ctx context.Context) (*Progress, error) {
	return getJSON[Progress](ctx, &s.store, s.key+".mark")
}

// SetProgress is for the trainer. If two replicas believe that they are, the later write counts; at worst unneeded
// summaries are made.
func (s *Collection) SetProgress(ctx context.Context, p Progress) error {
	_, err := s.putJSON(ctx, s.key+".mark", p)
	return err
}

// Has reports whether the summary of a block is stored.
func (s *Collection) Has(ctx context.Context, n uint64) (bool, error) {
	m, err := s.get(ctx, s.block(n))
	return m != nil, err
}

// Put stores the summary of a block, and reports whether it is the first.
func (s *Collection) Put(ctx context.Context, n uint64, text []byte) (isFirst bool, err error) {
	m, err := s.putParts(ctx, s.block(n), text)
	if err == nil {
		_, err = s.putJSON(ctx, s.block(n), m, ifAt(0))
	}
	if errors.Is(err, natsx.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// Get reads the summary of a block, of at most maxBytes; nil if there is none. The error is ErrDamaged, or one of the
// connection.
func (s *Collection) Get(ctx context.Context, n uint64, maxBytes int64) ([]byte, error) {
	entry, err := s.get(ctx, s.block(n))
	if entry == nil {
		return nil, err
	}
	var m manifest
	_ = json.Unmarshal(entry.Data, &m) // a value that is no manifest is not valid
	return s.getParts(ctx, s.block(n), m, maxBytes)
}

// Delete deletes the summary of a block, its parts and the claim.
func (s *Collection) Delete(ctx context.Context, n uint64) error {
	return s.remove(ctx, s.block(n), s.block(n)+".>")
}
