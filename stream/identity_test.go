package stream_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream"
)

// fixedPipeline answers with a model that does not change, so that nothing waits for one.
func fixedPipeline(t testing.TB) stream.Pipeline {
	p := basicPipeline()
	p.Stage.Fixed = fixedModel(t)
	p.Stage.Spec = arrowio.Spec{Features: []string{"x"}}
	return p
}

// identityKey reads the key of the pipeline's identities, as no client but its replicas may.
func identityKey(s *natstest.Server) *wire.Key {
	s.Helper()
	state, err := s.JS.KeyValue(s.Context(), "EMBEDD_STATE")
	if err != nil {
		s.Fatal(err)
	}
	entry, err := state.Get(s.Context(), "p.identity")
	if err != nil {
		s.Fatal(err)
	}
	var note struct{ Key []byte }
	if err := json.Unmarshal(entry.Value(), &note); err != nil || len(note.Key) != 32 {
		s.Fatalf("the key %s: %v", entry.Value(), err)
	}
	return wire.NewKey(note.Key)
}

// publicID is the identity that versions without a key gave an output.
func publicID(o wire.Origin) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s\x00%s\x00%d", o.Stream, o.Created.UnixNano(), o.Seq, "p",
		wire.AnswerOut, 0))
	return hex.EncodeToString(sum[:16])
}

// inputs publishes inputs.
func inputs(s *natstest.Server, n int) {
	s.Helper()
	body := drawRows(1, 1, 4).message(s)
	for range n {
		s.Publish(&nats.Msg{Subject: "in.x", Data: body})
	}
}

// created is the creation time of a stream.
func created(s *natstest.Server, name string) time.Time {
	s.Helper()
	in, err := s.JS.Stream(s.Context(), name)
	if err != nil {
		s.Fatal(err)
	}
	return in.CachedInfo().Created
}

// outputs counts the outputs of each input, on the subject of the outputs.
func outputs(s *natstest.Server, name string) map[string]int {
	s.Helper()
	n := map[string]int{}
	for _, m := range s.Messages(name) {
		if m.Subject == "out.x" && m.Header.Get(wire.HeaderModel) != "" {
			n[m.Header.Get(wire.HeaderSource)]++
		}
	}
	return n
}

// answeredOnce waits until all inputs are acknowledged, and checks that each has one output.
func answeredOnce(s *natstest.Server, in, out string, sequences []uint64) {
	s.Helper()
	natstest.Await(s, "all inputs are acknowledged", func() bool {
		c, err := s.JS.Consumer(s.Context(), in, "embedd_p")
		return err == nil && c.CachedInfo().AckFloor.Stream >= slices.Max(sequences)
	})
	got := outputs(s, out)
	for _, seq := range sequences {
		if source := fmt.Sprintf("%s:%d", in, seq); got[source] != 1 {
			s.Errorf("input %s has %d outputs, want one", source, got[source])
		}
	}
	if len(got) != len(sequences) {
		s.Errorf("%d inputs have outputs, want %d", len(got), len(sequences))
	}
}

// TestClaimedIdentities publishes forty messages that have the identities of the next answers: with the identities of
// versions without a key, under another key, and as a client that has read the key. Every input is answered once
// nevertheless.
func TestClaimedIdentities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, stream, subject string
		hasKey                bool
		other                 []byte // the key with which the client makes identities
	}{
		{"WithoutTheKey", "", "out.other", false, nil},
		{"WithAnotherKey", "", "out.other", false, make([]byte, 32)},
		{"AnotherSubject", "", "out.other", true, nil},
		{"SameSubject", "", "out.x", true, nil},
		{"OneStream", "all", "in.y", true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := natstest.New(t)
			p, in, out := fixedPipeline(t), "in", "out"
			if c.stream != "" {
				in, out = c.stream, c.stream
				s.Stream(jetstream.StreamConfig{Name: "all", Subjects: []string{"in.>", "out.>"}})
				p.Stream = "all"
			} else {
				s.Stream(jetstream.StreamConfig{Name: "in"})
				s.Stream(jetstream.StreamConfig{Name: "out"})
			}
			s.Stream(jetstream.StreamConfig{Name: "dead"})
			r := startReplica(t, s.Connect(), p)
			inputs(s, 20)
			natstest.Await(t, "20 inputs are answered", func() bool { return len(outputs(s, out)) == 20 })
			claims, next := uint64(40), uint64(21)
			if c.stream != "" { // inputs, outputs and claims have sequences of the same stream
				claims = 80
				next = 20 + 20 + claims + 1
			}
			id := publicID
			if key := wire.NewKey(c.other); c.hasKey || c.other != nil {
				if c.hasKey {
					key = identityKey(s)
				}
				id = func(o wire.Origin) string { return key.ID(o, "p", wire.AnswerOut, 0) }
			}
			for n := range claims {
				o := wire.Origin{Stream: in, Created: created(s, in), Seq: next + n}
				msg := nats.NewMsg(c.subject)
				msg.Header.Set(nats.MsgIdHdr, id(o))
				if _, err := s.JS.PublishMsg(t.Context(), msg); err != nil {
					t.Fatal(err)
				}
			}
			inputs(s, 40)
			natstest.Await(t, "60 inputs are answered", func() bool { return len(outputs(s, out)) == 60 })
			var sequences []uint64
			for _, m := range s.Messages(in) {
				if m.Subject == "in.x" {
					sequences = append(sequences, m.Sequence)
				}
			}
			answeredOnce(s, in, out, sequences)
			claimed := r.counter("embedd_claimed_identities_total")
			hasWarned := r.Log.has("level=WARN", "another message has the identity of an answer")
			if c.hasKey != (claimed > 0) || c.hasKey != hasWarned || uint64(claimed) != r.pipeline().Claimed {
				t.Errorf("%v identities are reported as claimed, %d in the status, in the log %t", claimed,
					r.pipeline().Claimed, hasWarned)
			}
			// A redelivery finds the answers under their second identities.
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := s.JS.DeleteConsumer(t.Context(), in, "embedd_p"); err != nil {
				t.Fatal(err)
			}
			startReplica(t, s.Connect(), p)
			answeredOnce(s, in, out, sequences)
		})
	}
}

// TestDeletedIdentityKey deletes the key, and then its bucket, while a replica runs: the replica stores its key again,
// and takes another one that is stored instead.
func TestDeletedIdentityKey(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	for _, name := range []string{"in", "out", "dead"} {
		s.Stream(jetstream.StreamConfig{Name: name})
	}
	p := fixedPipeline(t)
	r := startReplica(t, s.Connect(), p)
	inputs(s, 10)
	natstest.Await(t, "10 inputs are answered", func() bool { return s.Count("out") == 10 })
	o := wire.Origin{Stream: "in", Created: created(s, "in"), Seq: 1}
	before := identityKey(s).ID(o, "p", wire.AnswerOut, 0)
	state, err := s.JS.KeyValue(t.Context(), "EMBEDD_STATE")
	if err != nil {
		t.Fatal(err)
	}
	if err := state.Delete(t.Context(), "p.identity"); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the key is stored again", func() bool {
		_, err := state.Get(t.Context(), "p.identity")
		return !errors.Is(err, jetstream.ErrKeyNotFound)
	})
	if identityKey(s).ID(o, "p", wire.AnswerOut, 0) != before {
		t.Error("another key is stored")
	}
	natstest.Await(t, "the log says so", func() bool { return r.Log.has("level=WARN", "it is stored again") })

	stored := len(r.Log.String())
	if err := s.JS.DeleteKeyValue(t.Context(), "EMBEDD_STATE"); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the key is stored in a new bucket", func() bool {
		return strings.Contains(r.Log.String()[stored:], "it is stored again")
	})
	natstest.Await(t, "the new bucket has the key", func() bool { // the bucket may end while the key is stored
		_, err := state.Get(t.Context(), "p.identity")
		return err == nil
	})
	if identityKey(s).ID(o, "p", wire.AnswerOut, 0) != before {
		t.Error("another key is stored in the new bucket")
	}

	other, err := json.Marshal(map[string]any{"key": make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	entry, err := state.Get(t.Context(), "p.identity")
	if err == nil {
		_, err = state.Update(t.Context(), "p.identity", other, entry.Revision())
	}
	if err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the other key is taken", func() bool { return r.Log.has("level=WARN", "is another one") })
	inputs(s, 10)
	natstest.Await(t, "20 inputs are answered", func() bool { return s.Count("out") == 20 })
	last := s.Messages("out")[19]
	o.Seq = 20
	if want := wire.NewKey(make([]byte, 32)).ID(o, "p", wire.AnswerOut, 0); last.Header.Get(nats.MsgIdHdr) != want {
		t.Errorf("the last output has identity %s, want %s of the new key", last.Header.Get(nats.MsgIdHdr), want)
	}

	// What was answered under either key is not answered again.
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.JS.DeleteConsumer(t.Context(), "in", "embedd_p"); err != nil {
		t.Fatal(err)
	}
	if err := s.JS.DeleteKeyValue(t.Context(), "EMBEDD_STATE"); err != nil {
		t.Fatal(err)
	}
	startReplica(t, s.Connect(), p)
	var sequences []uint64
	for seq := range uint64(20) {
		sequences = append(sequences, seq+1)
	}
	answeredOnce(s, "in", "out", sequences)
}

// TestUpgradeWithoutAKey: answers that a version without a key stored are found, also after the consumer was deleted,
// and those of an input stream that was deleted are not taken for answers to the inputs of the one that has its name.
func TestUpgradeWithoutAKey(t *testing.T) {
	t.Parallel()
	for _, recreated := range []bool{false, true} {
		t.Run(fmt.Sprintf("Recreated=%t", recreated), func(t *testing.T) {
			t.Parallel()
			s := natstest.New(t)
			for _, name := range []string{"in", "out", "dead"} {
				s.Stream(jetstream.StreamConfig{Name: name})
			}
			inputs(s, 20)
			answer := func(seq uint64, subject string, kind wire.Kind) {
				o := wire.Origin{Stream: "in", Created: created(s, "in"), Seq: seq}
				msg := nats.NewMsg(subject)
				msg.Header.Set(nats.MsgIdHdr, publicID(o))
				msg.Header.Set(wire.HeaderSource, o.Source())
				if kind == "" {
					msg.Header.Set(wire.HeaderModel, "v")
				} else {
					msg.Header.Set(wire.HeaderKind, string(kind))
				}
				s.Publish(msg)
			}
			for seq := uint64(1); seq <= 9; seq++ {
				answer(seq, "out.x", "")
			}
			answer(10, "dead.x", wire.KindMessage)
			answer(11, "dead.x", wire.KindRows) // the output was not stored yet
			answer(12, "out.other", "")
			if recreated {
				if err := s.JS.DeleteStream(t.Context(), "in"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Millisecond)
				// In memory: the server may take up the files of the deleted one.
				s.Stream(jetstream.StreamConfig{Name: "in", Storage: jetstream.MemoryStorage})
				inputs(s, 20)
			}
			startReplica(t, s.Connect(), fixedPipeline(t))
			natstest.Await(t, "the inputs are answered", func() bool {
				c, err := s.JS.Consumer(t.Context(), "in", "embedd_p")
				return err == nil && c.CachedInfo().AckFloor.Stream == 20
			})
			got := outputs(s, "out")
			for seq := 1; seq <= 20; seq++ {
				want := 1
				switch {
				case recreated && seq <= 9:
					want = 2 // one of them to the input of the deleted stream
				case !recreated && seq == 10:
					want = 0
				}
				if n := got[fmt.Sprintf("in:%d", seq)]; n != want {
					t.Errorf("input %d has %d outputs, want %d", seq, n, want)
				}
			}
		})
	}
}

// TestOlderVersionIsRefused: a replica of a version without a key receives inputs until its pull request expires, and
// answers them without acknowledgement. The replica of this version begins after that, answers none of them again, and
// the server refuses the next pull request of the older version.
func TestOlderVersionIsRefused(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	for _, name := range []string{"in", "out", "dead"} {
		s.Stream(jetstream.StreamConfig{Name: name})
	}
	inputs(s, 5)
	consumer, err := s.JS.CreateConsumer(t.Context(), "in", jetstream.ConsumerConfig{Durable: "embedd_p",
		AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "in.x", AckWait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	nc := s.Connect()
	pull := func(expires time.Duration) *nats.Subscription {
		t.Helper()
		inbox := nc.NewInbox()
		sub, err := nc.SubscribeSync(inbox)
		if err == nil {
			err = nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.in.embedd_p", inbox,
				fmt.Appendf(nil, `{"batch": 100, "expires": %d}`, expires.Nanoseconds()))
		}
		if err == nil {
			err = nc.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		return sub
	}
	older := pull(1500 * time.Millisecond)
	isSent := make(chan struct{})
	go func() {
		defer close(isSent)
		for info := consumer.CachedInfo(); info.Config.MaxRequestExpires == 0; time.Sleep(time.Millisecond) {
			var err error
			if info, err = consumer.Info(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
		inputs(s, 5)
		for left := 10; left > 0; left-- {
			in, err := older.NextMsg(natstest.Timeout)
			if err != nil {
				t.Error(err)
				return
			}
			if in.Header.Get("Status") == "408" { // its time is over, on a busy machine: the replica has the others
				return
			}
			meta, err := in.Metadata()
			if err != nil {
				t.Error(err)
				return
			}
			o := wire.Origin{Stream: "in", Created: created(s, "in"), Seq: meta.Sequence.Stream}
			out := nats.NewMsg("out.x")
			out.Header = nats.Header{wire.HeaderSource: {o.Source()}, wire.HeaderModel: {"v"}, nats.MsgIdHdr: {publicID(o)}}
			if _, err := s.JS.PublishMsg(t.Context(), out); err != nil {
				t.Error(err)
			}
		}
	}()
	p := fixedPipeline(t)
	p.AckWait = 10 * time.Second
	startReplica(t, s.Connect(), p)
	<-isSent
	refused, err := pull(4500 * time.Millisecond).NextMsg(natstest.Timeout)
	if err != nil || refused.Header.Get("Status") != "409" {
		t.Errorf("the older version's pull request is answered with %v, %v", refused, err)
	}
	inputs(s, 5)
	var sequences []uint64
	for seq := range uint64(15) {
		sequences = append(sequences, seq+1)
	}
	answeredOnce(s, "in", "out", sequences)
}
