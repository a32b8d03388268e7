package relay

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/internal/training"
	"github.com/embedd/embedd/stream/spec"
)

// numbered is a message of the input stream.
func numbered(seq uint64) *scope.Message {
	return &scope.Message{Origin: wire.Origin{Seq: seq}, Time: time.Unix(1, 0)}
}

// loadAttempts returns the attempts of a replica, which has loaded what is stored about a consumer.
func loadAttempts(t *testing.T, s *natstest.Server, config jetstream.ConsumerConfig) *attempts {
	t.Helper()
	js, err := jetstream.New(s.Connect(), jetstream.WithDefaultTimeout(natstest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := statestore.Open(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	replica := &scope.Scope{Pipeline: spec.Pipeline{Name: "p", Stream: "in"}, JS: js, State: bucket,
		Log: slog.New(slog.DiscardHandler)}
	config.Durable = replica.ConsumerName()
	consumer, err := js.CreateOrUpdateConsumer(t.Context(), "in", config)
	if err != nil {
		t.Fatal(err)
	}
	input, err := js.Stream(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	a := &attempts{}
	if err := a.load(t.Context(), replica, input.CachedInfo().Created, consumer.CachedInfo()); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAttemptsOfTwoReplicas: two replicas store 100 attempts at the same time, and none is lost.
func TestAttemptsOfTwoReplicas(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Publish(nats.NewMsg("in.x"))
	var replicas [2]*attempts
	for i := range replicas {
		replicas[i] = loadAttempts(t, s, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if _, err := replicas[i%2].increment(t.Context(), numbered(1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n, err := replicas[0].increment(t.Context(), numbered(1))
	if n != 2+100+1 || err != nil {
		t.Errorf("%d of 100 survive, %v", n-3, err)
	}
}

// TestAttemptsBoundAgain: while the consumer is bound again, attempts are recorded and training asks. The race detector
// is the judge.
func TestAttemptsBoundAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Publish(nats.NewMsg("in.x"))
	a := loadAttempts(t, s, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	c, err := a.JS.Consumer(t.Context(), a.Stream, a.durable)
	if err != nil {
		t.Fatal(err)
	}
	replica, created := a.Scope, a.created
	var wg sync.WaitGroup
	wg.Go(func() { a.record(t.Context(), numbered(1)) })
	if err := a.load(t.Context(), replica, created, c.CachedInfo()); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// TestAttemptsOfAnOlderMessage: attempts at a message count although as many newer messages as are kept were recorded
// before it, as by a replica that did not crash.
func TestAttemptsOfAnOlderMessage(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Publish(nats.NewMsg("in.x"))
	a := loadAttempts(t, s, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	for seq := range uint64(maxCounted) {
		a.record(t.Context(), numbered(2+seq))
	}
	for want := uint64(3); want < 6; want++ {
		if n := a.record(t.Context(), numbered(1)); n != want {
			t.Errorf("attempt %d counts as %d", want, n)
		}
	}
	if n := len(a.note.Attempts); n != maxCounted || len(a.note.Stored) != n {
		t.Errorf("%d messages are counted", n)
	}
}

// TestRetract: an attempt that did not crash the process is removed, and never more than were stored.
func TestRetract(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Publish(nats.NewMsg("in.x"))
	a := loadAttempts(t, s, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	for _, retracts := range []int{0, 1, 5} {
		if n, err := a.increment(t.Context(), numbered(1)); err != nil || n < 3 || n > 4 {
			t.Errorf("before %d are removed: %d attempts, %v", retracts, n, err)
		}
		for range retracts {
			a.retract(t.Context(), &input{Message: *numbered(1), isCounted: true})
		}
	}
	if n, err := a.increment(t.Context(), numbered(1)); n != 3 || err != nil {
		t.Errorf("after all are removed: %d attempts, %v", n, err)
	}
}

// TestAttemptsOfTheStreamBefore: attempts at a message of a stream that was deleted do not count for the message of the
// same sequence number in the next one.
func TestAttemptsOfTheStreamBefore(t *testing.T) {
	m := numbered(1)
	m.Origin.Created = time.Now()
	a := &attempts{Scope: &scope.Scope{}, created: m.Origin.Created,
		note: attemptsNote{Attempts: map[uint64]uint64{1: 4}}} // as an earlier version stored it
	a.Attempts = 3
	recreated := *m
	recreated.Origin.Created = m.Origin.Created.Add(time.Second)
	if !a.areUsedUp(m) || a.areUsedUp(&recreated) {
		t.Errorf("used up: %t, and in a stream that was created later: %t", a.areUsedUp(m), a.areUsedUp(&recreated))
	}
}

// TestAttemptsOfAnOlderCopy: after an older copy of the stream was restored, attempts at a message do not count for the
// new message of the same sequence number.
func TestAttemptsOfAnOlderCopy(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Publish(nats.NewMsg("in.x"))
	a := loadAttempts(t, s, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	before := numbered(1)
	before.Origin.Created = a.created
	for range 3 {
		a.record(t.Context(), before)
	}
	restored := *before
	restored.Time = before.Time.Add(time.Second)
	if !a.areUsedUp(before) || a.areUsedUp(&restored) {
		t.Errorf("used up: %t, and by the new message: %t", a.areUsedUp(before), a.areUsedUp(&restored))
	}
	a.upTo, a.floor = 1, 1
	if a.mayLearn(t.Context(), before, a.created, nil) || !a.mayLearn(t.Context(), &restored, a.created, nil) {
		t.Error("training does not tell the new message from the one before it")
	}
	a.retract(t.Context(), &input{Message: restored, isCounted: true})
	if n := a.record(t.Context(), &restored); n != 3 {
		t.Errorf("the first recorded attempt at the new message counts as %d, want 3", n)
	}
}

// TestAttemptsOfARecreatedConsumer: what is known of the messages that were delivered before the start ends when the
// stream or the consumer is created again: messages of the same sequence numbers are others.
func TestAttemptsOfARecreatedConsumer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for range 3 {
		s.Publish(nats.NewMsg("in.x"))
	}
	state, err := statestore.Open(t.Context(), s.JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	input, err := s.JS.Stream(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	r := New(&scope.Scope{Pipeline: spec.Pipeline{Name: "p", Stream: "in", Subject: "in.x"}, JS: s.JS, Conn: s.JS.Conn(),
		State: state, Conditions: &health.Conditions{}, Input: input, Log: slog.New(slog.DiscardHandler)}, &Activity{}, 0)
	r.training = &training.Path{}
	r.shared.durable = r.ConsumerName()
	p := &puller{hotPath: r.hotPath, source: r.shared, inFlight: newInFlight(r.activity, nil, nil), unbind: func() {}}
	r.identities.current.Store(&identityKey{})
	bind := func() *attempts {
		t.Helper()
		if err := p.bind(t.Context()); err != nil {
			t.Fatal(err)
		}
		return &r.shared.attempts
	}
	bind()
	if _, err := s.JS.Conn().Request("$JS.API.CONSUMER.MSG.NEXT.in."+r.shared.durable, nil, natstest.Timeout); err != nil {
		t.Fatal(err)
	}
	p.created = time.Time{} // as at the next start
	if a := bind(); a.upTo != 1 {
		t.Fatalf("messages up to %d were delivered before the start, want 1", a.upTo)
	}
	if err := s.JS.DeleteConsumer(t.Context(), "in", r.shared.durable); err != nil {
		t.Fatal(err)
	}
	if a := bind(); a.upTo != 0 {
		t.Errorf("after the consumer was recreated, messages up to %d were delivered before the start", a.upTo)
	}
	if err := s.JS.DeleteStream(t.Context(), "in"); err != nil {
		t.Fatal(err)
	}
	s.Stream(jetstream.StreamConfig{Name: "in"})
	before := r.shared.attempts.created
	if a := bind(); !a.created.After(before) {
		t.Error("after the stream was recreated, its creation time is the former one")
	}
}
