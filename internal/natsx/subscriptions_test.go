package natsx

import (
	"runtime"
	"testing"

	"github.com/embedd/embedd/internal/natstest"
)

// TestCountSubscriptionsMemory: counting takes little memory, however many subscriptions a daemon with many pipelines
// wants.
func TestCountSubscriptionsMemory(t *testing.T) {
	const wanted, most = 1000, 16 << 20
	nc := natstest.New(t).Connect()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := CountSubscriptions(t.Context(), nc, wanted)
	runtime.ReadMemStats(&after)
	if n != wanted || err != nil {
		t.Fatalf("%d of %d subscriptions, %v", n, wanted, err)
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > most {
		t.Errorf("%d subscriptions took %d bytes, want %d at most", wanted, bytes, most)
	}
}
