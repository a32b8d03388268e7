package relay

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

// newIdentities returns identities under a fixed key.
func newIdentities() *identities {
	i := &identities{Scope: &scope.Scope{Pipeline: spec.Pipeline{Name: "p"}}}
	i.use(identityNote{Secret: make([]byte, secretBytes)})
	return i
}

// TestAnswerFarBack finds the answer to an input however many answers to inputs after it were stored since.
func TestAnswerFarBack(t *testing.T) {
	s := newServer(t)
	now := time.Now()
	identities := newIdentities()
	to := func(seq uint64) *part {
		o := wire.Origin{Stream: "in", Created: now, Seq: seq}
		msg := nats.NewMsg("out.x")
		msg.Header.Set(wire.HeaderSource, o.Source())
		in := &input{Message: scope.Message{Origin: o, Time: now}}
		return &part{msg: msg, in: in, kind: wire.AnswerOut, id: identities.of(o, wire.AnswerOut, 0)}
	}
	store := func(first, last uint64) {
		for seq := first; seq <= last; seq++ {
			o := to(seq)
			if _, err := s.JS.PublishMsgAsync(o.msg, jetstream.WithMsgID(o.id)); err != nil {
				t.Fatal(err)
			}
			if seq%1000 == 0 {
				<-s.JS.PublishAsyncComplete()
			}
		}
		<-s.JS.PublishAsyncComplete()
	}
	store(3, 20_000)
	dedup := newDedup(s.JS, slog.New(slog.DiscardHandler), spec.DefaultAckPending, identities)
	if _, err := dedup.addSink(t.Context(), "out.x"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		seq    uint64
		stored bool
	}{{19_000, true}, {20_001, false}, {3, true}, {2, false}, {4, true}} {
		o := to(c.seq)
		o.sink = dedup.sinks["out.x"]
		dedup.markStored(t.Context(), &answer{in: o.in, parts: []*part{o}}, true)
		if o.isStored != c.stored {
			t.Errorf("the answer to %d: stored is %t, want %t", c.seq, o.isStored, c.stored)
		}
	}
}
