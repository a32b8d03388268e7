package stream

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// serving runs the pipeline with a fixed model, so that good messages are answered from the first on.
func (s *site) serving(change func(*Pipeline)) *testPipeline {
	s.Helper()
	rows := &model.Data{N: 40, M: 4, Classes: []string{"even", "odd"}, Features: []string{"x[0]", "x[1]", "x[2]", "x[3]"}}
	for i := range 40 {
		rows.X = append(rows.X, float64(i), float64(i%2*100), float64(i*31%17), float64(i*7%5))
		rows.Y = append(rows.Y, i%2)
	}
	fixed, err := fit.Fit(s.Context(), rows, fit.Config{Method: "lda", Dim: 1})
	if err != nil {
		s.Fatal(err)
	}
	return s.runPipeline(func(c *Pipeline) {
		c.Dead, c.Stage.Fixed = "dead.x", fixed
		if change != nil {
			change(c)
		}
	}, nil)
}

// whole joins the parts of a dead letter.
func whole(t *testing.T, parts []*jetstream.RawStreamMsg) (body []byte) {
	t.Helper()
	for i, part := range parts {
		if want := wire.PartOf(i, len(parts)); len(parts) > 1 && part.Header.Get(wire.HeaderPart) != want {
			t.Errorf("part %q, want %q", part.Header.Get(wire.HeaderPart), want)
		}
		if id := part.Header.Get(wire.HeaderLetter); id != parts[0].Header.Get(wire.HeaderLetter) {
			t.Errorf("part %d is of letter %q, the first of %q", i, id, parts[0].Header.Get(wire.HeaderLetter))
		}
		body = append(body, part.Data...)
	}
	return body
}

// TestLargeHeaders: headers that leave no room become a dead letter that has all of them, and later messages are
// answered.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.make(jetstream.StreamConfig{Name: "dead"})
	s.serving(nil)
	body := numbered(1, 0)
	most := strings.Repeat("h", 65_500-len("X-Large: \r\n"))
	for range 3 {
		s.put(&nats.Msg{Subject: "in.x", Header: nats.Header{"X-Large": {most}, "Trace": {"a", "b"}}, Data: body})
	}
	s.send(1)
	s.settled()
	s.stored("out", "out.x", 1)
	for _, l := range s.stored("dead", "dead.x", 3) {
		if l.Header.Get(wire.HeaderCode) != string(wire.LargeHeaders) || l.Header.Get("X-Large") != "" {
			t.Errorf("headers %v", l.Header)
		}
		n, err := strconv.Atoi(l.Header.Get(wire.HeaderTruncated))
		if err != nil || n > len(l.Data) {
			t.Fatalf("truncated %q of a body of %d", l.Header.Get(wire.HeaderTruncated), len(l.Data))
		}
		header, err := nats.DecodeHeadersMsg(l.Data[:n])
		if err != nil || header.Get("X-Large") != most || !slices.Equal(header.Values("Trace"), []string{"a", "b"}) {
			t.Errorf("the letter's headers: %v, %d names", err, len(header))
		}
		if !bytes.Equal(l.Data[n:], body) {
			t.Error("the letter has another body")
		}
	}
}

// putRaw stores a message with headers that the client may refuse to send.
func (s *site) putRaw(headers string, body []byte) {
	s.Helper()
	before := s.state("in").Msgs
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url(), "nats://"))
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	block := "NATS/1.0\r\n" + headers + "\r\n"
	if _, err := fmt.Fprintf(c, "CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB in.x %d %d\r\n%s%s\r\n", len(block),
		len(block)+len(body), block, body); err != nil {
		s.Fatal(err)
	}
	s.until("the message is stored", func() bool { return s.state("in").Msgs > before })
}

// TestHeadersThatTheClientRefuses: a header with a name that servers and other clients accept, and ours does not send,
// blocks nothing: an output is without it, and a dead letter has it in its body.
func TestHeadersThatTheClientRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.make(jetstream.StreamConfig{Name: "dead"})
	s.serving(nil)
	for _, body := range [][]byte{numbered(1, 0), []byte("bad")} {
		s.putRaw("a/b: 1\r\nc d: 2\r\nTrace: 3\r\n", body)
	}
	s.send(1)
	s.settled()
	out := s.stored("out", "out.x", 2)[0].Header
	if out["a/b"] != nil || out["c d"] != nil || out.Get("Trace") != "3" {
		t.Errorf("an output has the headers %v", out)
	}
	l := s.stored("dead", "dead.x", 1)[0]
	n, err := strconv.Atoi(l.Header.Get(wire.HeaderTruncated))
	if err != nil || n > len(l.Data) {
		t.Fatalf("truncated %q of a body of %d", l.Header.Get(wire.HeaderTruncated), len(l.Data))
	}
	header, err := nats.DecodeHeadersMsg(l.Data[:n])
	if err != nil || header.Get("a/b") != "1" || header.Get("c d") != "2" || header.Get("Trace") != "3" ||
		string(l.Data[n:]) != "bad" {
		t.Errorf("the dead letter has the headers %v and the body %q; %v", header, l.Data[n:], err)
	}
}

// TestHeadersOfOutputs: the server's and embedd's own headers are not copied, however they are spelled, and others are.
func TestHeadersOfOutputs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.make(jetstream.StreamConfig{Name: "dead"})
	s.serving(nil)
	own := nats.Header{"traceparent": {"00-1"}, "Natsy": {"kept"}, "X": {"1", "2"}, "content-type": {"text/plain"},
		"nats-msg-id": {"a"}, "NATS-Expected-Stream": {"b"}, "nats-expected-last-sequence": {"9"}, "Nats-Rollup-x": {"all"},
		"embedd-model": {"forged"}, "EMBEDD-Code": {"forged"}}
	s.put(&nats.Msg{Subject: "in.x", Header: own, Data: numbered(1, 0)})
	s.put(&nats.Msg{Subject: "in.x", Header: own, Data: []byte("bad")})
	s.settled()
	for _, c := range []struct {
		msg     *jetstream.RawStreamMsg
		content map[string]string
	}{
		{s.stored("out", "out.x", 1)[0], map[string]string{"Content-Type": wire.ContentType}},
		{s.stored("dead", "dead.x", 1)[0], map[string]string{"content-type": "text/plain"}},
	} {
		for k, v := range c.msg.Header {
			switch {
			case strings.HasPrefix(k, wire.Prefix) && v[0] != "forged", k == nats.MsgIdHdr && v[0] != "a":
			case c.content[k] == v[0]:
				delete(c.content, k)
			case slices.Contains([]string{"traceparent", "Natsy", "X"}, k) && slices.Equal(v, own[k]):
			default:
				t.Errorf("%s carries %s: %q", c.msg.Subject, k, v)
			}
		}
		if len(c.content) > 0 || c.msg.Header.Get("traceparent") == "" {
			t.Errorf("%s carries no %v", c.msg.Subject, c.content)
		}
	}
}

// TestDeadLettersAreWhole: a dead letter has all bytes of its message, whatever the size of the message and the limit
// of dead letters.
func TestDeadLettersAreWhole(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int32{"the server's limit": -1, "16 KiB": 16 << 10, "2 KiB": 2 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.make(jetstream.StreamConfig{Name: "dead", MaxMsgSize: limit})
			s.serving(nil)
			var bodies [][]byte
			for _, size := range []int{1, 1900, 20_000, 1<<20 - 5000, 1<<20 - 1000, 1<<20 - 200, 1 << 20} {
				body := []byte(strings.Repeat("no Arrow ", size/9+1)[:size])
				if limit == 2<<10 {
					body = body[:min(size, 100_000)]
				}
				bodies = append(bodies, body)
				s.put(&nats.Msg{Subject: "in.x", Data: body})
			}
			headers := nats.Header{"Large": {strings.Repeat("h", 3000)}}
			s.put(&nats.Msg{Subject: "in.x", Header: headers, Data: bodies[2]})
			s.send(1)
			s.settled()
			s.stored("out", "out.x", 1)
			letters := map[string][]*jetstream.RawStreamMsg{}
			for _, part := range s.stored("dead", "dead.x", -1) {
				source := part.Header.Get(wire.HeaderSource)
				letters[source] = append(letters[source], part)
				if part.Header.Get(wire.HeaderSubject) != "in.x" {
					t.Errorf("subject %q", part.Header.Get(wire.HeaderSubject))
				}
			}
			for i, body := range append(bodies, bodies[2]) {
				parts := letters[fmt.Sprintf("in:%d", i+1)]
				if len(parts) == 0 {
					t.Errorf("no letter of message %d", i+1)
					continue
				}
				got := whole(t, parts)
				if cut, err := strconv.Atoi(parts[0].Header.Get(wire.HeaderTruncated)); err == nil {
					if header, err := nats.DecodeHeadersMsg(got[:cut]); err != nil || header.Get("Large") != headers.Get("Large") {
						t.Errorf("the headers of message %d: %v", i+1, err)
					}
					got = got[cut:]
				}
				if !bytes.Equal(got, body) {
					t.Errorf("message %d: %d bytes in %d parts, want %d", i+1, len(got), len(parts), len(body))
				}
			}
		})
	}
}

// TestParked: inputs whose dead letters are refused are redelivered, and acknowledged once the letters are stored.
// Later inputs do not wait for them: neither if the stream is full, nor if it refuses a letter of any size.
func TestParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dead jetstream.StreamConfig
		n    int // bad messages
	}{
		"a full stream":                  {jetstream.StreamConfig{MaxMsgs: 1, Discard: jetstream.DiscardNew}, 3},
		"a stream that confirms nothing": {jetstream.StreamConfig{NoAck: true, Duplicates: 200 * time.Millisecond}, 3},
		"a stream of too small messages": {jetstream.StreamConfig{MaxMsgSize: 300}, 3},
		"more than are answered at a time": {jetstream.StreamConfig{MaxMsgs: 1, Discard: jetstream.DiscardNew},
			spec.MinAckPending + 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			c.dead.Name, c.dead.Subjects = "dead", []string{"dead.>"}
			s.make(c.dead)
			if c.dead.MaxMsgs == 1 {
				s.put(&nats.Msg{Subject: "dead.full"})
			}
			log := &lines{}
			s.log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			q := s.serving(func(p *Pipeline) { p.AckWait = time.Hour }) // what comes back is what was put off
			for i := range c.n {
				s.put(&nats.Msg{Subject: "in.x", Data: fmt.Appendf(nil, "bad %d", i)})
			}
			s.send(20)
			s.stored("out", "out.x", 20)
			parked := func() any { return q.pipeline.status().Undeliverable }
			least := c.n
			if c.dead.NoAck { // for a second alone: a letter is looked for then, and found, and those behind it may be too
				least = 1
				s.until("it is logged", func() bool { return log.with("dead letters cannot be stored") != nil })
			} else {
				s.eventually(parked, func() bool { return parked() == c.n })
				st := q.pipeline.status()
				if st.UndeliverableReason == "" || st.State != StateParked || !st.Ready {
					t.Errorf("state %s, ready %t, %q: %q", st.State, st.Ready, st.Reason, st.UndeliverableReason)
				}
			}
			c.dead.MaxMsgs, c.dead.MaxMsgSize, c.dead.NoAck = -1, -1, false
			if _, err := s.js.UpdateStream(s.Context(), c.dead); err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for _, l := range s.stored("dead", "dead.x", c.n) {
				got[string(l.Data)] = true
				if l.Header.Get(wire.HeaderAttempts) != "1" {
					t.Errorf("%s attempts", l.Header.Get(wire.HeaderAttempts))
				}
			}
			if len(got) != c.n {
				t.Errorf("%d letters, want %d", len(got), c.n)
			}
			s.settled()
			s.eventually(parked, func() bool { return parked() == 0 })
			s.stored("dead", "dead.x", c.n) // none came twice
			durable, err := s.js.Consumer(s.Context(), "in", needs.ConsumerName("p", ""))
			if err != nil {
				t.Fatal(err)
			}
			times, read := len(log.with("an input is postponed")), int(durable.CachedInfo().Delivered.Consumer)
			if times < least || read != c.n+20+times {
				t.Errorf("%d of %d inputs were parked %d times, and %d read", c.n, c.n+20, times, read)
			}
		})
	}
}
