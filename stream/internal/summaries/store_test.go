package summaries

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
)

// newBucket opens the bucket of a new server.
func newBucket(t *testing.T) (*natstest.Server, *Bucket) {
	t.Helper()
	server := natstest.New(t)
	b, err := Open(t.Context(), server.JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	return server, b
}

// TestSendRestarts: whatever a sender has stored when its process crashes, the next one continues with the same notice,
// and of two that send at the same time one does.
func TestSendRestarts(t *testing.T) {
	t.Parallel()
	server, b := newBucket(t)
	newSender := func() *Sender {
		t.Helper()
		s, err := OpenSender(t.Context(), b, "p", 1<<30, 1)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	last := func(s *Sender, want uint64, isStored bool) uint64 {
		t.Helper()
		n, after, err := s.Last(t.Context())
		if err != nil || (n == nil) != (want == 0) || n != nil && n.Last != want || (after > 0) != isStored {
			t.Fatalf("the last notice is %+v at %d, want one of messages up to %d: %v", n, after, want, err)
		}
		return after
	}
	send := func(s *Sender, last, after uint64, want bool) {
		t.Helper()
		text := bytes.Repeat([]byte{byte(last)}, 2*maxPartBytes+1)
		if isSent, err := s.Send(t.Context(), Notice{First: 1, Last: last}, text, after); isSent != want || err != nil {
			t.Fatalf("it is sent: %t, %v, want %t", isSent, err, want)
		}
	}
	first, second := newSender(), newSender()
	if _, err := first.putParts(t.Context(), "p", bytes.Repeat([]byte{10}, 2*maxPartBytes+1)); err != nil {
		t.Fatal(err)
	}
	after := last(second, 0, false)
	send(second, 10, after, true)
	send(first, 10, after, false)
	after = last(first, 10, true)
	for _, noNotice := range []string{`{"last":-1}`, "null", "{}"} { // what was sent is not sent again
		server.Publish(&nats.Msg{Subject: edgeRoot + "p", Data: []byte(noNotice)})
		send(first, 20, after, false)
		after = last(second, 10, true)
	}
	send(first, 20, after, true)

	if err := second.stream.Purge(t.Context()); err != nil { // as notices of other pipelines evict this one
		t.Fatal(err)
	}
	send(second, 30, last(second, 20, false), true)
	if err := server.JS.DeleteStream(t.Context(), EdgeStream); err != nil {
		t.Fatal(err)
	}
	first = newSender()
	last(first, 0, false)
	server.Publish(&nats.Msg{Subject: bucketRoot + "p.sent", Data: []byte("[")})
	last(first, 0, false)
}

// TestNotOpened: what cannot be opened is nil.
func TestNotOpened(t *testing.T) {
	t.Parallel()
	js := natstest.New(t).JS
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b, err := Open(ctx, js, 1); b != nil || err == nil {
		t.Errorf("the bucket is %v: %v", b, err)
	}
	if s, err := OpenSender(ctx, &Bucket{store{js: js}}, "p", 1<<20, 1); s != nil || err == nil {
		t.Errorf("the sender is %v: %v", s, err)
	}
	if r, err := OpenReceiver(ctx, js, "p", nil, 1<<20, 1); r != nil || err == nil {
		t.Errorf("the receiver is %v: %v", r, err)
	}
}

// TestDamagedSummaries: an incomplete summary, one that is too large, or one with an invalid manifest is ErrDamaged. A
// second summary of the same block is ignored.
func TestDamagedSummaries(t *testing.T) {
	t.Parallel()
	server, b := newBucket(t)
	c := b.Collection("p", "settings", time.Unix(1, 0))
	text := bytes.Repeat([]byte("summary "), maxPartBytes/4)
	for n, other := range [][]byte{text, text[1:]} {
		if isFirst, err := c.Put(t.Context(), 1, other); isFirst != (n == 0) || err != nil {
			t.Errorf("summary %d is the first: %t, %v", n, isFirst, err)
		}
	}
	if got, err := c.Get(t.Context(), 1, int64(len(text))); !bytes.Equal(got, text) || err != nil {
		t.Errorf("%d bytes are read: %v", len(got), err)
	}
	if got, err := c.Get(t.Context(), 2, 1<<30); got != nil || err != nil {
		t.Errorf("of a block without a summary %d bytes are read: %v", len(got), err)
	}
	if _, err := c.Get(t.Context(), 1, int64(len(text))-1); !errors.Is(err, ErrDamaged) {
		t.Errorf("one that is too large: %v", err)
	}
	m := manifestOf(text)
	if err := c.remove(t.Context(), m.part(c.block(1), 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), 1, 1<<30); !errors.Is(err, ErrDamaged) {
		t.Errorf("one without a part: %v", err)
	}
	for _, manifest := range []string{"", "null", "{}", `{"digest":"*","bytes":1}`,
		`{"digest":"` + m.Digest + `","bytes":-1}`, `{"digest":"` + m.Digest + `","bytes":9223372036854775807}`} {
		server.Publish(&nats.Msg{Subject: bucketRoot + c.block(3), Data: []byte(manifest)})
		if _, err := c.Get(t.Context(), 3, 1<<30); !errors.Is(err, ErrDamaged) {
			t.Errorf("one with manifest %s: %v", manifest, err)
		}
	}
}

// TestClaims: another replica gets a claimed block after the claim has not changed for a while, and how many replicas
// have claimed it. A block whose work has failed is released.
func TestClaims(t *testing.T) {
	t.Parallel()
	server, b := newBucket(t)
	c := b.Collection("p", "settings", time.Unix(1, 0))
	server.Publish(&nats.Msg{Subject: bucketRoot + c.block(1) + ".claim",
		Data: []byte(`{"owner":"dead","attempts":2}`)})
	mine, others := c.Claims("mine", 20*time.Millisecond), c.Claims("other", time.Hour)
	for isClaimed, err := false, error(nil); !isClaimed; time.Sleep(time.Millisecond) {
		if isClaimed, err = mine.Work(t.Context(), 1, func(attempts int) error {
			isTaken, err := others.Work(t.Context(), 1, func(int) error { return nil })
			if attempts != 3 || isTaken {
				t.Errorf("attempt %d, and another replica has the block too: %t", attempts, isTaken)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	failure := errors.New("failure")
	isClaimed, err := others.Work(t.Context(), 1, func(attempts int) error {
		if attempts != 1 {
			t.Errorf("a released block is attempt %d", attempts)
		}
		return failure
	})
	if !isClaimed || !errors.Is(err, failure) {
		t.Errorf("it is claimed: %t, %v", isClaimed, err)
	}
}

// unaware is JetStream of a process that another one precedes in creating a stream.
type unaware struct {
	jetstream.JetStream
	requests int
}

func (u *unaware) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if u.requests++; u.requests == 1 {
		return nil, jetstream.ErrStreamNotFound
	}
	return u.JetStream.Stream(ctx, name)
}

// TestHubsCreateTogether: of two hubs with different edges that create the stream concurrently, each adds its own.
func TestHubsCreateTogether(t *testing.T) {
	t.Parallel()
	js := natstest.New(t).JS
	edges := []string{"a", "b"}
	for i, one := range []jetstream.JetStream{js, &unaware{JetStream: js}} {
		if err := Ensure(t.Context(), one, HubConfig(edges[i:i+1], 1<<20), 1, false); err != nil {
			t.Fatal(err)
		}
	}
	s, err := js.Stream(t.Context(), HubStream)
	if err != nil {
		t.Fatal(err)
	}
	if missing := MissingSources(&s.CachedInfo().Config, edges); len(missing) > 0 {
		t.Errorf("the summaries of %v are not received", missing)
	}
}

// TestHubsUpdateTogether: no update of the hub's stream removes the source that another process adds concurrently.
func TestHubsUpdateTogether(t *testing.T) {
	t.Parallel()
	js := natstest.New(t).JS
	if err := Ensure(t.Context(), js, HubConfig(nil, 1<<20), 1, false); err != nil {
		t.Fatal(err)
	}
	edges := []string{"a", "b", "c"}
	processes := natstest.Simultaneous(js, len(edges))
	var ended sync.WaitGroup
	for i := range edges {
		ended.Go(func() {
			if err := Ensure(t.Context(), processes[i], HubConfig(edges[i:i+1], 1<<20), 1, false); err != nil {
				t.Error(err)
			}
		})
	}
	ended.Wait()
	s, err := js.Stream(t.Context(), HubStream)
	if err != nil {
		t.Fatal(err)
	}
	if missing := MissingSources(&s.CachedInfo().Config, edges); len(missing) > 0 {
		t.Errorf("the summaries of %v are not received", missing)
	}
}
