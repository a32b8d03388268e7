package registry

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model"
)

// Store has the models of any number of pipelines: [JetStream] or [Directory]. Many processes may use it concurrently.
type Store interface {
	// put writes a model under a name that no other process writes. It returns when the bytes are durable.
	put(ctx context.Context, pipeline, version string, data []byte) error
	// get reads a model of a size limit. The error is ErrMissing if there is none, and ErrDamaged if it cannot be read.
	get(ctx context.Context, pipeline, version string, limit int64) (*model.Model, error)
	// remove deletes a model. A missing model is not an error.
	remove(ctx context.Context, pipeline, version string) error
	// versions returns the stored models, whether the pointer names them or not: their names, sizes, and last writes.
	versions(ctx context.Context, pipeline string) ([]*jetstream.ObjectInfo, error)
	// tidy removes unfinished writes of processes that crashed: those that have not changed for maxIdle.
	tidy(ctx context.Context, pipeline string, maxIdle time.Duration) error

	// load reads the pointer of a pipeline. Without one the value is nil, and the revision that of a delete marker or 0.
	load(ctx context.Context, pipeline string) (value []byte, revision uint64, err error)
	// history returns earlier values of a pointer, newest first: few, or none.
	history(ctx context.Context, pipeline string) ([][]byte, error)
	// compareAndSet writes the pointer if its revision is still the given one, else the error is natsx.ErrConflict.
	compareAndSet(ctx context.Context, pipeline string, value []byte, revision uint64) (uint64, error)
	// watch calls notify with each announced write of a pointer, until stop is called. notify must not block. A write
	// that is not announced changes the state, which the caller requests at least once per poll.
	watch(pipeline string, notify func(natsx.Change)) (poll time.Duration, stop func())
	// state returns the state of what has the pointers, as it was at most a second ago, and when that was.
	state(ctx context.Context, pipeline string) (now natsx.KeySourceState, at time.Time, err error)
	// refused returns the subjects of what load has refused in the last minutes: no client wrote it there on purpose.
	refused(pipeline string) []string
	// maxPointerBytes returns the maximum size of a pointer.
	maxPointerBytes() int

	// pipelines returns the sorted names of the pipelines that have a pointer.
	pipelines(ctx context.Context) ([]string, error)
	// String is the location of the store, for messages.
	String() string
}
