package training

import (
	"testing"

	"github.com/embedd/embedd/stream/internal/scope"
)

// TestOwedLetters: what waits for its dead letter is bounded.
func TestOwedLetters(t *testing.T) {
	var o owedLetters
	large := &scope.Message{Data: make([]byte, 3<<20)}
	for _, want := range []bool{true, true, false} {
		if o.add(owedLetter{message: large}) != want {
			t.Error("bytes are not bounded")
		}
	}
	for range maxOwed - 2 {
		if !o.add(owedLetter{message: &scope.Message{}}) {
			t.Fatal("there is no room for small ones")
		}
	}
	if o.add(owedLetter{message: &scope.Message{}}) {
		t.Error("their number is not bounded")
	}
}
