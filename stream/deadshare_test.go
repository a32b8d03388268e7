package stream

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestDeadShare: when nearly all messages become dead letters, for whatever reason, the pipeline stays ready, and a
// condition, a metric and one warning have the reason and the fix, until most are answered again.
func TestDeadShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out   jetstream.StreamConfig
		send  func(*site, int)
		words []string
	}{
		"no Arrow": {jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"}}, func(s *site, n int) {
			for i := range n {
				s.put(&nats.Msg{Subject: "in.x", Data: fmt.Appendf(nil, "bad %d", i)})
			}
		}, []string{"not_arrow", "embedd dlq ls p"}},
		"outputs that their stream refuses": {jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"},
			MaxMsgSize: 100}, func(s *site, n int) { s.send(n) }, []string{"too_large", "raise max_msg_size", "out.x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.make(jetstream.StreamConfig{Name: "dead", Subjects: []string{"dead.>"}})
			if _, err := s.js.UpdateStream(t.Context(), c.out); err != nil {
				t.Fatal(err)
			}
			log := &lines{}
			s.log = slog.New(slog.NewTextHandler(log, nil))
			q := s.serving(func(*Pipeline) {})
			c.send(s, 60)
			s.stored("dead", "dead.x", 60)
			var st Status
			s.eventually(func() any { return st.Conditions }, func() bool {
				st = q.pipeline.status()
				return len(st.Conditions) == 1 && strings.Contains(st.Conditions[0].Reason, "60 of the last 60")
			})
			for _, word := range c.words {
				if !strings.Contains(st.Reason, word) {
					t.Errorf("%q is missing in %q", word, st.Reason)
				}
			}
			if st.State != StateDegraded || !st.Ready || st.Conditions[0].Name != "dead_share" {
				t.Errorf("state %s, ready %t, %v", st.State, st.Ready, st.Conditions)
			}
			if n := len(log.with("nearly all messages are dead letters")); n != 1 {
				t.Errorf("%d warnings", n)
			}
			if c.out.MaxMsgSize > 0 {
				return
			}
			s.send(40) // of 100
			s.eventually(func() any { return q.pipeline.status().Conditions },
				func() bool { return q.pipeline.status().Conditions == nil })
		})
	}
}
