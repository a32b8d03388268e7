package stream

import (
	"context"
	"sync"
	"time"
)

// sized is what a queue holds.
type sized interface{ bytes() int64 }

// queue holds messages up to a number of bytes. A push beyond that drops the oldest: what it feeds would rather have
// the newest.
type queue[T sized] struct {
	most int64

	mu     sync.Mutex
	msgs   []T
	size   int64
	filled chan struct{}
}

func newQueue[T sized](most int64) *queue[T] {
	return &queue[T]{most: most, filled: make(chan struct{}, 1)}
}

// push never blocks. It returns what had to be dropped.
func (q *queue[T]) push(v T) (dropped []T) {
	q.mu.Lock()
	q.msgs = append(q.msgs, v)
	q.size += v.bytes()
	for q.size > q.most && len(q.msgs) > 1 {
		dropped = append(dropped, q.shift())
	}
	q.mu.Unlock()
	wake(q.filled)
	return dropped
}

// shift takes the oldest out. The caller holds the lock.
func (q *queue[T]) shift() T {
	var none T
	v := q.msgs[0]
	q.msgs[0] = none
	q.msgs = q.msgs[1:]
	q.size -= v.bytes()
	return v
}

// pop waits for a message; false where ctx is done.
func (q *queue[T]) pop(ctx context.Context) (v T, ok bool) {
	for {
		if v, ok = q.tryPop(); ok {
			return v, true
		}
		select {
		case <-q.filled:
		case <-ctx.Done():
			return v, false
		}
	}
}

// unpop puts back what was popped last.
func (q *queue[T]) unpop(v T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.msgs = append([]T{v}, q.msgs...)
	q.size += v.bytes()
}

func (q *queue[T]) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.msgs)
}

// first is the oldest, and how many there are.
func (q *queue[T]) first() (v T, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.msgs) > 0 {
		v = q.msgs[0]
	}
	return v, len(q.msgs)
}

func (q *queue[T]) tryPop() (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.msgs) == 0 {
		return v, false
	}
	return q.shift(), true
}

// await waits until something was pushed since it was asked last, and tells whether that was before so long.
func (q *queue[T]) await(ctx context.Context, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-q.filled:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

// awaitBelow waits until what is held is less than so many bytes; false where ctx is done first.
func (q *queue[T]) awaitBelow(ctx context.Context, most int64) bool {
	for {
		q.mu.Lock()
		size := q.size
		q.mu.Unlock()
		if size < most || size == 0 {
			return true
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
}

func (q *queue[T]) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.msgs) == 0
}
