package relay

import (
	"context"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/internal/scope"
)

// TestHeld: bytes and messages between pull and acknowledgement are bounded, and a redelivery of a held message is
// known.
func TestHeld(t *testing.T) {
	var p Activity
	h := newInFlight(&p, func() int64 { return 100 }, (&utilization{}).maxMessages)
	if p.Trainer()() {
		t.Error("nothing is held, and something waits")
	}
	a := &input{Message: scope.Message{Origin: wire.Origin{Seq: 1}}, size: 60}
	if !h.add(a) || h.add(&input{Message: scope.Message{Origin: wire.Origin{Seq: 1}}, size: 60}) {
		t.Fatal("a message is held once")
	}
	if free, _ := h.awaitRoom(context.Background()); free != 40 {
		t.Errorf("%d bytes free, want 40", free)
	}
	h.add(&input{Message: scope.Message{Origin: wire.Origin{Seq: 2}}, size: 60})
	got := make(chan int64, 1)
	go func() {
		free, _ := h.awaitRoom(context.Background())
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

// TestInFlightOfARestoredStream: a message of the same sequence that was stored at another time ends the
// acknowledgements of all messages in flight; a redelivery does not.
func TestInFlightOfARestoredStream(t *testing.T) {
	f := newInFlight(&Activity{}, func() int64 { return 100 }, (&utilization{}).maxMessages)
	message := func(seq uint64, stored time.Time) *input {
		return &input{Message: scope.Message{Origin: wire.Origin{Created: time.Unix(1, 0), Seq: seq}, Time: stored}}
	}
	stored := time.Unix(1_700_000_000, 0)
	a, b := message(1, stored), message(2, stored)
	f.add(a)
	f.add(b)
	if f.add(message(1, stored)) || a.isStale.Load() || b.isStale.Load() {
		t.Fatal("after a redelivery, messages in flight are not acknowledged")
	}
	if f.add(message(2, stored.Add(time.Hour))) || !a.isStale.Load() || !b.isStale.Load() {
		t.Error("after the restore, messages in flight are acknowledged")
	}
}
