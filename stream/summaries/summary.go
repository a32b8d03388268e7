package summaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// The errors of Get.
var (
	ErrMissing = errors.New("the summary is not there yet")
	ErrDamaged = errors.New("the summary is damaged")
)

// part is how many bytes one key holds at most.
const part = 128 << 10

// manifest is what the key of a block holds.
type manifest struct {
	Digest string `json:"digest"` // SHA-256 of the bytes
	Bytes  int    `json:"bytes"`
}

func (m *manifest) parts() int { return (m.Bytes + part - 1) / part }

func (s *Shelf) part(n uint64, digest string, i int) string {
	return fmt.Sprintf("%s.%s.%d", s.block(n), digest[:16], i)
}

// Has tells whether the summary of a block is there.
func (s *Shelf) Has(ctx context.Context, n uint64) (bool, error) {
	m, err := s.get(ctx, s.block(n))
	return m != nil, err
}

// Put stores the summary of a block. It tells whether that was not there yet.
func (s *Shelf) Put(ctx context.Context, n uint64, text []byte) (first bool, err error) {
	sum := sha256.Sum256(text)
	m := manifest{Digest: hex.EncodeToString(sum[:]), Bytes: len(text)}
	for i := range m.parts() {
		_, err := s.put(ctx, s.part(n, m.Digest, i), text[i*part:min((i+1)*part, len(text))], 0)
		if err != nil && !errors.Is(err, errTaken) { // taken: by the same bytes
			return false, err
		}
	}
	value, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	_, err = s.put(ctx, s.block(n), value, 0)
	if errors.Is(err, errTaken) {
		return false, nil
	}
	return err == nil, err
}

// Get reads the summary of a block, of at most so many bytes. The error is ErrMissing, ErrDamaged, or one of the
// connection.
func (s *Shelf) Get(ctx context.Context, n uint64, most int64) ([]byte, error) {
	entry, err := s.get(ctx, s.block(n))
	if err != nil {
		return nil, err
	}
	if entry == nil {
		return nil, ErrMissing
	}
	var m manifest
	if err := json.Unmarshal(entry.Data, &m); err != nil || len(m.Digest) != 2*sha256.Size || m.Bytes < 0 {
		return nil, fmt.Errorf("%w: its key holds no digest", ErrDamaged)
	}
	if int64(m.Bytes) > most {
		return nil, fmt.Errorf("%w: it says that it has %d bytes, of %d at most", ErrDamaged, m.Bytes, most)
	}
	var text []byte
	for i := range m.parts() {
		one, err := s.get(ctx, s.part(n, m.Digest, i))
		if err != nil {
			return nil, err
		}
		if one == nil || len(one.Data) > part {
			return nil, fmt.Errorf("%w: part %d is missing, or too long", ErrDamaged, i)
		}
		text = append(text, one.Data...)
	}
	want, _ := hex.DecodeString(m.Digest)
	if sum := sha256.Sum256(text); !bytes.Equal(sum[:], want) {
		return nil, fmt.Errorf("%w: its digest does not match", ErrDamaged)
	}
	return text, nil
}

// Drop removes the summary of a block, whatever is left of it, and the claim.
func (s *Shelf) Drop(ctx context.Context, n uint64) error {
	return s.remove(ctx, s.block(n), s.block(n)+".>")
}
