package stream_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// TestPostponedKeepsItsParts: an input whose output is stored, and whose dead letter is not, has the same output when
// it is answered again, although max_msg_size of the output's stream was lowered since.
func TestPostponedKeepsItsParts(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := basicPipeline()
	for _, name := range []string{"in", "out", "dead"} {
		s.Stream(jetstream.StreamConfig{Name: name})
	}
	dead := jetstream.StreamConfig{Name: "dead", Subjects: []string{"dead.>"}, MaxMsgs: 1, Discard: jetstream.DiscardNew}
	update := func(c jetstream.StreamConfig) {
		t.Helper()
		if _, err := s.JS.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	update(dead)
	s.Publish(nats.NewMsg("dead.full"))
	rows := func(n int, bad ...int) []byte {
		var classes []string
		var x [][]float32
		for i := range n {
			classes = append(classes, []string{"even", "odd"}[i%2])
			x = append(x, []float32{float32(i % 2 * 10), float32(i * 31 % 17)})
		}
		for _, i := range bad {
			x[i][0] = float32(math.NaN())
		}
		return arrowMessage(t, column{"label", classes}, column{"x", x})
	}
	r := startReplica(t, s.Connect(), p)
	s.Publish(&nats.Msg{Subject: "in.x", Data: rows(200)})
	natstest.Await(t, "the first is answered", func() bool { return s.Count("out") == 1 })
	s.Publish(&nats.Msg{Subject: "in.x", Data: rows(4000, 7)})
	natstest.Await(t, "the second is postponed", func() bool { return r.pipeline().Undeliverable == 1 })
	update(jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"}, MaxMsgSize: 8 << 10})
	parts := func(source string) (n int) {
		for _, m := range s.Messages("out") {
			if m.Header.Get(wire.HeaderSource) == source {
				n++
			}
		}
		return n
	}
	natstest.Await(t, "the limit is known", func() bool {
		ack := s.Publish(&nats.Msg{Subject: "in.x", Data: rows(4000)})
		source := wire.Origin{Stream: "in", Seq: ack.Sequence}.Source()
		natstest.Await(t, "it is answered or postponed", func() bool {
			return parts(source) > 1 || r.pipeline().Undeliverable > 1
		})
		return parts(source) > 1
	})
	dead.MaxMsgs = -1
	update(dead)
	natstest.Await(t, "none is postponed", func() bool { return r.pipeline().Undeliverable == 0 })
	if n := parts("in:2"); n != 1 {
		t.Errorf("the output of the postponed input has %d parts, and was stored as one", n)
	}
}

// TestPostponedThatKills: an input that crashed processes is not tried again because its dead letter is refused. It
// takes as long as the dead letter may wait.
func TestPostponedThatKills(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	in := s.Stream(jetstream.StreamConfig{Name: "in"})
	s.Stream(jetstream.StreamConfig{Name: "out"})
	dead := jetstream.StreamConfig{Name: "dead", Subjects: []string{"dead.>"}, MaxMsgs: 1, Discard: jetstream.DiscardNew}
	s.Stream(dead)
	s.Publish(nats.NewMsg("dead.full"))
	c, err := in.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "embedd_p", FilterSubject: "in.x",
		AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	inputs(s, 1)
	for range 2 {
		msg, err := c.Next(jetstream.FetchMaxWait(natstest.Timeout))
		if err == nil {
			err = msg.Nak()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	state, err := statestore.Open(t.Context(), s.JS, 1)
	if err == nil {
		err = state.Put(t.Context(), statestore.AttemptsKey("p", needs.Partition{}.String()), fmt.Appendf(nil,
			`{"stream_created": %d, "attempts": {"1": 1000}}`, in.CachedInfo().Created.UnixNano()))
	}
	if err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, s.Connect(), fixedPipeline(t))
	natstest.Await(t, "it is postponed", func() bool { return r.pipeline().Undeliverable == 1 })
	dead.MaxMsgs = -1
	if _, err := s.JS.UpdateStream(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "it is answered", func() bool { return s.Count("out")+s.Count("dead") > 1 })
	if n := s.Count("out"); n != 0 {
		t.Error("the input was tried again")
	}
}
