package summaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/embedd/embedd/internal/natsx"
)

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

// whole reports whether the manifest is valid.
func (m *manifest) whole() bool {
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
	if err := json.Unmarshal(entry.Data, &m); err != nil || !m.whole() {
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
