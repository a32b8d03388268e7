package relay

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/cores"
)

// Activity reports whether the hot paths of an engine have messages to process and need the processor for that.
// Training, of any pipeline of the engine, yields while they do, and shares the cores that are idle. Safe for
// concurrent use.
type Activity struct {
	cores      cores.Meter
	processing atomic.Int64 // inputs that are being transformed or published
	until      atomic.Int64 // more inputs are expected until then, in Unix nanoseconds

	mu     sync.Mutex
	slice  int64 // number of the current time slice
	ranked []int // trainers that want to work in this time slice; the first ones may
	asked  []int // those of them that have asked in this time slice, sorted
	last   int   // number of the newest trainer
}

const (
	// arrivalGap is how long after an input the next one is expected.
	arrivalGap = 5 * time.Millisecond
	// backlogGap replaces arrivalGap while the stream has messages that are not delivered yet.
	backlogGap = time.Second
	// timeSlice is the period in which idle cores are assigned to trainers while inputs are processed.
	timeSlice = 20 * time.Millisecond
)

// received records an input. pending is the number of messages that the consumer has not delivered yet.
func (a *Activity) received(at time.Time, pending uint64) {
	gap := arrivalGap
	if pending > 0 {
		gap = backlogGap
	}
	a.until.Store(at.Add(gap).UnixNano())
}

// Trainer returns a function that reports whether the training of one more pipeline must yield: inputs are being
// processed or are expected now, and this pipeline has no idle core, or no more of its part of one in this time slice.
func (a *Activity) Trainer() (mustYield func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	trainer := a.last
	return func() bool {
		now := time.Now().UnixNano()
		if !a.isActive(now) {
			return false
		}
		a.mu.Lock()
		rank := a.rank(trainer, now/int64(timeSlice))
		trainers := len(a.ranked)
		a.mu.Unlock()
		return !mayWork(rank, now, a.cores.Share(trainers))
	}
}

// isActive reports whether inputs are being processed or are expected now.
func (a *Activity) isActive(now int64) bool {
	gap := time.Duration(a.until.Load() - now) // longer than any if the clock was set back
	return a.processing.Load() > 0 || 0 < gap && gap <= backlogGap
}

// rank returns the position of a trainer in the order of a time slice, from 0. The order has the trainers that asked in
// the previous time slice, starting with a different one each time, and then those that ask for the first time.
func (a *Activity) rank(trainer int, slice int64) int {
	if slice != a.slice {
		if slice != a.slice+1 {
			a.asked = a.asked[:0]
		}
		first := 0
		if len(a.asked) > 0 {
			first = int(slice % int64(len(a.asked)))
		}
		a.ranked = append(append(a.ranked[:0], a.asked[first:]...), a.asked[:first]...)
		a.slice, a.asked = slice, a.asked[:0]
	}
	if at, found := slices.BinarySearch(a.asked, trainer); !found {
		a.asked = slices.Insert(a.asked, at, trainer)
	}
	rank := slices.Index(a.ranked, trainer)
	if rank < 0 {
		rank, a.ranked = len(a.ranked), append(a.ranked, trainer)
	}
	return rank
}

// mayWork reports whether the trainer of a rank may work now if all trainers together may use this many cores. With 1.4
// cores, rank 0 may work for the whole time slice, rank 1 for 0.4 of it, and others not at all.
func mayWork(rank int, now int64, cores float64) bool {
	return float64(now%int64(timeSlice)) < (cores-float64(rank))*float64(timeSlice)
}

// Processing is the number of inputs that are being processed. An input that waits for a model does not count.
func (a *Activity) Processing() int64 { return a.processing.Load() }
