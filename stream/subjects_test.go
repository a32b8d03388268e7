package stream

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
)

// TestOutputsKeepTheirOrigin: with wildcards in the output's subject each output is on the subject of its input's
// tokens, names that input's subject, and is stored once, however often the input is delivered. What a hostile sender
// puts into a subject is a dead letter, and blocks nothing.
func TestOutputsKeepTheirOrigin(t *testing.T) {
	t.Parallel()
	s := newBareSite(t)
	s.make(jetstream.StreamConfig{Name: "in"})
	s.make(jetstream.StreamConfig{Name: "out", Subjects: []string{"out.*", "out.*.*"}, Duplicates: 100 * time.Millisecond})
	s.make(jetstream.StreamConfig{Name: "dead"})
	change := func(c *Pipeline) { c.Subject, c.Output = "in.*.*", "out.{{wildcard(2)}}.{{wildcard(1)}}" }
	q := s.serving(change)
	long := strings.Repeat("x", 3000)
	// A message on in.a.> is stored and never delivered: the server does not match it with in.*.*.
	want := map[string]int{"out.eu.a": 2, "out.eu.b": 1, "out.ü.a": 1, "dead.x": 3}
	for i, subject := range []string{"in.a.eu", "in.b.eu", "in.*.eu", "in.a.>", "in.>", "in." + long + ".eu", "in.a.ü",
		"in.a.eu"} {
		body := numbered(i, 0)
		if subject == "in.b.eu" {
			s.put(&nats.Msg{Subject: subject, Data: []byte("no Arrow")})
		}
		s.put(&nats.Msg{Subject: subject, Data: body})
	}
	check := func(when string) {
		t.Helper()
		s.settled()
		got := map[string]int{}
		for _, name := range []string{"out", "dead"} {
			s.each(name, func(msg jetstream.Msg) {
				got[msg.Subject()]++
				from := msg.Headers().Get(wire.HeaderSubject)
				tokens := strings.Split(from, ".")
				if name == "out" && msg.Subject() != "out."+tokens[2]+"."+tokens[1] {
					t.Errorf("%s: the answer to %s is on %s", when, from, msg.Subject())
				}
				code := wire.Code(msg.Headers().Get(wire.HeaderCode))
				if name == "dead" && code != wire.BadSubject && (code != wire.NotArrow || from != "in.b.eu") {
					t.Errorf("%s: the dead letter of %.20s is %s", when, from, code)
				}
			})
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: answers %v, want %v", when, got, want)
		}
	}
	check("at first")
	// The consumer is deleted: all inputs come again, after the server has forgotten the identities.
	q.end()
	if err := s.js.DeleteConsumer(t.Context(), "in", needs.ConsumerName("p", "")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(150 * time.Millisecond)
	s.serving(change)
	check("again")
}

// TestOutputPatternNeedsOneStream: a stream that takes only some of the subjects of the outputs is none for them.
func TestOutputPatternNeedsOneStream(t *testing.T) {
	t.Parallel()
	s := newBareSite(t)
	s.make(jetstream.StreamConfig{Name: "a", Subjects: []string{"out.a"}})
	if name, err := natsx.StreamName(t.Context(), s.js, "out.*"); err == nil {
		t.Errorf("stream %s takes out.*", name)
	}
	s.make(jetstream.StreamConfig{Name: "deep", Subjects: []string{"out.*.>"}})
	for subject, want := range map[string]string{"out.a": "a", "out.*.x": "deep", "out.*.*": "deep"} {
		if name, err := natsx.StreamName(t.Context(), s.js, subject); err != nil || name != want {
			t.Errorf("stream %q takes %s, want %s: %v", name, subject, want, err)
		}
	}
	p := Pipeline{Name: "p", Stream: "in", Subject: "in.*", Dead: "dead.x"}
	for output, says := range map[string]string{"out.{{wildcard(2)}}": "needs at least 2 *",
		"out.*": "without wildcards", "out.{{x}}": "is no {{wildcard(1)}}"} {
		p.Output = output
		if _, err := p.WithDefaults(); err == nil || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("output %s: %v, want %s", output, err, says)
		}
	}
}
