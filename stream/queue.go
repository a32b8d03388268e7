package stream

import (
	"context"
	"sync"
)

// queue holds messages up to a number of bytes. A push beyond that drops the oldest: what it feeds would rather have
// the newest.
type queue struct {
	most int64

	mu     sync.Mutex
	msgs   []*input
	bytes  int64
	filled chan struct{}
}

func newQueue(most int64) *queue { return &queue{most: most, filled: make(chan struct{}, 1)} }

// push never blocks. It returns how many messages had to be dropped.
func (q *queue) push(in *input) (dropped int) {
	q.mu.Lock()
	q.msgs = append(q.msgs, in)
	q.bytes += in.size
	for q.bytes > q.most && len(q.msgs) > 1 {
		q.bytes -= q.msgs[0].size
		q.msgs[0] = nil
		q.msgs = q.msgs[1:]
		dropped++
	}
	q.mu.Unlock()
	select {
	case q.filled <- struct{}{}:
	default:
	}
	return dropped
}

// pop waits for a message; false where ctx is done.
func (q *queue) pop(ctx context.Context) (*input, bool) {
	for {
		if in := q.tryPop(); in != nil {
			return in, true
		}
		select {
		case <-q.filled:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// unpop puts back what was popped last.
func (q *queue) unpop(in *input) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.msgs = append([]*input{in}, q.msgs...)
	q.bytes += in.size
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.msgs)
}

func (q *queue) tryPop() *input {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.msgs) == 0 {
		return nil
	}
	in := q.msgs[0]
	q.msgs[0] = nil
	q.msgs = q.msgs[1:]
	q.bytes -= in.size
	return in
}
