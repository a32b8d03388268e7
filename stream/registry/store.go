package registry

import (
	"context"
	"io"
	"time"
)

// Store has the models of any number of pipelines: [JetStream] or [Directory]. It is safe for concurrent use, by many
// processes too.
type Store interface {
	// put writes a model under a name that no other process writes. It returns when the bytes are durable.
	put(ctx context.Context, pipeline, version string, data []byte) error
	// get opens a model; the error is errAbsent if there is none.
	get(ctx context.Context, pipeline, version string) (io.ReadCloser, error)
	// remove deletes a model. A missing model is not an error.
	remove(ctx context.Context, pipeline, version string) error
	// versions returns the stored models, whether the pointer names them or not.
	versions(ctx context.Context, pipeline string) ([]stored, error)
	// tidy removes unfinished writes of processes that crashed, if they have not changed for a time.
	tidy(ctx context.Context, pipeline string, older time.Duration) error

	// created returns when the store began to count revisions of pointers; zero if the count never restarts.
	created(ctx context.Context) (time.Time, error)
	// load reads the pointer of a pipeline. Its revision is 0 if there is none.
	load(ctx context.Context, pipeline string) (value []byte, revision uint64, err error)
	// history returns earlier values of a pointer, newest first: few, or none.
	history(ctx context.Context, pipeline string) ([][]byte, error)
	// compareAndSet writes the pointer if its revision is still the given one. Otherwise the error is errMoved.
	compareAndSet(ctx context.Context, pipeline string, value []byte, revision uint64) (uint64, error)
	// watch starts to watch a pointer. wait returns when the revision may have changed, or after some time without a
	// change; leave stops the watch.
	watch(pipeline string) (wait func(ctx context.Context, revision uint64) error, leave func())
	// lastSequence returns a number that changes with each write of a pointer, and when it was read, at most a second
	// ago.
	lastSequence(ctx context.Context, pipeline string) (number uint64, at time.Time, err error)
	// maxPointerBytes returns the maximum size of a pointer.
	maxPointerBytes() int

	// pipelines returns the sorted names of the pipelines that have a pointer.
	pipelines(ctx context.Context) ([]string, error)
	// String is the location of the store, for messages.
	String() string
}

// stored is a model in a store.
type stored struct {
	name string
	time time.Time
	size int64
}
