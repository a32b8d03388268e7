package stream

import (
	"context"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestQueueDropsOldest: memory is bounded in bytes, and what is dropped is counted (Invariants 5 and 10).
func TestQueueDropsOldest(t *testing.T) {
	q := newQueue[*input](100)
	dropped := 0
	for i := range 10 {
		dropped += len(q.push(&input{origin: wire.Origin{Seq: uint64(i)}, size: 30}))
	}
	if dropped != 7 {
		t.Errorf("%d dropped, want 7: three of 30 bytes fit into 100", dropped)
	}
	for want := uint64(7); want < 10; want++ {
		in, ok := q.pop(context.Background())
		if !ok || in.origin.Seq != want {
			t.Fatalf("popped %v, want %d", in, want)
		}
	}
	// One message over the bound is kept: it is all there is.
	if gone := q.push(&input{size: 1000}); len(gone) != 0 {
		t.Errorf("the only message was dropped")
	}
	q.tryPop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, ok := q.pop(ctx); ok {
		t.Error("an empty queue gave a message")
	}
}

// TestHeld: bytes and messages between pull and acknowledgement are bounded, and a redelivery of a held message is
// known.
func TestHeld(t *testing.T) {
	var p pressure
	h := newHeld(&p, (&spare{}).share)
	if p.busy() {
		t.Error("nothing is held, and something waits")
	}
	a := &input{origin: wire.Origin{Seq: 1}, size: 60}
	if !h.add(a) || h.add(&input{origin: wire.Origin{Seq: 1}, size: 60}) {
		t.Fatal("a message is held once")
	}
	if free, _ := h.awaitFree(context.Background(), 100); free != 40 {
		t.Errorf("%d bytes free, want 40", free)
	}
	h.add(&input{origin: wire.Origin{Seq: 2}, size: 60})
	got := make(chan int64, 1)
	go func() {
		free, _ := h.awaitFree(context.Background(), 100)
		got <- free
	}()
	select {
	case n := <-got:
		t.Fatalf("%d bytes free in a full set", n)
	case <-time.After(20 * time.Millisecond):
	}
	h.remove(a)
	if n := <-got; n != 40 {
		t.Errorf("%d bytes free after one left, want 40", n)
	}
}
