package training

import (
	"testing"

	"github.com/embedd/embedd/stream/internal/scope"
)

// TestOwedLetters: what waits for its dead letter is bounded.
func TestOwedLetters(t *testing.T) {
	var p pendingLetters
	large := &scope.Message{Data: make([]byte, 3<<20)}
	for _, want := range []bool{true, true, false} {
		if p.add(pendingLetter{message: large}) != want {
			t.Error("bytes are not bounded")
		}
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
