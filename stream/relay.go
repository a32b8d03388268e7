package stream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/bytequeue"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/training"
	"github.com/embedd/embedd/stream/lease"
)

// relay is the hot path of a pipeline: it pulls messages, transforms them with the live model, publishes the outputs
// and dead letters, waits until the server confirms them, and acknowledges.
type relay struct {
	*scope.Scope
	replica    *replica.Replica
	training   *training.Path
	letterLog  *health.LetterLog
	inspectNow func() // has the streams inspected at once

	whole        *lane // the pipeline's consumer; with partitions, that of what the stream stored before it had any
	tail         *tail // nil on core NATS
	labelLetters *tail // of the dead letters of labels; nil when there are none
	limits       limits
	parked       parked
	halt         health.Halt
	gate         gate
	names        struct { // metadata of the model that transformed last
		live  *plugin.Live
		pairs []wire.Pair
	}

	// With partitions:
	seats   *lease.Bucket     // leases of the partitions; nil without
	earlier []needs.Partition // of other numbers, that the stream had before
	held    atomic.Int64      // partitions that this process holds
	asking  [2]chan struct{}  // held by the partition that asks whether they may begin, and by one of an earlier number
	over    sync.Map          // earlier partitions of which all messages are answered

	waiting  atomic.Pointer[bytequeue.Queue[*input]] // inputs that are not answered, on core NATS
	drain    time.Duration                           // how long inputs may take to be answered after a stop
	severed  context.Context                         // done when the host closes the connection
	draining atomic.Bool
	pressure *pressure    // of the engine
	busy     atomic.Int64 // when an input was last answered, in nanoseconds
	spare    spare
	told     struct{ lost, consumer, before ratelog.Limiter }
}

// limits are the largest messages that the streams store, in bytes; 0: the stream has no limit of its own.
type limits struct{ out, dead atomic.Int64 }

// newRelay returns the hot path of a pipeline that is not bound to its streams yet.
func newRelay(s *scope.Scope, pressure *pressure, drain time.Duration) *relay {
	return &relay{Scope: s, inspectNow: func() {}, whole: &lane{filter: s.Subject}, pressure: pressure, drain: drain,
		severed: context.Background(), halt: health.Halt{Bad: s.Stop.Bad, Of: s.Stop.Of},
		asking: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}}
}
