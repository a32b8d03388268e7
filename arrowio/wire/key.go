package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"sync"
)

// Key computes the Nats-Msg-Id of a pipeline's answers. A client without the secret cannot predict the id of an answer,
// so it cannot make a stream discard the answer as a duplicate. Safe for concurrent use.
type Key struct {
	mu   sync.Mutex
	mac  hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

// NewKey returns the key of a secret.
func NewKey(secret []byte) *Key {
	return &Key{mac: hmac.New(sha256.New, secret), text: make([]byte, 0, 256)}
}

// ID returns the Nats-Msg-Id of one part of a result. It depends on the input and the configuration, never on the
// model, so that a redelivery after a change of models is deduplicated (Invariant 2).
func (k *Key) ID(o Origin, pipeline string, a Answer, part int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	text := append(k.text[:0], o.Stream...)
	text = strconv.AppendInt(append(text, 0), o.Created.UnixNano(), 10)
	text = strconv.AppendUint(append(text, 0), o.Seq, 10)
	text = append(append(text, 0), pipeline...)
	text = append(append(text, 0), a...)
	k.text = strconv.AppendInt(append(text, 0), int64(part), 10)
	k.mac.Reset()
	k.mac.Write(k.text)
	var digits [32]byte
	hex.Encode(digits[:], k.mac.Sum(k.sum[:0])[:16])
	return string(digits[:])
}

// SecondID is the identity of a result whose first one another message has.
func (k *Key) SecondID(o Origin, pipeline string, a Answer, part int) string {
	return k.ID(o, pipeline, a+"\x00again", part)
}
