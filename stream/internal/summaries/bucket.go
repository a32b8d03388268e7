// Package summaries stores the statistics that the replicas of a pipeline share for training: a summary of each block
// of the input, stored once, in a key-value bucket. It treats a summary as bytes.
//
// A summary is stored in parts. Their keys contain its digest, so two replicas that store the same summary write the
// same keys, and different summaries never mix. The key of the block names the digest that counts. A replica claims a
// block before it makes the summary: this saves work and guarantees nothing.
package summaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// BucketName is the key-value bucket of all summaries, Stream the stream behind it.
const (
	BucketName = "EMBEDD_SUMMARIES"
	Stream     = "KV_" + BucketName
)

// Bucket has the summaries of all pipelines.
type Bucket struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	prefix string // prefix of the subject of a key, for another domain
}

// Open opens the bucket, and creates it where it is missing, with a number of replicas (see [natsx.WithReplicas]).
func Open(ctx context.Context, js jetstream.JetStream, replicas int) (*Bucket, error) {
	if most := js.Conn().MaxPayload(); most > 0 && most < 2*maxPartBytes {
		return nil, fmt.Errorf("the server takes messages of %d bytes, and summaries need %d; raise its max_payload, or "+
			"leave training.block out", most, 2*maxPartBytes)
	}
	stream, err := natsx.Ensure(ctx, func(ctx context.Context) (jetstream.Stream, error) { return js.Stream(ctx, Stream) },
		func(ctx context.Context) error {
			return natsx.CreateStream(ctx, js, jetstream.StreamConfig{Name: Stream, Subjects: []string{subject(">")},
				Description: "what embedd pipelines learn from, summed up", Storage: jetstream.FileStorage, MaxMsgsPerSubject: 1,
				Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true}, replicas)
		})
	if err != nil {
		return nil, fmt.Errorf("opening the summaries (key-value bucket %s): %w", BucketName, err)
	}
	return &Bucket{js: js, stream: stream, prefix: natsx.PublishPrefix(js)}, nil
}

func subject(key string) string { return "$KV." + BucketName + "." + key }

// put stores a value if its key is still at a revision, 0 for none.
func (b *Bucket) put(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return natsx.PublishExpecting(ctx, b.js, &nats.Msg{Subject: b.prefix + subject(key), Data: value}, revision)
}

// get reads a key; nil if it does not exist.
func (b *Bucket) get(ctx context.Context, key string) (*jetstream.RawStreamMsg, error) {
	return natsx.LastMessage(ctx, b.stream, subject(key))
}

// putJSON stores a value, whatever the key holds.
func (b *Bucket) putJSON(ctx context.Context, key string, value any) error {
	data, err := json.Marshal(value)
	if err == nil {
		_, err = b.js.PublishMsg(ctx, &nats.Msg{Subject: b.prefix + subject(key), Data: data})
	}
	return err
}

// getJSON reads a value that putJSON stored; nil if there is none, or it cannot be read: then its writer replaces it.
func getJSON[T any](ctx context.Context, b *Bucket, key string) (*T, error) {
	m, err := b.get(ctx, key)
	value := new(T)
	if m == nil || err != nil || json.Unmarshal(m.Data, value) != nil {
		return nil, err
	}
	return value, nil
}

// remove deletes keys without leaving delete markers.
func (b *Bucket) remove(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := b.stream.Purge(ctx, jetstream.WithPurgeSubject(subject(key))); err != nil {
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
	return &Collection{b, pipeline, pipeline + "." + settings + "." + strconv.FormatInt(created.UnixNano(), 36)}
}

func (s *Collection) block(n uint64) string { return s.key + "." + strconv.FormatUint(n, 10) }

// DeleteObsolete deletes the other collections of the pipeline, of earlier configurations and streams, and the
// summaries of this one before a block, which were stored late.
func (s *Collection) DeleteObsolete(ctx context.Context, from uint64) error {
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(subject(s.pipeline+".>")))
	if err != nil {
		return err
	}
	gone := map[string]bool{}
	for key := range info.State.Subjects {
		if token := strings.Split(strings.TrimPrefix(key, subject("")), "."); len(token) > 3 {
			collection := strings.Join(token[:3], ".")
			if n, err := strconv.ParseUint(token[3], 10, 64); collection != s.key {
				gone[collection] = true
			} else if err == nil && n < from {
				gone[s.block(n)] = true
			}
		}
	}
	for key := range gone {
		if err := s.remove(ctx, key, key+".>"); err != nil {
			return err
		}
	}
	return nil
}

// Progress records which blocks the trainer needs.
type Progress struct {
	From     uint64   `json:"from"`     // the oldest block that is still there
	Next     uint64   `json:"next"`     // the block that is learned next
	Features []string `json:"features"` // of the rows, in their order
}

// Progress returns what was stored last; nil if nothing was.
func (s *Collection) Progress(ctx context.Context) (*Progress, error) {
	return getJSON[Progress](ctx, s.Bucket, s.key+".mark")
}

// SetProgress is for the trainer. If two replicas believe that they are, the later write counts; at worst unneeded
// summaries are made.
func (s *Collection) SetProgress(ctx context.Context, p Progress) error {
	return s.putJSON(ctx, s.key+".mark", p)
}

// Claims are the blocks that one replica summarises. It rewrites each claim while it works. A claim that has not
// changed for some time, by the reader's clock, is of a process that has ended, and another replica takes the block.
type Claims struct {
	collection *Collection
	owner      string
	life       time.Duration
	seen       map[uint64]observedClaim // claims of other replicas
}

// observedClaim is another replica's claim when it was first seen at a revision.
type observedClaim struct {
	revision uint64
	since    time.Time
}

// claimant is the value of a claim's key.
type claimant struct {
	Owner    string `json:"owner"`
	Attempts int    `json:"attempts"` // replicas that have claimed the block, this one included: the others crashed
}

// Claims returns the claims of an owner with a unique name. A claim expires when it was not rewritten for a time.
func (s *Collection) Claims(owner string, life time.Duration) *Claims {
	return &Claims{collection: s, owner: owner, life: life, seen: map[uint64]observedClaim{}}
}

// Claim is a claimed block.
type Claim struct {
	claimant
	claims   *Claims
	n        uint64
	stop     context.CancelFunc
	renewal  sync.WaitGroup
	revision uint64
}

func (c *Claims) key(n uint64) string { return c.collection.block(n) + ".claim" }

// TryClaim claims a block; nil if another replica has it. The caller releases it.
func (c *Claims) TryClaim(ctx context.Context, n uint64) (*Claim, error) {
	there, err := c.collection.get(ctx, c.key(n))
	if err != nil {
		return nil, err
	}
	t := &Claim{claimant: claimant{c.owner, 1}, claims: c, n: n}
	if there != nil {
		last, isKnown := c.seen[n]
		if !isKnown || last.revision != there.Sequence {
			c.seen[n] = observedClaim{there.Sequence, time.Now()}
			return nil, nil
		}
		if time.Since(last.since) < c.life {
			return nil, nil
		}
		var other claimant
		_ = json.Unmarshal(there.Data, &other) // a value that is no claim counts as an expired one
		t.Attempts, t.revision = other.Attempts+1, there.Sequence
	}
	delete(c.seen, n)
	if err := t.write(ctx); errors.Is(err, natsx.ErrConflict) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	ctx, t.stop = context.WithCancel(ctx)
	t.renewal.Go(func() { t.renew(ctx) })
	return t, nil
}

// write stores the claim and notes its revision.
func (t *Claim) write(ctx context.Context) error {
	value, err := json.Marshal(t.claimant)
	if err != nil {
		return err
	}
	revision, err := t.claims.collection.put(ctx, t.claims.key(t.n), value, t.revision)
	if err == nil {
		t.revision = revision
	}
	return err
}

// renew rewrites the claim periodically, which shows that its owner is alive.
func (t *Claim) renew(ctx context.Context) {
	for natsx.Sleep(ctx, t.claims.life/4) {
		if errors.Is(t.write(ctx), natsx.ErrConflict) {
			return // another replica took this one for crashed; both make the same bytes
		}
	}
}

// Release ends the claim: the summary is stored, or left to another replica.
func (t *Claim) Release(ctx context.Context) error {
	t.stop()
	t.renewal.Wait()
	return t.claims.collection.remove(ctx, t.claims.key(t.n))
}

// Forget drops what was observed of blocks before one.
func (c *Claims) Forget(before uint64) {
	for n := range c.seen {
		if n < before {
			delete(c.seen, n)
		}
	}
}

// Errors of Get.
var (
	ErrMissing = errors.New("the summary is not there yet")
	ErrDamaged = errors.New("the summary is damaged")
)

// maxPartBytes is the maximum number of bytes of one key.
const maxPartBytes = 128 << 10

// manifest is the value of a block's key.
type manifest struct {
	Digest string `json:"digest"` // SHA-256 of the bytes
	Bytes  int    `json:"bytes"`
}

func (m *manifest) parts() int { return (m.Bytes + maxPartBytes - 1) / maxPartBytes }

// part is the last tokens of a part's key.
func (m *manifest) part(i int) string { return fmt.Sprintf("%s.%d", m.Digest[:16], i) }

// isValid reports whether the manifest has the digest and the size of a summary.
func (m *manifest) isValid() bool {
	digest, err := hex.DecodeString(m.Digest)
	return err == nil && len(digest) == sha256.Size && m.Bytes > 0
}

// manifestOf is the manifest of a summary.
func manifestOf(text []byte) manifest {
	sum := sha256.Sum256(text)
	return manifest{Digest: hex.EncodeToString(sum[:]), Bytes: len(text)}
}

// partOf is a part of a summary.
func partOf(text []byte, i int) []byte {
	return text[i*maxPartBytes : min((i+1)*maxPartBytes, len(text))]
}

// read joins the parts of a summary; get returns nil for a missing one.
func (m *manifest) read(maxBytes int64, get func(i int) ([]byte, error)) ([]byte, error) {
	if int64(m.Bytes) > maxBytes {
		return nil, fmt.Errorf("%w: its header gives %d bytes, and the limit is %d", ErrDamaged, m.Bytes, maxBytes)
	}
	var text []byte
	for i := range m.parts() {
		one, err := get(i)
		if err != nil {
			return nil, err
		}
		if one == nil || len(one) > maxPartBytes {
			return nil, fmt.Errorf("%w: part %d is missing, or too long", ErrDamaged, i)
		}
		text = append(text, one...)
	}
	want, _ := hex.DecodeString(m.Digest)
	if sum := sha256.Sum256(text); !bytes.Equal(sum[:], want) {
		return nil, fmt.Errorf("%w: its digest does not match", ErrDamaged)
	}
	return text, nil
}

// Has reports whether the summary of a block is stored.
func (s *Collection) Has(ctx context.Context, n uint64) (bool, error) {
	m, err := s.get(ctx, s.block(n))
	return m != nil, err
}

// Put stores the summary of a block, and reports whether it is the first.
func (s *Collection) Put(ctx context.Context, n uint64, text []byte) (first bool, err error) {
	m := manifestOf(text)
	for i := range m.parts() {
		_, err := s.put(ctx, s.block(n)+"."+m.part(i), partOf(text, i), 0)
		if err != nil && !errors.Is(err, natsx.ErrConflict) { // taken: by the same bytes
			return false, err
		}
	}
	value, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	_, err = s.put(ctx, s.block(n), value, 0)
	if errors.Is(err, natsx.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// Get reads the summary of a block, of at most maxBytes. The error is ErrMissing, ErrDamaged, or one of the connection.
func (s *Collection) Get(ctx context.Context, n uint64, maxBytes int64) ([]byte, error) {
	entry, err := s.get(ctx, s.block(n))
	if err != nil {
		return nil, err
	}
	if entry == nil {
		return nil, ErrMissing
	}
	var m manifest
	if err := json.Unmarshal(entry.Data, &m); err != nil || !m.isValid() {
		return nil, fmt.Errorf("%w: its key has no digest", ErrDamaged)
	}
	return m.read(maxBytes, func(i int) ([]byte, error) {
		one, err := s.get(ctx, s.block(n)+"."+m.part(i))
		if one == nil || err != nil {
			return nil, err
		}
		return one.Data, nil
	})
}

// Delete deletes the summary of a block, its parts and the claim.
func (s *Collection) Delete(ctx context.Context, n uint64) error {
	return s.remove(ctx, s.block(n), s.block(n)+".>")
}
