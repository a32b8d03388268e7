package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/needs"
)

// put stores a message unchanged.
func (s *site) put(msg *nats.Msg) {
	s.Helper()
	if _, err := s.js.PublishMsg(s.Context(), msg); err != nil {
		s.Fatal(err)
	}
}

// eventually waits until a condition holds; what says how far it came.
func (s *site) eventually(what func() any, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(ample); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %v", ample, what())
		}
	}
}

// stored waits until a subject has n messages, if n is not negative, and returns the stream's messages of it.
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
	s.eventually(func() any { return there() }, func() bool { return there() >= n })
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
	s.eventually(func() any { return info }, func() bool {
		c, err := s.js.Consumer(s.Context(), "in", needs.ConsumerName("p", ""))
		if err != nil {
			return false
		}
		info = c.CachedInfo()
		// A message is stored a moment before its consumers know of it.
		in := s.state("in")
		return (in.Msgs == 0 || info.Delivered.Stream >= in.LastSeq) && info.NumPending == 0 && info.NumAckPending == 0
	})
}

// TestStatusHeader: an empty message with a Status header like that of the server's own messages is handled like any
// other. It becomes a dead letter, and both paths continue after it.
func TestStatusHeader(t *testing.T) {
	t.Parallel()
	for _, retention := range []jetstream.RetentionPolicy{jetstream.LimitsPolicy, jetstream.WorkQueuePolicy} {
		t.Run(retention.String(), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.again(jetstream.StreamConfig{Retention: retention})
			q := s.runPipeline(nil, nil)
			s.send(3)
			statuses := []string{"409", "404", "503", "100", "408", "400", "423", "x"}
			for _, status := range statuses {
				s.put(&nats.Msg{Subject: "in.x", Header: nats.Header{"Status": {status}, "Description": {"Consumer Deleted"}}})
				s.send(1)
			}
			q.await(3 + len(statuses))
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

// TestStatusHeaderInLabels: such a message among the labels does not end their reading.
func TestStatusHeaderInLabels(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.make(jetstream.StreamConfig{Name: "labels"})
	s.put(&nats.Msg{Subject: "labels.x", Header: nats.Header{"Status": {"409"}, "Description": {"Consumer Deleted"}}})
	s.put(&nats.Msg{Subject: "labels.x", Header: nats.Header{"Status": {"100"}}})
	s.put(&nats.Msg{Subject: "labels.x", Data: []byte("no Arrow")})
	s.engine(s.url(), Pipeline{Name: "p", Stream: "in", Subject: "in.x", Labels: "labels.x", Output: "out.x",
		Dead: "out.dead",
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label", Key: "key"},
			Fit: fit.Config{Method: "lda"}}})
	for i, l := range s.stored("out", "out.dead", 3) {
		if l.Header.Get(wire.HeaderSource) != fmt.Sprintf("labels:%d",
			i+1) || l.Header.Get(wire.HeaderSubject) != "labels.x" {
			t.Errorf("letter %d: %v", i, l.Header)
		}
	}
}

// TestStatusHeaderInCore: nor does it on core NATS, where dead letters are complete too.
func TestStatusHeaderInCore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	nc := s.dial().Conn()
	dead, err := nc.SubscribeSync("core.dead")
	if err != nil {
		t.Fatal(err)
	}
	s.engine(s.url(), Pipeline{Name: "p", Subject: "core.x", Output: "core.out", Dead: "core.dead",
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Until: plugin.UntilSkip,
			Fit: fit.Config{Method: "lda"}}})
	end := time.Now().Add(ample)
	for i, last := 0, ""; ; i++ { // what is sent before it subscribes is lost
		last = fmt.Sprintf("no Arrow %d", i)
		if err := nc.Publish("core.x", []byte(last)); err != nil {
			t.Fatal(err)
		}
		msg, err := dead.NextMsg(time.Second)
		for ; err == nil && string(msg.Data) != last; msg, err = dead.NextMsg(time.Second) {
		}
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the engine does not subscribe")
		}
	}
	for _, status := range []string{"503", "409", "404", "100"} {
		if err := nc.PublishMsg(&nats.Msg{Subject: "core.x", Header: nats.Header{"Status": {status}}}); err != nil {
			t.Fatal(err)
		}
	}
	long := bytes.Repeat([]byte("no Arrow"), (1<<20-100)/8)
	if err := nc.Publish("core.x", long); err != nil {
		t.Fatal(err)
	}
	var whole []byte
	for i := range 6 {
		msg, err := dead.NextMsg(ample)
		if err != nil {
			t.Fatalf("letter %d: %v", i, err)
		}
		if msg.Header.Get(wire.HeaderSubject) == "core.x" && i < 4 && string(msg.Data[:8]) != "NATS/1.0" {
			t.Errorf("letter %d begins %q", i, msg.Data[:8])
		}
		if part := msg.Header.Get(wire.HeaderPart); i >= 4 {
			if part != wire.PartOf(i-4, 2) || msg.Header.Get(wire.HeaderLetter) == "" {
				t.Errorf("part %q of letter %q", part, msg.Header.Get(wire.HeaderLetter))
			}
			whole = append(whole, msg.Data...)
		}
	}
	if !bytes.Equal(whole, long) {
		t.Errorf("%d bytes of %d", len(whole), len(long))
	}
}

// TestPullThroughADomain: a pull goes where the other requests of JetStream go.
func TestPullThroughADomain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.stop()
	s.options.JetStreamDomain = "hub"
	s.start()
	s.js = slowJetStream(t, s.dial().Conn())
	s.send(3)
	nc := s.js.Conn()
	domain, err := jetstream.NewWithDomain(nc, "hub", jetstream.WithDefaultTimeout(ample))
	if err != nil {
		t.Fatal(err)
	}
	prefix, err := jetstream.NewWithAPIPrefix(nc, "$JS.hub.API", jetstream.WithDefaultTimeout(ample))
	if err != nil {
		t.Fatal(err)
	}
	for js, begins := range map[jetstream.JetStream]string{s.js: "$JS.API.C", domain: "$JS.hub.API.C",
		prefix: "$JS.hub.API.C"} {
		c, err := js.CreateConsumer(s.Context(), "in", jetstream.ConsumerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if to := natsx.PullSubject(js, "in", c.CachedInfo().Name); !strings.HasPrefix(to, begins) {
			t.Errorf("a pull goes to %s, want %s...", to, begins)
		}
		n, err := natsx.Pull(s.Context(), js, c, 3, 0, func(d *natsx.Message) { _ = d.Ack() })
		if n != 3 || err != nil {
			t.Errorf("%s: %d messages, %v", begins, n, err)
		}
	}
}

// TestFollowASubject: what a stream holds and what comes is read in order, lookalikes among it, until it is enough.
func TestFollowASubject(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.put(&nats.Msg{Subject: "in.x", Data: []byte("1")})
	s.put(&nats.Msg{Subject: "in.x", Header: nats.Header{"Status": {"409"}, "Description": {"Consumer Deleted"}}})
	s.put(&nats.Msg{Subject: "in.y", Data: []byte("another")})
	s.put(&nats.Msg{Subject: "in.x", Data: []byte("3")})
	var got []string
	err := natsx.Follow(s.Context(), s.js, "in.x", func(msg *nats.Msg, _ time.Time) bool {
		if got = append(got, string(msg.Data)); len(got) == 3 {
			s.put(&nats.Msg{Subject: "in.x", Data: []byte("4")})
		}
		return len(got) < 4
	})
	if err != nil || !slices.Equal(got, []string{"1", "", "3", "4"}) {
		t.Errorf("%q: %v", got, err)
	}
	if err := natsx.Follow(s.Context(), s.js, "missing.x", nil); err == nil || !strings.Contains(err.Error(),
		"no stream takes") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), 300*time.Millisecond)
	defer cancel()
	if err := natsx.Follow(ctx, s.js, "in.y", func(*nats.Msg, time.Time) bool { return true }); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Error(err)
	}
}
