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
	// remove ends a model; none of that name is no error.
	remove(ctx context.Context, pipeline, version string) error
	// versions are the names of the models that lie there, whatever the pointer says.
	versions(ctx context.Context, pipeline string) ([]stored, error)
	// tidy removes unfinished writes of processes that crashed, if they have not changed for a time.
	tidy(ctx context.Context, pipeline string, older time.Duration) error

	// created is when revisions of pointers began to count; zero if they never begin again.
	created(ctx context.Context) (time.Time, error)
	// load reads the pointer of a pipeline; revision 0 if there is none.
	load(ctx context.Context, pipeline string) (value []byte, revision uint64, err error)
	// earlier are pointers that load read before, newest first: few, and perhaps none.
	history(ctx context.Context, pipeline string) ([][]byte, error)
	// swap writes the pointer if its revision is still the one given, else it is errMoved.
	compareAndSet(ctx context.Context, pipeline string, value []byte, revision uint64) (uint64, error)
	// watch begins to look for changes of a pointer. wait returns when the revision may be another, or after a while
	// without a change; leave ends it.
	watch(pipeline string) (wait func(ctx context.Context, revision uint64) error, leave func())
	// last is a number that is another after each write of the pointer, and when it was asked for, a second ago at most.
	lastSequence(ctx context.Context, pipeline string) (number uint64, at time.Time, err error)
	// most is how many bytes a pointer may take.
	maxPointerBytes() int

	// pipelines are the names of those that have a pointer, sorted.
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
