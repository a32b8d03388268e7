package relay

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
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
	out, err := dedup.addSink(t.Context(), "out.x")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		seq    uint64
		stored bool
	}{{19_000, true}, {20_001, false}, {3, true}, {2, false}, {4, true}} {
		o := to(c.seq)
		o.sink = out
		dedup.markStored(t.Context(), &answer{in: o.in, parts: []*part{o}})
		if o.isStored != c.stored {
			t.Errorf("the answer to %d: stored is %t, want %t", c.seq, o.isStored, c.stored)
		}
	}
	// A process that shares the consumer has answered since. The server keeps identities for the duplicate window.
	another := to(20_001)
	another.sink = out
	if _, err := s.JS.PublishMsg(t.Context(), another.msg, jetstream.WithMsgID(another.id)); err != nil {
		t.Fatal(err)
	}
	for _, window := range []time.Duration{time.Hour, 0} {
		want := window == 0
		another.sink.window.Store(int64(window))
		if dedup.markStored(t.Context(), &answer{in: another.in, parts: []*part{another}}); another.isStored != want {
			t.Errorf("with a window of %v the answer of another process is found: %t", window, another.isStored)
		}
	}
	// After an older copy of the input stream was restored, another message has the sequence.
	restored := func() (*part, *answer) {
		o := to(19_000)
		o.in.Time, o.in.receivedAt, o.sink = now.Add(2*maxClockSkew), now.Add(3*maxClockSkew), out
		o.in.source = &source{}
		return o, &answer{in: o.in, parts: []*part{o}}
	}
	o, a := restored()
	if dedup.markStored(t.Context(), a); o.isStored {
		t.Error("the answer to an earlier input of the same sequence counts")
	}
	o, a = restored()
	if err := dedup.lookUp(t.Context(), a.parts); err != nil || o.isStored {
		t.Errorf("the answer to an earlier input of the same sequence counts in a lookup (%v)", err)
	}
}

// TestNewestAnsweredBehindOthers: the newest answer, and that to an input, are found however many messages of other
// pipelines the stream of the outputs has stored since, on other subjects or the same: also answers to earlier inputs.
func TestNewestAnsweredBehindOthers(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{"out.y", "out.x"} {
		t.Run(subject, func(t *testing.T) {
			t.Parallel()
			newestAnsweredBehind(t, subject)
		})
	}
}

func newestAnsweredBehind(t *testing.T, subject string) {
	s := newServer(t)
	created, identities := time.Now(), newIdentities()
	o := wire.Origin{Stream: "in", Created: created, Seq: firstLookBack + 7}
	msg := nats.NewMsg("out.x")
	msg.Header.Set(wire.HeaderSource, o.Source())
	if _, err := s.JS.PublishMsg(t.Context(), msg, jetstream.WithMsgID(identities.of(o, wire.AnswerOut, 0))); err != nil {
		t.Fatal(err)
	}
	for n := range firstLookBack + 1 {
		msg := nats.NewMsg(subject)
		msg.Header.Set(wire.HeaderSource, wire.Origin{Stream: "in", Seq: uint64(n + 1)}.Source())
		if _, err := s.JS.PublishMsgAsync(msg); err != nil {
			t.Fatal(err)
		}
		if n%1000 == 0 {
			<-s.JS.PublishAsyncComplete()
		}
	}
	<-s.JS.PublishAsyncComplete()
	d := newDedup(s.JS, slog.New(slog.DiscardHandler), spec.MinAckPending, identities)
	out, err := d.addSink(t.Context(), "out.x")
	if err != nil {
		t.Fatal(err)
	}
	one := &part{kind: wire.AnswerOut, id: identities.of(o, wire.AnswerOut, 0), sink: out}
	one.in = &input{Message: scope.Message{Origin: o, Time: created.Add(2 * maxClockSkew)}, receivedAt: time.Now(),
		source: &source{}}
	one.in.source.ahead.Store(int64(2 * maxClockSkew)) // the clock of the input's server
	if d.markStored(t.Context(), &answer{in: one.in, parts: []*part{one}}); !one.isStored {
		t.Error("the answer is not found")
	}
	if newest, err := d.newestAnswered(t.Context(), "in", created); newest != o.Seq || err != nil {
		t.Errorf("the newest input with an answer is %d, want %d; %v", newest, o.Seq, err)
	}
}

// TestWhoseDuplicate: the message that the server names as a duplicate is the answer only if its subject, identity and
// source are, or if it was deleted.
func TestWhoseDuplicate(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	now := time.Now()
	o := &part{msg: nats.NewMsg("out.x"), id: "id",
		in: &input{Message: scope.Message{Origin: wire.Origin{Stream: "in", Created: now, Seq: 7}}}}
	store := func(subject, id, source string) uint64 {
		t.Helper()
		msg := nats.NewMsg(subject)
		msg.Header = nats.Header{wire.HeaderSource: {source}, "X": {id}}
		ack, err := s.JS.PublishMsg(t.Context(), msg, jetstream.WithMsgID(id))
		if err != nil || ack.Duplicate {
			t.Fatal(ack, err)
		}
		return ack.Sequence
	}
	d := newDedup(s.JS, slog.New(slog.DiscardHandler), 1, nil)
	to, err := d.addSink(t.Context(), "out.x")
	if err != nil {
		t.Fatal(err)
	}
	ours, stream := store("out.x", "id", "in:7"), to.stream()
	out, err := s.JS.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	purge := func() {
		t.Helper()
		if err := out.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, seq uint64, want bool, wantErr error) {
		t.Helper()
		got, err := to.has(t.Context(), seq, o)
		if got != want || !errors.Is(err, wantErr) {
			t.Errorf("%s: %t, %v; want %t, %v", what, got, err, want, wantErr)
		}
	}
	check("the answer", ours, true, nil)
	check("a message that does not exist yet", ours+1, false, errNotStored)
	check("no sequence", 0, false, errNotStored)
	o.in.Time, o.in.receivedAt, o.in.source = now.Add(2*maxClockSkew), now.Add(3*maxClockSkew), &source{}
	check("the answer to an earlier input of the same sequence", ours, false, nil)
	o.in.receivedAt = o.in.Time.Add(-time.Second) // what is known of the server's clock is as old as its response
	check("the answer to an earlier input, received at once", ours, false, nil)
	o.in.source.ahead.Store(int64(2 * maxClockSkew))
	check("the answer to an input that a server whose clock is ahead has stored", ours, true, nil)
	o.in.source = &source{}
	o.in.receivedAt = now
	check("the answer to an input that is ahead of our clock", ours, true, nil)
	purge()
	check("a deleted message", ours, true, nil)
	check("another source", store("out.x", "other source", "in:8"), false, nil)
	o.id = "another subject"
	check("another subject", store("out.y", o.id, "in:7"), false, nil)
	o.id = "another stream"
	check("another identity", store("out.x", "z", "in:7"), false, nil)
}

// TestSinkMoves: where another stream takes the subject of the outputs now, answers are looked up there.
func TestSinkMoves(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	d := newDedup(s.JS, slog.New(slog.DiscardHandler), 1, newIdentities())
	out, err := d.addSink(t.Context(), "out.x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.JS.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "out",
		Subjects: []string{"out.y"}}); err != nil {
		t.Fatal(err)
	}
	s.Stream(jetstream.StreamConfig{Name: "moved", Subjects: []string{"out.x"}})
	s.Publish(nats.NewMsg("out.x"))
	n := 0
	if _, err := out.read(t.Context(), position{}, func(storedAnswer) { n++ }); err != nil || n != 1 {
		t.Errorf("%d messages are read, want that of the other stream; %v", n, err)
	}
}

// TestSlowLookup: a server that does not deliver the messages before a pull expires has not shown that an answer is
// missing.
func TestSlowLookup(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Publish(nats.NewMsg("out.x"))
	var isSlow atomic.Bool
	isSlow.Store(true)
	js, err := jetstream.New(s.ConnectSlow(&isSlow), jetstream.WithDefaultTimeout(natstest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	d := newDedup(js, slog.New(slog.DiscardHandler), 1, newIdentities())
	out, err := d.addSink(t.Context(), "out.x")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	read := func() error {
		_, err := out.read(t.Context(), position{}, func(storedAnswer) { n++ })
		return err
	}
	if err := read(); err == nil {
		t.Errorf("%d messages are read, without an error", n)
	}
	isSlow.Store(false)
	if err := read(); err != nil || n != 1 {
		t.Errorf("%d messages are read, want 1; %v", n, err)
	}
}
