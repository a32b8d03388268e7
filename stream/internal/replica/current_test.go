package replica

import (
	"testing"
	"time"

	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// TestConfirmInterval checks that a hub is asked four times before its silence is reported, however long a replica may
// continue without it.
func TestConfirmInterval(t *testing.T) {
	for _, c := range []struct {
		hub         string
		adopt, want time.Duration
	}{
		{"", time.Hour, time.Hour}, {"", -1, 0}, {"hub", time.Hour, hubSilence}, {"hub", 3 * time.Second, 3 * time.Second},
		{"hub", -1, 0}, // the default
	} {
		p := spec.Pipeline{Stream: "in", ModelSyncTimeout: c.adopt, Models: spec.Models{Hub: c.hub}}
		if got := New(&scope.Scope{Pipeline: p}, Hooks{}).confirmInterval(); got != c.want {
			t.Errorf("hub %q, model_sync_timeout %v: the interval is %v, want %v", c.hub, c.adopt, got, c.want)
		}
	}
	if hubSilence < registry.DefaultMaxStaleness {
		t.Errorf("a hub is reported as unreachable after %v, and is asked four times in "+
			"%v", hubSilence, registry.DefaultMaxStaleness)
	}
}
