package bytequeue

import (
	"context"
	"testing"
	"time"
)

type item struct{ number, size int64 }

// TestDropsOldest: memory is limited in bytes, and a push returns what it drops (Invariants 5 and 10).
func TestDropsOldest(t *testing.T) {
	q := New(100, func(i item) int64 { return i.size })
	dropped := 0
	for i := range int64(10) {
		dropped += len(q.Push(item{i, 30}))
	}
	if dropped != 7 || q.Len() != 3 || q.Bytes() != 90 {
		t.Errorf("%d dropped, want 7: three of 30 bytes fit into 100", dropped)
	}
	for want := int64(7); want < 10; want++ {
		got, ok := q.Pop(context.Background())
		if !ok || got.number != want {
			t.Fatalf("popped %v, want %d", got, want)
		}
	}
	// One item over the limit is kept: it is all there is.
	if dropped := q.Push(item{size: 1000}); len(dropped) != 0 {
		t.Errorf("the only item was dropped")
	}
	last, _ := q.TryPop()
	q.Unpop(last)
	if oldest, n := q.Oldest(); oldest != last || n != 1 {
		t.Errorf("the oldest of %d is %v", n, oldest)
	}
	q.TryPop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, ok := q.Pop(ctx); ok {
		t.Error("an empty queue gave an item")
	}
}
