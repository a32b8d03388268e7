package stream

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/internal/needs"
)

// identities counts the answers of the output by their identity.
func (s *site) identities() (all, distinct int) {
	s.Helper()
	ids := map[string]bool{}
	out, err := s.js.Stream(s.Context(), "out")
	if err != nil {
		s.Fatal(err)
	}
	state := s.state("out")
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		msg, err := out.GetMsg(s.Context(), seq)
		if err != nil {
			s.Fatal(err)
		}
		all++
		ids[msg.Header.Get(nats.MsgIdHdr)] = true
	}
	return all, len(ids)
}

// TestAcknowledgementsOfTheStreamBefore deletes and recreates the input stream with its consumer while answers wait for
// room in the output. Another process takes the new messages and is killed. The acknowledgements of the old messages
// name sequence numbers of the new ones: no new message may be lost by them.
func TestAcknowledgementsOfTheStreamBefore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	out := jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"}, MaxMsgs: 10,
		Discard: jetstream.DiscardNew}
	if _, err := s.js.UpdateStream(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	p := answerer(t)
	p.AckWait = 3 * time.Second
	p.InFlight = 190 * (int64(len(numbered(1, 0))) + 1024) // the size of 190 messages: then nothing more is pulled
	l := s.link()
	s.engine(l.url(), p)
	l.hush.Store(true) // all come at once, before it is known how fast this machine is
	s.send(200)
	l.hush.Store(false)
	s.until("the output is full and the pipeline holds all others", func() bool {
		c, err := s.js.Consumer(t.Context(), "in", needs.ConsumerName("p", ""))
		return err == nil && s.state("out").Msgs == 10 && c.CachedInfo().NumAckPending == 190
	})
	c, err := s.js.Consumer(t.Context(), "in", needs.ConsumerName("p", ""))
	if err != nil {
		t.Fatal(err)
	}
	config := c.CachedInfo().Config
	s.again(jetstream.StreamConfig{})
	if _, err := s.js.CreateConsumer(t.Context(), "in", config); err != nil {
		t.Fatal(err)
	}
	s.send(260)
	s.abandon(260)
	out.MaxMsgs = -1
	if _, err := s.js.UpdateStream(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	s.until("all inputs of both streams are answered", func() bool { return s.state("out").Msgs >= 460 })
	s.acknowledged("p")
	if all, distinct := s.identities(); all != 460 || distinct != 460 {
		t.Errorf("%d answers with %d identities are stored, want 460", all, distinct)
	}
}
