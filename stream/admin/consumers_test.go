package admin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// TestConsumersAreCounted: more pipelines than a stream has consumers for are a warning before anything starts, with
// how many are needed, those of others included; as many as fit are none.
func TestConsumersAreCounted(t *testing.T) {
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "in"})
	s.Stream(jetstream.StreamConfig{Name: "out"})
	many := func(n int, stream string) (out []spec.Pipeline) {
		for i := range n {
			p := spec.Pipeline{Name: fmt.Sprint("p", i), Stream: stream, Subject: fmt.Sprint(stream, ".", i),
				Output: fmt.Sprint("out.", i),
				Dead:   "out.dead", Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}}}}
			out = append(out, p)
		}
		return out
	}
	warning := func(pipelines []spec.Pipeline, words ...string) {
		t.Helper()
		plans, err := Setup(t.Context(), s.JS, pipelines, false)
		if err != nil {
			t.Fatal(err)
		}
		said := plans[0].ConsumerWarning
		if (said == "") != (len(words) == 0) {
			t.Errorf("%d pipelines: %q", len(pipelines), said)
		}
		for _, w := range words {
			if !strings.Contains(said, w) {
				t.Errorf("%d pipelines: %q, want %q in it", len(pipelines), said, w)
			}
		}
	}
	warning(many(333, "in"))
	warning(many(334, "in"), "need 1002 consumers of stream in,", "limit is 1000", "default_max_consumers")
	s.Stream(jetstream.StreamConfig{Name: "few", MaxConsumers: 7})
	warning(many(2, "few"))
	warning(many(3, "few"), "need 9 consumers", "limit is 7")
	for _, name := range []string{"mine", "embedd_p1"} {
		c := jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy}
		if name != "mine" {
			c.Description = needs.ConsumerDescription + "p1"
		}
		if _, err := s.JS.CreateConsumer(t.Context(), "few", c); err != nil {
			t.Fatal(err)
		}
	}
	warning(many(2, "few"))
	if _, err := s.JS.CreateConsumer(t.Context(), "few", jetstream.ConsumerConfig{Durable: "other"}); err != nil {
		t.Fatal(err)
	}
	warning(many(2, "few"), "need 6 consumers", "in addition to 2 of others", "limit is 7")
}
