package statestore

import (
	"context"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"

	"github.com/embedd/embedd/internal/durable"
	"github.com/embedd/embedd/internal/natsx"
)

// Entry is one stored value: a key of the bucket or, without JetStream, a file in the model directory.
type Entry interface {
	// Read returns the value and its revision; nil where there is none.
	Read(ctx context.Context) (value []byte, revision uint64, err error)
	// Write replaces the value with a revision, and returns the next one. It fails with natsx.ErrConflict when the
	// revision is not the newest.
	Write(ctx context.Context, value []byte, revision uint64) (next uint64, err error)
}

// Key returns the entry of a key of the bucket.
func Key(bucket *natsx.Bucket, key string) Entry { return keyEntry{bucket, key} }

type keyEntry struct {
	bucket *natsx.Bucket
	key    string
}

func (e keyEntry) Read(ctx context.Context) ([]byte, uint64, error) {
	return e.bucket.Get(ctx, e.key) // without a value the revision is that of a delete marker, or 0
}

func (e keyEntry) Write(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	return e.bucket.Update(ctx, e.key, value, revision)
}

// File returns the entry of a file, for core NATS. The replicas are processes of one machine, and of two writes that
// happen at once only the last one stays.
func File(path string) Entry { return fileEntry(path) }

type fileEntry string

func (e fileEntry) Read(context.Context) ([]byte, uint64, error) {
	value, err := os.ReadFile(string(e))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	return value, revisionOf(value), nil
}

// revisionOf is a hash: equal content is the same revision.
func revisionOf(value []byte) uint64 {
	h := fnv.New64a()
	h.Write(value)
	return max(h.Sum64(), 1)
}

func (e fileEntry) Write(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	if _, at, err := e.Read(ctx); err == nil && at != revision {
		return 0, natsx.ErrConflict
	}
	return revisionOf(value), durable.WriteFile(string(e), value)
}
