package health

import (
	"strings"
	"testing"
)

// TestHaltCounts checks that only the newest messages count.
func TestHaltCounts(t *testing.T) {
	h := Halt{Bad: 3, Of: 5}
	for i, c := range strings.Split("b b g g g b b g b", " ") { // b b g g g: two; the last five are g b b g b
		if halted := h.Record(c == "b", "no Arrow"); halted != (i == 8) {
			t.Errorf("message %d: halted %t", i, halted)
		}
	}
	if h.Reason() != "3 of the newest 5 messages were bad, the last: no Arrow" {
		t.Error(h.Reason())
	}
	if h.Record(true, "") || !h.Resume() || h.Resume() || h.Reason() != "" {
		t.Error("it halted twice, or did not resume exactly once")
	}
	for i := range 3 {
		if h.Record(true, "") != (i == 2) {
			t.Error("messages before Resume still count")
		}
	}
}
