package natsx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrConflict reports that a key is not at the expected revision: another client was faster.
var ErrConflict = errors.New("the key was changed by another client")

// writerHeader marks an entry that a Bucket wrote, writer is its value.
const writerHeader, writer = "KV-Writer", "embedd"

// Bucket is a key-value bucket that is read at the leader of its stream: jetstream.KeyValue reads at any replica, which
// may not have the last write yet. Writes compare the revision of the key, and only such writes count (see isWritten).
type Bucket struct {
	js     jetstream.JetStream
	name   string
	prefix string                      // of the subjects of keys, with the route into the JetStream domain
	create func(context.Context) error // if it was deleted; nil: not
	direct bool                        // Get reads by subject, at any replica
	mirror bool                        // entries of earlier versions have no header that distinguishes them from answers

	announces atomic.Bool  // see AnnounceChanges
	receiver  *Receiver    // of announcements
	streams   *StreamCache // for State

	mu       sync.Mutex
	watches  map[string]*announcements // by pipeline
	restored chan nats.Status          // of the connection, while there are watches
	refused  map[string]time.Time      // when each key was refused
	// unconfirmed has the revision before a write of a key that was not confirmed. Get announces a later one.
	unconfirmed map[string]uint64
}

// OpenBucket opens a bucket that exists. If it mirrors another one, any message counts as an entry: the mirror has
// removed the header by which those of earlier versions are known.
func OpenBucket(ctx context.Context, js jetstream.JetStream, name string) (*Bucket, error) {
	stream, err := js.Stream(ctx, "KV_"+name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, jetstream.ErrBucketNotFound
	}
	if err != nil {
		return nil, err
	}
	b := NewBucket(js, name)
	b.mirror = stream.CachedInfo().Config.Mirror != nil
	return b, nil
}

// OpenBucketByKey opens a bucket that exists, whose Get needs permission for the key that it reads and not for the
// whole bucket. It reads at any replica, which may not have the last write yet.
func OpenBucketByKey(ctx context.Context, js jetstream.JetStream, name string) (*Bucket, error) {
	b, err := OpenBucket(ctx, js, name)
	if err == nil {
		b.direct = true
	}
	return b, err
}

// NewBucket is a bucket of a name. It sends no request.
func NewBucket(js jetstream.JetStream, name string) *Bucket {
	return &Bucket{js: js, name: name, prefix: PublishPrefix(js) + "$KV." + name + ".",
		streams: NewStreamCache(), receiver: NewReceiver(js.Conn())}
}

// EnsureBucket opens a bucket, and creates it with a number of replicas (see WithReplicas) where it is missing. If it
// is deleted later, the next Get creates it again (see Recreating).
func EnsureBucket(ctx context.Context, js jetstream.JetStream, config jetstream.KeyValueConfig, replicas int) (
	*Bucket, error) {
	return EnsureBucketBy(ctx, js, config.Bucket, func(ctx context.Context) error {
		return WithReplicas(js, replicas, func(n int) error {
			config.Replicas = n
			_, err := js.CreateKeyValue(ctx, config)
			return err
		})
	})
}

// EnsureBucketBy is EnsureBucket for a bucket that is created in a special way.
func EnsureBucketBy(ctx context.Context, js jetstream.JetStream, name string, create func(context.Context) error) (
	*Bucket, error) {
	open := func(ctx context.Context) (*Bucket, error) { return OpenBucket(ctx, js, name) }
	b, err := Ensure(ctx, open, create)
	if err != nil {
		return nil, err
	}
	b.create = Recreating(open, create)
	return b, nil
}

// PublishPrefix begins the subjects on which a client publishes into a stream of another JetStream domain; it is empty
// for the connected server's own.
func PublishPrefix(js jetstream.JetStream) string {
	if prefix := APIPrefix(js); prefix != jetstream.DefaultAPIPrefix {
		return prefix
	}
	return ""
}

// Name is the name of the bucket.
func (b *Bucket) Name() string { return b.name }

// Get reads a key at the leader. The value is nil if the key does not exist; the revision is then that of its delete
// marker, or 0. A message that no client wrote under the key on purpose counts as a delete marker, and is in Refused.
// The request is repeated while no leader answers.
func (b *Bucket) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	value, revision, err = b.get(ctx, key)
	if b.create != nil && (errors.Is(err, nats.ErrNoResponders) || IsNotFound(err)) {
		if err := b.create(ctx); err != nil {
			return nil, 0, err
		}
		value, revision, err = b.get(ctx, key)
	}
	b.mu.Lock()
	before, isUnconfirmed := b.unconfirmed[key]
	isStored := isUnconfirmed && err == nil && revision > before
	if isStored {
		delete(b.unconfirmed, key)
	}
	b.mu.Unlock()
	if isStored {
		b.Announce(key, revision)
	}
	return value, revision, err
}

// announceWrite announces a write of a key that had a revision before it. If the write was not confirmed, Get announces
// it when it finds it stored.
func (b *Bucket) announceWrite(key string, before, next uint64, err error) {
	b.mu.Lock()
	switch {
	case err == nil:
		delete(b.unconfirmed, key)
	case !errors.Is(err, ErrConflict): // a conflict may be with the write itself
		if b.unconfirmed == nil {
			b.unconfirmed = map[string]uint64{}
		}
		b.unconfirmed[key] = before
	}
	b.mu.Unlock()
	if err == nil {
		b.Announce(key, next)
	}
}

func (b *Bucket) get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	stored, err := b.newest(ctx, key)
	switch {
	case stored == nil || err != nil:
		return nil, 0, err
	case IsDeleteMarker(stored.Header) && !IsCopy(stored.Header):
		return nil, stored.Sequence, nil
	case !b.isEntry(stored.Header):
		b.refuse(key)
		return nil, stored.Sequence, nil
	}
	return append([]byte{}, stored.Data...), stored.Sequence, nil
}

// newest reads the last message of a key, nil if there is none.
func (b *Bucket) newest(ctx context.Context, key string) (*jetstream.RawStreamMsg, error) {
	if b.direct {
		stored, err := b.newestDirect(ctx, key)
		if !errors.Is(err, nats.ErrNoResponders) { // the bucket does not allow it
			return stored, err
		}
	}
	stored, err := NewestMessage(ctx, b.js, b.stream(), b.subject(key))
	if err != nil {
		err = fmt.Errorf("reading key %s of bucket %s: %w", key, b.Name(), err)
	}
	return stored, err
}

func (b *Bucket) isEntry(header nats.Header) bool { return b.mirror || isWritten(header) }

func (b *Bucket) stream() string { return "KV_" + b.Name() }

func (b *Bucket) subject(key string) string { return "$KV." + b.Name() + "." + key }

// History returns the values of a key that the bucket still has, the newest first.
func (b *Bucket) History(ctx context.Context, key string) (values [][]byte, err error) {
	for seq := uint64(1); ; {
		stored, err := NextMessage(ctx, b.js, b.stream(), b.subject(key), seq)
		if err != nil {
			return nil, fmt.Errorf("reading the history of key %s of bucket %s: %w", key, b.Name(), err)
		}
		if stored == nil {
			slices.Reverse(values)
			return values, nil
		}
		if !IsDeleteMarker(stored.Header) && b.isEntry(stored.Header) {
			values = append(values, stored.Data)
		}
		seq = stored.Sequence + 1
	}
}

// messageRequest is the JetStream API's request for one message of a stream.
type messageRequest struct {
	Sequence      uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
	NextBySubject string `json:"next_by_subj,omitempty"`
}

// StoredMessage reads the message of a stream with a sequence, nil if there is none. Unlike jetstream.Stream.GetMsg it
// reads at the leader, never at a replica that may not have the message yet.
func StoredMessage(ctx context.Context, js jetstream.JetStream, stream string, seq uint64) (*jetstream.RawStreamMsg,
	error) {
	if seq == 0 {
		return nil, nil
	}
	return storedMessage(ctx, js, stream, messageRequest{Sequence: seq})
}

// NextMessage reads the first message of a stream with a subject at or behind a sequence, like StoredMessage.
func NextMessage(ctx context.Context, js jetstream.JetStream, stream, subject string, seq uint64) (
	*jetstream.RawStreamMsg, error) {
	return storedMessage(ctx, js, stream, messageRequest{Sequence: seq, NextBySubject: subject})
}

// NewestMessage reads the last message of a stream with a subject, like StoredMessage.
func NewestMessage(ctx context.Context, js jetstream.JetStream, stream, subject string) (*jetstream.RawStreamMsg,
	error) {
	return storedMessage(ctx, js, stream, messageRequest{LastBySubject: subject})
}

func storedMessage(ctx context.Context, js jetstream.JetStream, stream string, r messageRequest) (
	*jetstream.RawStreamMsg, error) {
	request, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	msg, err := Hedge(ctx, func(ctx context.Context) (*nats.Msg, error) {
		return js.Conn().RequestWithContext(ctx, APIPrefix(js)+"STREAM.MSG.GET."+stream, request)
	})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return nil, err
	}
	switch e := answer.Error; {
	case e != nil && e.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, nil
	case e != nil:
		return nil, e
	}
	m := answer.Message
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil {
		header = nil // of a publisher that the server did not check
	}
	return &jetstream.RawStreamMsg{Subject: m.Subject, Sequence: m.Sequence, Header: header, Data: m.Data, Time: m.Time},
		nil
}

// newestDirect is newest with a request whose subject has the key.
func (b *Bucket) newestDirect(ctx context.Context, key string) (*jetstream.RawStreamMsg, error) {
	subject := b.subject(key)
	msg, err := Hedge(ctx, func(ctx context.Context) (*nats.Msg, error) {
		return b.js.Conn().RequestWithContext(ctx, APIPrefix(b.js)+"DIRECT.GET."+b.stream()+"."+subject, nil)
	})
	if err != nil {
		return nil, err
	}
	switch status := msg.Header.Get("Status"); {
	case status == "404":
		return nil, nil
	case status != "":
		return nil, fmt.Errorf("reading key %s of bucket %s: %s %s", key, b.Name(), status, msg.Header.Get("Description"))
	}
	sequences := msg.Header[jetstream.SequenceHeader]
	if len(sequences) == 0 {
		return nil, fmt.Errorf("reading key %s of bucket %s: the answer has no sequence", key, b.Name())
	}
	revision, err := strconv.ParseUint(sequences[len(sequences)-1], 10, 64)
	return &jetstream.RawStreamMsg{Header: withoutPlace(msg.Header), Sequence: revision, Data: msg.Data}, err
}

// IsDeleteMarker reports whether a message of a bucket's stream marks the end of its key: it was deleted, or its TTL
// ended.
func IsDeleteMarker(header nats.Header) bool {
	return header.Get("KV-Operation") != "" || header.Get(jetstream.MarkerReasonHeader) != ""
}

// Update stores a value if the key is still at a revision, 0 for none. Otherwise the error is ErrConflict.
func (b *Bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := b.Renew(ctx, key, value, revision)
	b.announceWrite(key, revision, next, err)
	return next, err
}

// Renew is Update without an announcement: no process waits for it.
func (b *Bucket) Renew(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	entry := nats.NewMsg(b.prefix + key)
	entry.Data = value
	entry.Header.Set(writerHeader, writer)
	return PublishExpecting(ctx, b.js, entry, revision)
}

// Delete deletes a key that is still at a revision. Otherwise the error is ErrConflict.
func (b *Bucket) Delete(ctx context.Context, key string, revision uint64) error {
	marker := nats.NewMsg(b.prefix + key)
	marker.Header.Set("KV-Operation", "DEL")
	next, err := PublishExpecting(ctx, b.js, marker, revision)
	b.announceWrite(key, revision, next, err)
	return err
}

// PublishExpecting stores a message if the last message of its subject has a sequence, 0 for none, and returns its own
// sequence. Otherwise the error is ErrConflict.
func PublishExpecting(ctx context.Context, js jetstream.JetStream, msg *nats.Msg, sequence uint64,
	options ...jetstream.PublishOpt) (uint64, error) {
	ack, err := js.PublishMsg(ctx, msg, append(options, jetstream.WithExpectLastSequencePerSubject(sequence))...)
	if err = ConflictError(err); err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// ConflictError is ErrConflict for the server's error that a subject was not at its expected last sequence, and any
// other error as it is.
func ConflictError(err error) error {
	if errors.Is(err, jetstream.ErrKeyExists) || HasErrorCode(err, jetstream.JSErrCodeStreamWrongLastSequence) ||
		HasErrorCode(err, jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return ErrConflict
	}
	return err
}

// Put stores a value whatever the key holds.
func (b *Bucket) Put(ctx context.Context, key string, value []byte) error {
	_, err := b.Modify(ctx, key, func([]byte) ([]byte, error) { return value, nil })
	return err
}

// Modify replaces the value of a key, as the function Modify does. change gets the stored value, nil if there is none,
// and returns the new one, nil to delete the key.
func (b *Bucket) Modify(ctx context.Context, key string, change func(old []byte) ([]byte, error)) ([]byte, error) {
	read := func(ctx context.Context) ([]byte, uint64, error) { return b.Get(ctx, key) }
	write := func(ctx context.Context, value []byte, revision uint64) (next uint64, err error) {
		if value == nil {
			err = b.Delete(ctx, key, revision)
		} else {
			next, err = b.Update(ctx, key, value, revision)
		}
		if err != nil {
			err = fmt.Errorf("changing key %s of bucket %s: %w", key, b.Name(), err)
		}
		return next, err
	}
	stored, _, err := Modify(ctx, read, write, func(old []byte, _ uint64) ([]byte, error) { return change(old) })
	return stored, err
}
