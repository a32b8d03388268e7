package training

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/stream/internal/scope"
)

// TestNoRowAfter: labels wait for stored rows, also for those of a partition, which are stored under a longer subject.
func TestNoRowAfter(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := s.open()
	p.Subject, p.Partitions = "in.*", 2
	for last, subject := range []string{"", "in.k", "in.k.2.1"} {
		if subject != "" {
			s.Publish(nats.NewMsg(subject))
		}
		for seq := range uint64(3) {
			if got, want := p.labels.noRowAfter(t.Context(), seq), seq >= uint64(last); got != want {
				t.Errorf("after %d of %d rows, the last on %q, there is none: %t", seq, last, subject, got)
			}
		}
	}
}

// TestOwedLetters: what waits for its dead letter is bounded.
func TestOwedLetters(t *testing.T) {
	var p pendingLetters
	large := &scope.Message{Data: make([]byte, 3<<20)}
	for _, want := range []bool{true, true, false} {
		if p.add(pendingLetter{message: large}) != want {
			t.Error("bytes are not bounded")
		}
	}
	headers := nats.Header{"A": {string(make([]byte, 3<<20))}}
	if p.add(pendingLetter{message: &scope.Message{Header: headers}}) {
		t.Error("the bytes of headers are not bounded")
	}
	for range maxPending - 2 {
		if !p.add(pendingLetter{message: &scope.Message{}}) {
			t.Fatal("there is no room for small ones")
		}
	}
	if p.add(pendingLetter{message: &scope.Message{}}) {
		t.Error("their number is not bounded")
	}
}
