package stream

import (
	"strings"
	"testing"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/spec"
)

// TestNotices: a thousand rows without a label are a condition that blocks no answer, and the pipeline stays ready. A
// lease that an unknown client wrote expires.
func TestNotices(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	if _, err := lease.Open(t.Context(), s.js, 1); err != nil {
		t.Fatal(err)
	}
	kv, err := s.js.KeyValue(t.Context(), lease.BucketName)
	if err == nil {
		_, err = kv.Create(t.Context(), "p", []byte("junk"))
	}
	if err != nil {
		t.Fatal(err)
	}
	e, _ := s.runGuarded(func(p *Pipeline) {
		p.Lease, p.Models.None, p.Stage.Until = lease.DefaultTTL, false, plugin.UntilSkip // a busy machine can renew it
		p.Stage.Spec.Label = "missing"
	})
	for range 11 {
		s.store("in.x", numbered(1, 99))
	}
	find := func(name string) (reason string) {
		for _, st := range e.Status() {
			for _, c := range st.Conditions {
				if c.Name == name && c.Blocks == spec.BlocksNothing && st.Ready && st.State == StateDegraded {
					reason = c.Reason
				}
			}
		}
		return reason
	}
	status := func() any { return e.Status() }
	s.eventually(status, func() bool { return strings.Contains(find("no_labels"), `column "missing"`) })
	s.eventually(status, func() bool { return e.Status()[0].IsTrainer })
}
