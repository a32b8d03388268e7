package stream

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestHalt: too many bad messages halt a pipeline. No more messages are answered or acknowledged, readiness gives the
// reason, and a request makes it continue.
func TestHalt(t *testing.T) {
	t.Parallel()
	for _, retention := range []jetstream.RetentionPolicy{jetstream.LimitsPolicy, jetstream.WorkQueuePolicy} {
		t.Run(retention.String(), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.again(jetstream.StreamConfig{Retention: retention})
			s.make(jetstream.StreamConfig{Name: "dead"})
			s.send(10)
			for range 5 {
				s.put(&nats.Msg{Subject: "in.x", Data: []byte("bad")})
			}
			s.send(10)
			q := s.serving(func(c *Pipeline) { c.Stop = Stop{Bad: 3, Of: 10} })
			s.stored("dead", "dead.x", 3)
			s.eventually(func() any { return q.pipeline.status() }, func() bool {
				st := q.pipeline.status()
				return !st.Ready && strings.Contains(st.Reason, "3 of the newest 10") && st.Halted == st.Reason
			})
			s.send(1) // what comes now waits too
			time.Sleep(300 * time.Millisecond)
			s.stored("dead", "dead.x", 3)
			s.stored("out", "out.x", 10)
			if !q.relay.Resume() || q.relay.Resume() {
				t.Error("it is not resumed once")
			}
			s.stored("dead", "dead.x", 5)
			s.stored("out", "out.x", 21)
			if st := q.pipeline.status(); !st.Ready || st.Halted != "" {
				t.Error(st.Reason)
			}
			s.settled()
		})
	}
}

// TestConsumerGoneWhileHalted: a halted pipeline creates its consumer again, so that a stream with interest retention
// keeps the messages for it.
func TestConsumerGoneWhileHalted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.again(jetstream.StreamConfig{Retention: jetstream.InterestPolicy})
	s.make(jetstream.StreamConfig{Name: "dead"})
	p := answerer(t)
	p.Dead, p.Stop = "dead.x", Stop{Bad: 3, Of: 10}
	e := s.replica(p)
	s.until("the consumer exists, so that the stream keeps messages", func() bool { return len(e.Status()) > 0 })
	for range 10 {
		s.put(&nats.Msg{Subject: "in.x", Data: []byte("bad")})
	}
	s.until("the pipeline is halted", func() bool { return e.Status()[0].Halted != "" })
	durable := needs.ConsumerName("p", "")
	s.send(1) // it ends the open pull, which would be notified of the deletion
	s.until("no pull is open", func() bool {
		c, err := s.js.Consumer(t.Context(), "in", durable)
		return err == nil && c.CachedInfo().NumWaiting == 0
	})
	if err := s.js.DeleteConsumer(t.Context(), "in", durable); err != nil {
		t.Fatal(err)
	}
	s.until("the consumer is there again", func() bool {
		_, err := s.js.Consumer(t.Context(), "in", durable)
		return err == nil
	})
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) with(words string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		if strings.Contains(line, words) {
			out = append(out, line)
		}
	}
	return out
}

// TestDeadLettersAreLogged: the first dead letter of each code is a warning with its text, the others are a number, and
// the metric counts all of them. A stop logs the number that was not logged.
func TestDeadLettersAreLogged(t *testing.T) {
	s := newSite(t)
	s.make(jetstream.StreamConfig{Name: "dead"})
	var log lines
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	q := s.serving(nil)
	for range 20 {
		s.put(&nats.Msg{Subject: "in.x", Data: []byte("bad")})
	}
	s.put(&nats.Msg{Subject: "in.x", Header: nats.Header{"X": {strings.Repeat("h", 64_000)}}, Data: numbered(1, 0)})
	s.settled()
	if first := log.with(`msg="dead letter;`); len(first) != 2 || !strings.Contains(first[0], "code=not_arrow") ||
		!strings.Contains(first[0], "Arrow IPC stream marker") || !strings.Contains(first[1], "code=large_headers") {
		t.Errorf("the log has %q", first)
	}
	if n := q.metric("embedd_dead_letters_total", "not_arrow"); n != 20 {
		t.Errorf("the metric counts %v", n)
	}
	q.end()
	if rest := log.with("further dead letters before the stop"); len(rest) != 1 ||
		!strings.Contains(rest[0], "code=not_arrow suppressed=19") {
		t.Errorf("the stop logs %q", rest)
	}
}
