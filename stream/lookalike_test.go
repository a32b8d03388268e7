package stream

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
)

// put stores a message as it is.
func (s *site) put(msg *nats.Msg) {
	s.Helper()
	if _, err := s.js.PublishMsg(s.Context(), msg); err != nil {
		s.Fatal(err)
	}
}

// eventually waits until a condition holds; what says how far it came.
func (s *site) eventually(within time.Duration, what func() any, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(within); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %v", within, what())
		}
	}
}

// stored waits until a subject has so many messages, where n is not negative, and returns what the stream holds of it.
func (s *site) stored(stream, subject string, n int) (out []*jetstream.RawStreamMsg) {
	s.Helper()
	st, err := s.js.Stream(s.Context(), stream)
	if err != nil {
		s.Fatal(err)
	}
	there := func() int {
		info, err := st.Info(s.Context(), jetstream.WithSubjectFilter(subject))
		if err != nil {
			s.Fatal(err)
		}
		return int(info.State.Subjects[subject])
	}
	s.eventually(30*time.Second, func() any { return there() }, func() bool { return there() >= n })
	for next := uint64(1); ; {
		msg, err := st.GetMsg(s.Context(), next, jetstream.WithGetMsgSubject(subject))
		if err != nil {
			break
		}
		out = append(out, msg)
		next = msg.Sequence + 1
	}
	if n >= 0 && len(out) != n {
		s.Errorf("%s holds %d messages, want %d", subject, len(out), n)
	}
	return out
}

// settled waits until the durable consumer has nothing left of the input.
func (s *site) settled() {
	s.Helper()
	var info *jetstream.ConsumerInfo
	s.eventually(30*time.Second, func() any { return info }, func() bool {
		c, err := s.js.Consumer(s.Context(), "in", durable("p"))
		if err != nil {
			return false
		}
		info = c.CachedInfo()
		return info.NumPending == 0 && info.NumAckPending == 0
	})
}

// TestLookalike: an empty message whose header Status holds what a server says in messages of its own is a message
// like any other. It becomes a dead letter, and both paths go on behind it.
func TestLookalike(t *testing.T) {
	for _, retention := range []jetstream.RetentionPolicy{jetstream.LimitsPolicy, jetstream.WorkQueuePolicy} {
		t.Run(retention.String(), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.again(jetstream.StreamConfig{Retention: retention})
			q := s.pupil(nil, nil)
			s.send(3)
			statuses := []string{"409", "404", "503", "100", "408", "400", "423", "x"}
			for _, status := range statuses {
				s.put(&nats.Msg{Subject: "in.x", Header: nats.Header{"Status": {status}, "Description": {"Consumer Deleted"}}})
				s.send(1)
			}
			q.await(3+len(statuses), 20*time.Second)
			got := slices.DeleteFunc(q.got(), func(n int) bool { return n < 0 })
			if !slices.Equal(got, to(3+len(statuses))) {
				t.Errorf("learned %v, want each number once, in order", got)
			}
			for i, l := range s.stored("out", "out.dead", len(statuses)) {
				if code := l.Header.Get(wire.HeaderCode); code != string(wire.NotArrow) {
					t.Errorf("letter %d has code %q", i, code)
				}
				if l.Header.Get(wire.HeaderAttempts) != "1" {
					t.Errorf("letter %d has attempts %s", i, l.Header.Get(wire.HeaderAttempts))
				}
			}
			s.settled()
		})
	}
}
