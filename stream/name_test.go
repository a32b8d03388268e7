package stream

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/registry"
)

// TestNameIsBoundToItsStream: a second pipeline of a name, over another stream, is refused with an error that names
// both streams, also before any model exists, and the first pipeline is not affected. The fix that the error names
// works.
func TestNameIsBoundToItsStream(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.make(jetstream.StreamConfig{Name: "other"})
	over := func(name, stream string) Pipeline {
		return Pipeline{Name: name, Stream: stream, Subject: stream + ".x", Output: "out." + stream, Dead: "out.dead",
			Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
				Fit: fit.Config{Method: "lda"}, Training: plugin.Training{Every: plugin.Every{Rows: 100}}}}
	}
	nc := connect(t, s.url())
	t.Cleanup(nc.Close)
	refused := func(words ...string) {
		t.Helper()
		e, err := New(Options{Conn: nc, Pipelines: []Pipeline{over("p", "other")}, Wait: ample})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), ample)
		defer cancel()
		err = e.Run(ctx)
		if !errors.Is(err, ErrConsumerTaken) {
			t.Fatalf("a second stream under one name: %v", err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("the refusal does not say %q: %v", w, err)
			}
		}
	}
	found := func() (text string) {
		t.Helper()
		all, err := admin.Diagnose(t.Context(), admin.Options{Conn: nc, Pipelines: []Pipeline{over("p", "other")}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if f.Check == "store" && f.Level == admin.LevelFault {
				text += f.Text + ": " + f.Command
			}
		}
		return text
	}
	names := []string{"stream in,", "stream other", "another name", "nats consumer rm in embedd_p"}

	end := s.engine(s.url(), over("p", "in"))
	s.until("the name is bound", func() bool { return boundTo(s, "p") == "in" })
	refused(names...)
	if text := found(); !strings.Contains(text, "nats consumer rm in embedd_p --force") {
		t.Errorf("doctor says %q", text)
	}
	s.send(200)
	s.acknowledged("p")
	refused(names...)
	end()
	refused(names...)

	// A stream of the same name that was recreated is the same, and so is a store that has no bound names yet.
	s.again(jetstream.StreamConfig{})
	end = s.engine(s.url(), over("p", "in"))
	s.send(10)
	s.acknowledged("p")
	end()
	unbind(s, "p")
	end = s.engine(s.url(), over("p", "in"))
	s.until("the name is bound again", func() bool { return boundTo(s, "p") == "in" })
	end()

	// The fix: the pipeline moves with its models.
	in, err := s.js.Stream(t.Context(), "in")
	if err == nil {
		err = in.DeleteConsumer(t.Context(), needs.ConsumerName("p", ""))
	}
	if err != nil {
		t.Fatal(err)
	}
	if text := found(); text != "" {
		t.Errorf("doctor says %q of a name that is free", text)
	}
	s.engine(s.url(), over("p", "other"))
	s.store("other.x", numbered(1, 0))
	s.until("the other stream is answered", func() bool { return answersOf(s, "other") })
	if b := boundTo(s, "p"); b != "other" {
		t.Errorf("the name is bound to %q", b)
	}
}

// TestNameOfDeniedStream: a user without permission to read the other stream gets the same error, with
// the permission that is missing.
func TestNameOfDeniedStream(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	s.make(jetstream.StreamConfig{Name: "other"})
	p := answerer(t)
	p.Stage.Fixed, p.Stage.Fit = nil, fit.Config{Method: "lda"}
	p.Stream, p.Subject, p.Dead = "other", "other.x", "dead.x"
	end := s.engine(s.url(), p)
	s.until("the name is bound", func() bool { return boundTo(s, "p") == "other" })
	end()
	s.grant(denied("$JS.API.CONSUMER.INFO.other.>"))
	_, _, run := s.invite(func(p *Pipeline) { p.Models.None = false })
	if err := run(t.Context()); !errors.Is(err, ErrConsumerTaken) || !strings.Contains(err.Error(), "stream other") ||
		!strings.Contains(err.Error(), "$JS.API.CONSUMER.INFO.other.embedd_p") {
		t.Errorf("a name of a stream that must not be asked for: %v", err)
	}
}

// answersOf reports whether the consumer of a stream has acknowledged something.
func answersOf(s *site, stream string) bool {
	c, err := s.js.Consumer(s.Context(), stream, needs.ConsumerName("p", ""))
	return err == nil && c.CachedInfo().AckFloor.Stream > 0
}

func boundTo(s *site, pipeline string) string {
	s.Helper()
	store, err := registry.JetStream(s.Context(), s.js)
	if errors.Is(err, registry.ErrMissing) {
		return ""
	}
	if err != nil {
		s.Fatal(err)
	}
	p, err := registry.New(store, pipeline, registry.Options{}).Pointer(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return p.Stream
}

// unbind leaves the store as embedd left it before names were bound.
func unbind(s *site, pipeline string) {
	s.Helper()
	store, err := registry.JetStream(s.Context(), s.js)
	if err != nil {
		s.Fatal(err)
	}
	if b, err := registry.New(store, pipeline, registry.Options{}).Bind(s.Context(), boundTo(s, pipeline), ""); b != "" ||
		err != nil {
		s.Fatal(b, err)
	}
}
