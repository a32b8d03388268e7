package stream

import (
	"strings"
	"testing"
	"time"
)

// TestNothingIsNegative: what would panic or wait for ever later is an error at once.
func TestNothingIsNegative(t *testing.T) {
	nc := newSite(t).js.Conn()
	for name, change := range map[string]func(*Pipeline){
		"ack wait":           func(p *Pipeline) { p.AckWait = -time.Second },
		"ack wait of nearly": func(p *Pipeline) { p.AckWait = 2 },
		"in flight":          func(p *Pipeline) { p.InFlight = -1 },
		"max age":            func(p *Pipeline) { p.MaxAge = -1 },
	} {
		p := piped("a", "in", "in.a", "out.a")
		change(&p)
		if _, err := New(Options{Conn: nc, Pipelines: []Pipeline{p}}); err == nil ||
			!strings.Contains(err.Error(), "none can be negative") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
