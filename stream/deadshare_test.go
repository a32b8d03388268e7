package stream

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

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

// TestOutputLimitChanges: a change of max_msg_size of the output's stream takes effect without a restart. When it is
// lowered, at most the outputs that are under way are refused.
func TestOutputLimitChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.make(jetstream.StreamConfig{Name: "dead"})
	limit := func(bytes int32) {
		t.Helper()
		c := jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"}, MaxMsgSize: bytes}
		if _, err := s.js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	limit(100)
	s.serving(nil)
	s.send(1)
	s.stored("dead", "dead.x", 1)
	limit(-1)
	s.until("an output is stored", func() bool {
		s.send(1)
		time.Sleep(100 * time.Millisecond)
		return s.state("out").Msgs > 0
	})
	s.settled()
	letters, outputs := s.state("dead").Msgs, s.state("out").Msgs
	limit(8 << 10)
	large := numbered(1, 4000)
	s.store("in.x", large)
	s.until("it is answered", func() bool {
		return s.state("dead").Msgs > letters || s.state("out").Msgs > outputs+1
	})
	s.settled()
	letters, outputs = s.state("dead").Msgs, s.state("out").Msgs
	s.store("in.x", large)
	s.until("the next one is stored in parts", func() bool {
		if s.state("dead").Msgs > letters {
			t.Fatal("the next output is refused too")
		}
		return s.state("out").Msgs > outputs+1
	})
}
