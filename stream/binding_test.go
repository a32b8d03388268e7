package stream

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/internal/needs"
)

// TestNameIsBoundToItsSubject: a second daemon with the name of a pipeline and another subject is refused with an error
// that names both subjects, and takes no messages from the first.
func TestNameIsBoundToItsSubject(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := answerer(t)
	s.engine(s.url(), p)
	s.send(10)
	s.acknowledged("p")

	nc := connect(t, s.url())
	defer nc.Close()
	run := func() error {
		e, err := New(Options{Conn: nc, Pipelines: []Pipeline{p}, Wait: ample})
		if err != nil {
			t.Fatal(err)
		}
		return e.Run(t.Context())
	}
	p.Subject = "in.y"
	if err := run(); !errors.Is(err, ErrConsumerTaken) || !strings.Contains(err.Error(), `"in.x"`) ||
		!strings.Contains(err.Error(), `"in.y"`) {
		t.Errorf("a second subject under one name: %v", err)
	}
	s.send(10)
	s.acknowledged("p")
	s.once(20)

	// A consumer of another kind is refused too, and the fix that it names works.
	p.Name = "q"
	in, err := s.js.Stream(t.Context(), "in")
	if err == nil {
		_, err = in.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: needs.ConsumerName("q", ""),
			AckPolicy: jetstream.AckNonePolicy, FilterSubject: "in.y"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := run(); !errors.Is(err, ErrConsumerTaken) || !strings.Contains(err.Error(), "consumer rm in embedd_q") {
		t.Errorf("a consumer without acknowledgements: %v", err)
	}
	if err := in.DeleteConsumer(t.Context(), needs.ConsumerName("q", "")); err != nil {
		t.Fatal(err)
	}
	s.engine(s.url(), p)
	s.store("in.y", numbered(1, 0))
	s.until("the other subject is answered", func() bool { return s.state("out").Msgs == 21 })
}

// TestConsumerRemoved deletes the durable consumer, while the pipeline runs and while it does not. The server then
// delivers all messages again as if for the first time; answered messages are not answered again, long after the
// duplicate window of the output.
func TestConsumerRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const window = 200 * time.Millisecond
	s.window(window)
	p := answerer(t)
	remove := func() {
		t.Helper()
		time.Sleep(2 * window)
		if err := s.js.DeleteConsumer(t.Context(), "in", needs.ConsumerName("p", "")); err != nil {
			t.Fatal(err)
		}
	}
	end := s.engine(s.url(), p)
	s.send(300)
	s.acknowledged("p")
	remove()
	s.send(50)
	s.acknowledged("p")
	s.once(350)
	end()
	remove()
	s.send(50)
	s.engine(s.url(), p)
	s.acknowledged("p")
	s.once(400)
}
