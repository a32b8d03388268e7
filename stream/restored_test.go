package stream_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
)

// TestRestoredWhileInFlight: after an older copy of the input stream was restored, the acknowledgements of inputs that
// were in flight acknowledge no new input of the same sequence number.
func TestRestoredWhileInFlight(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	for _, name := range []string{"in", "dead"} {
		s.Stream(jetstream.StreamConfig{Name: name})
	}
	out := jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"}, MaxMsgs: 1, Discard: jetstream.DiscardNew}
	s.Stream(out)
	p := fixedPipeline(t)
	p.AckWait = time.Hour
	r := startReplica(t, s.Connect(), p)
	consumer := func() (i jetstream.ConsumerInfo) {
		c, err := s.JS.Consumer(t.Context(), "in", "embedd_p")
		if err == nil {
			i = *c.CachedInfo()
		}
		return i
	}
	inputs(s, 1)
	natstest.Await(t, "the first is answered", func() bool { return consumer().AckFloor.Stream == 1 })
	s.Stop()
	dir, backup := filepath.Join(s.Options.StoreDir, "jetstream", "$G", "streams", "in"), t.TempDir()
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s.Start()
	inputs(s, 5)
	natstest.Await(t, "the others are in flight", func() bool { return consumer().NumAckPending == 5 })
	s.Stop()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	s.Start()
	inputs(s, 5)
	natstest.Await(t, "the new ones are read", func() bool {
		return consumer().NumAckPending == 5 && r.counter("embedd_read_messages_total", "path=answer") >= 1+5+5
	})
	out.MaxMsgs = -1
	if _, err := s.JS.UpdateStream(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	answered := func() float64 { return r.counter("embedd_messages_total", "result=out") }
	for n := 1 + 5; n < 1+5+2; n++ { // when the last one is acknowledged, the server has the acknowledgements before it
		natstest.Await(t, "all are answered", func() bool { return answered() >= float64(n) })
		inputs(s, 1)
	}
	// Those before the restore are answered too, so they do not count for the new ones.
	if floor := consumer().AckFloor.Stream; floor > 1 && answered() < 1+5+float64(floor-1) {
		t.Errorf("new inputs up to %d are acknowledged, and %g are answered", floor, answered()-1-5)
	}
}
