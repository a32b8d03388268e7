// Package bytequeue has a queue that is limited in bytes.
package bytequeue

import (
	"context"
	"sync"
	"time"
)

// Queue holds items up to a number of bytes. A push beyond that drops the oldest items: its readers prefer the newest.
// Pop, Wait and WaitBelow are for one goroutine at a time.
type Queue[T any] struct {
	limit  int64
	sizeOf func(T) int64
	filled chan struct{} // signalled by a push

	mu    sync.Mutex
	items []T
	size  int64
}

// New returns an empty queue of at most limit bytes, of which an item takes sizeOf.
func New[T any](limit int64, sizeOf func(T) int64) *Queue[T] {
	return &Queue[T]{limit: limit, sizeOf: sizeOf, filled: make(chan struct{}, 1)}
}

// Limit is the limit in bytes.
func (q *Queue[T]) Limit() int64 { return q.limit }

// Push adds an item without blocking, and returns the items that were dropped for it. One that is larger than the limit
// stays until the next.
func (q *Queue[T]) Push(item T) (dropped []T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.size += q.sizeOf(item)
	for q.size > q.limit && len(q.items) > 1 {
		dropped = append(dropped, q.shift())
	}
	q.mu.Unlock()
	q.Wake()
	return dropped
}

// Wake ends a Wait as if an item had been pushed.
func (q *Queue[T]) Wake() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// shift removes the oldest item. The caller holds the lock.
func (q *Queue[T]) shift() T {
	var zero T
	item := q.items[0]
	q.items[0] = zero
	q.items = q.items[1:]
	q.size -= q.sizeOf(item)
	return item
}

// Pop waits for the oldest item and removes it; false if ctx ends first.
func (q *Queue[T]) Pop(ctx context.Context) (item T, ok bool) {
	for {
		if item, ok = q.TryPop(); ok {
			return item, true
		}
		select {
		case <-q.filled:
		case <-ctx.Done():
			return item, false
		}
	}
}

// TryPop removes the oldest item; false if there is none.
func (q *Queue[T]) TryPop() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return item, false
	}
	return q.shift(), true
}

// Unpop puts back the item that was popped last.
func (q *Queue[T]) Unpop(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append([]T{item}, q.items...)
	q.size += q.sizeOf(item)
}

// Oldest is the item that Pop returns next, and the number of items.
func (q *Queue[T]) Oldest() (item T, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) > 0 {
		item = q.items[0]
	}
	return item, len(q.items)
}

// Len is the number of items.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Bytes is the size of all items.
func (q *Queue[T]) Bytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size
}

// Wait waits until an item was pushed since the last Wait or Pop; false after d, or if ctx ends first.
func (q *Queue[T]) Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
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

// WaitBelow waits until the queue is empty or has fewer bytes; false if ctx ends first.
func (q *Queue[T]) WaitBelow(ctx context.Context, bytes int64) bool {
	for {
		if size := q.Bytes(); size < bytes || size == 0 {
			return true
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
}
