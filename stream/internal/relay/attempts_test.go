package relay

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/spec"
)

// loadAttempts returns the store of a replica, and its source after it has loaded what is stored about a consumer.
func loadAttempts(t *testing.T, s *natstest.Server, config jetstream.ConsumerConfig) (attemptStore, *source) {
	t.Helper()
	js, err := jetstream.New(s.Connect(), jetstream.WithDefaultTimeout(natstest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := statestore.Open(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	store := attemptStore{&scope.Scope{Pipeline: spec.Pipeline{Name: "p", Stream: "in"}, JS: js, State: bucket,
		Log: slog.New(slog.DiscardHandler)}}
	src := &source{durable: store.ConsumerName()}
	config.Durable = src.durable
	consumer, err := js.CreateOrUpdateConsumer(t.Context(), "in", config)
	if err != nil {
		t.Fatal(err)
	}
	input, err := js.Stream(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.load(t.Context(), src, input.CachedInfo().Created, consumer.CachedInfo()); err != nil {
		t.Fatal(err)
	}
	return store, src
}

// inputOf is an input of a source.
func inputOf(src *source, seq uint64) *input {
	return &input{Message: scope.Message{Origin: wire.Origin{Seq: seq}}, source: src}
}

// TestAttemptsOfTwoReplicas: two replicas store 100 attempts at the same time, and none is lost.
func TestAttemptsOfTwoReplicas(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Publish(nats.NewMsg("in.x"))
	var stores [2]attemptStore
	var sources [2]*source
	for i := range stores {
		stores[i], sources[i] = loadAttempts(t, s, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if _, err := stores[i%2].increment(t.Context(), inputOf(sources[i%2], 1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n, err := stores[0].increment(t.Context(), inputOf(sources[0], 1))
	if n != 2+100+1 || err != nil {
		t.Errorf("%d of 100 survive, %v", n-3, err)
	}
}
