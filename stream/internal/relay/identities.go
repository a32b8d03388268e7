package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// identities makes the identities of a pipeline's answers with the key of the pipeline, which is in the state bucket.
// Safe for concurrent use once load has returned.
type identities struct {
	*scope.Scope
	current atomic.Pointer[identityKey]
	logged  ratelog.Limiter
}

// identityKey is a key as it is in use.
type identityKey struct {
	*wire.Key
	note identityNote
}

// identityNote is the stored value of a key.
type identityNote struct {
	Secret  []byte                `json:"key"`
	Streams map[string]streamMark `json:"streams"` // those with inputs and labels, when the key was made
}

// streamMark is the end of a stream.
type streamMark struct {
	Created int64  `json:"created"` // of the stream, in nanoseconds
	UpTo    uint64 `json:"up_to"`
}

// secretBytes is the size of a secret.
const secretBytes = 32

// parseNote reads a stored value. It returns false if the value is missing or is no key.
func parseNote(value []byte) (n identityNote, ok bool) {
	err := json.Unmarshal(value, &n)
	return n, err == nil && len(n.Secret) == secretBytes
}

func (i *identities) use(n identityNote) { i.current.Store(&identityKey{wire.NewKey(n.Secret), n}) }

// load reads the stored key, or makes one. Before it makes one it calls await, which waits until no replica of an older
// version receives inputs.
func (i *identities) load(ctx context.Context, await func(context.Context)) error {
	name := statestore.IdentityKey(i.Name)
	value, _, err := i.State.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("reading the key of the identities: %w", err)
	}
	note, isStored := parseNote(value)
	for !isStored {
		if len(value) > 0 {
			i.Log.Warn("the stored key of the identities is damaged and is replaced", "bucket", statestore.Bucket, "key", name)
		}
		await(ctx)
		made := identityNote{Secret: make([]byte, secretBytes)}
		_, _ = rand.Read(made.Secret) // it never fails
		if made.Streams, err = i.marks(ctx); err != nil {
			return err
		}
		text, err := json.Marshal(made)
		if err != nil {
			return err
		}
		value, err = i.State.Modify(ctx, name, func(old []byte) ([]byte, error) {
			if _, isStored := parseNote(old); isStored {
				return old, nil // another replica was faster
			}
			return text, nil
		})
		if err != nil {
			return fmt.Errorf("storing the key of the identities: %w", err)
		}
		note, isStored = parseNote(value)
	}
	i.use(note)
	return nil
}

// marks returns the ends of the streams with inputs and labels.
func (i *identities) marks(ctx context.Context) (map[string]streamMark, error) {
	marks := map[string]streamMark{}
	names := []string{i.Stream}
	if i.Labels != "" {
		labels, err := i.JS.StreamNameBySubject(ctx, i.Labels)
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, natsx.ExplainAPIError(err)
		}
		names = append(names, labels)
	}
	for _, name := range names {
		if name == "" || marks[name] != (streamMark{}) {
			continue
		}
		s, err := natsx.Stream(ctx, i.JS, name)
		if err != nil {
			return nil, natsx.ExplainAPIError(err)
		}
		info := s.CachedInfo()
		marks[name] = streamMark{info.Created.UnixNano(), info.State.LastSeq}
	}
	return marks, nil
}

// followedKey returns the key of the state bucket, which refresh reads again when another replica changes it.
func (i *identities) followedKey() natsx.FollowedKey {
	return natsx.FollowedKey{Key: statestore.IdentityKey(i.Name), Read: func(ctx context.Context) (uint64, error) {
		revision, err := i.refresh(ctx)
		// After a conflict another replica was faster, and a canceled context stops the pipeline.
		if err != nil && !errors.Is(err, natsx.ErrConflict) && !errors.Is(err, context.Canceled) {
			i.logged.Warn(i.Log, "the stored key of the identities cannot be read or kept; trying again", "error", err)
		}
		return revision, err
	}}
}

// refresh compares the stored key with the one in use. It stores the key again if it is missing, and uses the stored
// one if that is another. It returns the stored revision.
func (i *identities) refresh(ctx context.Context) (uint64, error) {
	name, used := statestore.IdentityKey(i.Name), i.current.Load().note
	value, revision, err := i.State.Get(ctx, name)
	if err != nil {
		return 0, err
	}
	note, isStored := parseNote(value)
	switch {
	case !isStored:
		note = used
		i.Log.Warn("the key of the identities was deleted or is damaged; it is stored again", "bucket", statestore.Bucket,
			"key", name)
	case !bytes.Equal(note.Secret, used.Secret):
		// Inputs that were answered before the change may have an answer under the key before.
		i.use(note)
		if note.Streams, err = i.marks(ctx); err != nil {
			i.use(used)
			return 0, err
		}
		i.use(note)
		i.Log.Warn("the stored key of the identities is another one, and is used from now on", "bucket", statestore.Bucket,
			"key", name)
	default:
		i.use(note) // another replica may have moved the marks
		return revision, nil
	}
	text, err := json.Marshal(note)
	if err != nil {
		return 0, err
	}
	return i.State.Update(ctx, name, text, revision)
}

// of returns the identity of a part of an answer. It is "" on core NATS and at a hub that learns from its edges, which
// have no key.
func (i *identities) of(o wire.Origin, kind wire.Answer, index int) string {
	key := i.current.Load()
	if o.Stream == "" || key == nil {
		return ""
	}
	return key.ID(o, i.Name, kind, index)
}

// second returns the identity of a part whose first one another message has.
func (i *identities) second(o *part) string {
	return i.current.Load().SecondID(o.in.Origin, i.Name, o.kind, o.index)
}

// isOurs reports whether an identity is the one of an output of an input, or of its dead letter as a whole. For an
// input that is older than the key it may be any.
func (i *identities) isOurs(o wire.Origin, id string) bool {
	key := i.current.Load()
	is := func(kind wire.Answer) bool {
		return id == key.ID(o, i.Name, kind, 0) || id == key.SecondID(o, i.Name, kind, 0)
	}
	return key.isNewerThan(o) || is(wire.AnswerOut) || is(wire.AnswerDead)
}

// isNewerThan reports whether the key was made after an input, which may therefore have an answer under any identity.
func (k *identityKey) isNewerThan(o wire.Origin) bool {
	mark, ok := k.note.Streams[o.Stream]
	return ok && mark.Created == o.Created.UnixNano() && o.Seq <= mark.UpTo
}

// lookupNames returns the names under which a stored answer is looked up, and the sequence of its input: its identity,
// or for an input that is older than the key the names of nameBeforeKey. The sequence of o, the origin of inputs, is
// ignored. A message that was stored before the input stream was created is no answer: a stream that was created again
// reuses sequences.
func (k *identityKey) lookupNames(s storedAnswer, o wire.Origin) (names []string, seq uint64) {
	var isOurs bool
	if o.Seq, isOurs = sourceSeq(s.source, o.Stream); !isOurs {
		return nil, 0
	}
	if !k.isNewerThan(o) {
		return []string{s.id}, o.Seq
	}
	if s.at.Before(o.Created) {
		return nil, 0
	}
	kind := wire.AnswerOut
	switch s.kind {
	case wire.KindMessage:
		kind = wire.AnswerDead
	case wire.KindRows:
		kind = wire.AnswerRows
	}
	index, _, _ := wire.ParsePart(s.part)
	names = []string{nameBeforeKey(o.Seq, kind, index)}
	if kind != wire.AnswerRows {
		names = append(names, nameBeforeKey(o.Seq, "", 0))
	}
	return names, o.Seq
}

// nameBeforeKey is the name of an answer to an input that is older than the key; without a kind, of any answer to all
// of the input.
func nameBeforeKey(seq uint64, kind wire.Answer, index int) string {
	base, _, _ := strings.Cut(string(kind), "/") // without the size of parts
	return fmt.Sprintf("%d %s %d", seq, base, index)
}
