package spec

import (
	"strings"
	"testing"
	"time"
)

func valid() Pipeline {
	return Pipeline{Name: "p", Stream: "in", Subject: "in.a", Output: "out.a", Dead: "dead.a"}
}

// TestBoundsAreChecked: a value that would panic or block later is an error at once.
func TestBoundsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Pipeline)
		want   string
	}{
		"reserved input":         {func(p *Pipeline) { p.Subject = "embedd.x" }, "begin with embedd."},
		"reserved labels":        {func(p *Pipeline) { p.Labels = "embedd.x" }, "begin with embedd."},
		"reserved output":        {func(p *Pipeline) { p.Output = "embedd.p.status" }, "begin with embedd."},
		"reserved dead letters":  {func(p *Pipeline) { p.Dead = "embedd.x" }, "begin with embedd."},
		"negative ack wait":      {func(p *Pipeline) { p.AckWait = -time.Second }, "shorter than"},
		"ack wait of 2 ns":       {func(p *Pipeline) { p.AckWait = 2 }, "shorter than"},
		"negative in flight":     {func(p *Pipeline) { p.InFlight = -1 }, "can be negative"},
		"negative max age":       {func(p *Pipeline) { p.MaxAge = -1 }, "can be negative"},
		"negative ack pending":   {func(p *Pipeline) { p.AckPending = -1 }, "want 1 to"},
		"transform without hub":  {func(p *Pipeline) { p.Models.Hub = "hub" }, "role transform"},
		"partitions on core":     {func(p *Pipeline) { p.Stream, p.Partitions = "", 2 }, "partitions need a stream"},
		"partitions without key": {func(p *Pipeline) { p.Partitions = 2 }, "in.a has no key"},
	} {
		p := valid()
		c.change(&p)
		if _, err := p.WithDefaults(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p, err := valid().WithDefaults(); err != nil || p.AckPending != DefaultAckPending || p.Role != RoleAll {
		t.Errorf("defaults: %v, %+v", err, p)
	}
}
