// Package summaries stores the statistics that the replicas of a pipeline share for training: a summary of each block
// of the input, stored once. It treats a summary as bytes.
//
// Replicas share summaries in a key-value bucket. An edge sends its own in a stream, which the hub's stream sources.
// Everywhere a summary is stored in parts before its manifest, which has its digest. The keys of the parts contain that
// digest, so replicas that store the same summary write the same keys, and different summaries never mix.
package summaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// store is a stream whose subjects are a root and a key.
type store struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	root   string
}

// Ensure creates a stream of summaries where it is missing, with a number of replicas (see [natsx.WithReplicas]). It
// adds missing sources to an existing one. Other sources stay, since another pipeline may need them, and so does the
// size limit unless it resizes. Only setup resizes: daemons with different configurations would change it in turns.
func Ensure(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig, replicas int, resizes bool) error {
	have, err := natsx.FindStream(ctx, js, c.Name)
	if err == nil && have == nil {
		if err = natsx.CreateStream(ctx, js, c, replicas); err == nil {
			have, err = natsx.AwaitStream(ctx, js, c.Name) // another process may have created it, with other sources
		}
	}
	if err == nil {
		err = natsx.UpdateStream(ctx, js, have, func(now *jetstream.StreamConfig) {
			for _, source := range c.Sources {
				if !hasSource(now, source.External.APIPrefix) {
					now.Sources = append(now.Sources, source)
				}
			}
			if resizes {
				now.MaxBytes = c.MaxBytes
			}
		})
	}
	if err != nil && c.MaxBytes > 0 {
		err = fmt.Errorf("it keeps up to %d MiB (nats.edge_bytes): %w", c.MaxBytes>>20, err)
	}
	if err != nil {
		err = fmt.Errorf("creating or changing the stream of summaries %s: %w", c.Name, err)
	}
	return err
}

// open opens a stream, after Ensure.
func open(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig, root string, replicas int) (store,
	error) {
	if err := Ensure(ctx, js, c, replicas, false); err != nil {
		return store{}, err
	}
	stream, err := natsx.AwaitStream(ctx, js, c.Name)
	return store{js, stream, root}, err
}

// Info returns the state and the configuration of the stream when it was opened.
func (s *store) Info() *jetstream.StreamInfo { return s.stream.CachedInfo() }

// get reads a key; nil if it does not exist.
func (s *store) get(ctx context.Context, key string) (*jetstream.RawStreamMsg, error) {
	return natsx.LastMessage(ctx, s.stream, s.root+key)
}

// put stores a value, whatever the key holds.
func (s *store) put(ctx context.Context, key string, value []byte, options ...jetstream.PublishOpt) (
	revision uint64, err error) {
	ack, err := s.js.Publish(ctx, natsx.PublishPrefix(s.js)+s.root+key, value, options...)
	if err = natsx.ConflictError(err); err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// putJSON is put for a value of a struct.
func (s *store) putJSON(ctx context.Context, key string, value any, options ...jetstream.PublishOpt) (revision uint64,
	err error) {
	text, err := json.Marshal(value)
	if err != nil {
		return 0, err
	}
	return s.put(ctx, key, text, options...)
}

// ifAt is the option to store a value only if the key is still at a revision, 0 for none. The error is ErrConflict.
func ifAt(revision uint64) jetstream.PublishOpt {
	return jetstream.WithExpectLastSequencePerSubject(revision)
}

// getJSON reads a value that putJSON stored; nil if there is none, or it cannot be read: then its writer replaces it.
func getJSON[T any](ctx context.Context, s *store, key string) (*T, error) {
	m, err := s.get(ctx, key)
	value := new(T)
	if m == nil || err != nil || json.Unmarshal(m.Data, value) != nil {
		return nil, err
	}
	return value, nil
}

// ErrDamaged is the error for a summary that is not complete, or not the one that its manifest describes.
var ErrDamaged = errors.New("the summary is damaged")

// maxPartBytes is the maximum number of bytes of one key.
const maxPartBytes = 128 << 10

// manifest describes a stored summary.
type manifest struct {
	Digest string `json:"digest"` // SHA-256 of the bytes
	Bytes  int    `json:"bytes"`
}

func manifestOf(text []byte) manifest {
	sum := sha256.Sum256(text)
	return manifest{Digest: hex.EncodeToString(sum[:]), Bytes: len(text)}
}

// isValid reports whether the manifest has the digest and the size of a summary.
func (m *manifest) isValid() bool {
	digest, err := hex.DecodeString(m.Digest)
	return err == nil && len(digest) == sha256.Size && m.Bytes > 0
}

func (m *manifest) parts() int { return (m.Bytes + maxPartBytes - 1) / maxPartBytes }

// part is the key of a part of the summary below a key.
func (m *manifest) part(key string, i int) string {
	return fmt.Sprintf("%s.%s.%d", key, m.Digest[:16], i)
}

// putParts stores the parts of a summary below a key.
func (s *store) putParts(ctx context.Context, key string, text []byte) (manifest, error) {
	m := manifestOf(text)
	for i := range m.parts() {
		_, err := s.put(ctx, m.part(key, i), text[i*maxPartBytes:min((i+1)*maxPartBytes, len(text))], ifAt(0))
		if err != nil && !errors.Is(err, natsx.ErrConflict) { // there are the same bytes
			return m, err
		}
	}
	return m, nil
}

// getParts reads a summary of at most maxBytes. The error is ErrDamaged, or one of the connection.
func (s *store) getParts(ctx context.Context, key string, m manifest, maxBytes int64) (text []byte, err error) {
	if !m.isValid() || int64(m.Bytes) > maxBytes {
		return nil, fmt.Errorf("%w: its manifest has no digest, or %d bytes, and the limit is %d", ErrDamaged, m.Bytes,
			maxBytes)
	}
	for i := range m.parts() {
		one, err := s.get(ctx, m.part(key, i))
		if err != nil {
			return nil, err
		}
		if one == nil || len(one.Data) > maxPartBytes {
			return nil, fmt.Errorf("%w: part %d is missing, or too long", ErrDamaged, i)
		}
		text = append(text, one.Data...)
	}
	if manifestOf(text) != m {
		return nil, fmt.Errorf("%w: its digest does not match", ErrDamaged)
	}
	return text, nil
}

// timeKey is a creation time as a token of a key.
func timeKey(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }
