package relay

import (
	"testing"
	"time"
)

// TestActivityAfterAClockWasSetBack: training does not yield to inputs that were expected by a clock that was set back
// since. The first share of the idle cores is 0, so it yields whenever inputs are expected.
func TestActivityAfterAClockWasSetBack(t *testing.T) {
	var a Activity
	if a.IsBusy() {
		t.Error("busy without an input")
	}
	if a.received(time.Now(), 1); !a.IsBusy() {
		t.Error("not busy right after an input with others behind it")
	}
	if a.received(time.Now().Add(time.Hour), 1); a.IsBusy() {
		t.Error("busy after the clock was set back by an hour")
	}
}
