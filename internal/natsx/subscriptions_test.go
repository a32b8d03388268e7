package natsx

import (
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/natstest"
)

// TestCountSubscriptionsMemory: counting takes little memory, however many subscriptions a daemon with many pipelines
// wants.
func TestCountSubscriptionsMemory(t *testing.T) {
	const wanted, most = 1000, 16 << 20
	nc := natstest.New(t).Connect()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := CountSubscriptions(t.Context(), nc, wanted)
	runtime.ReadMemStats(&after)
	if n != wanted || err != nil {
		t.Fatalf("%d of %d subscriptions, %v", n, wanted, err)
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > most {
		t.Errorf("%d subscriptions took %d bytes, want %d at most", wanted, bytes, most)
	}
}

// TestCountSubscriptionsLate: refused subscriptions are counted although the client calls the handler of errors late.
func TestCountSubscriptionsLate(t *testing.T) {
	t.Parallel()
	const limit = 20
	nc := natstest.New(t, func(o *server.Options) { o.MaxSubs = limit }).Connect()
	nc.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) { time.Sleep(time.Second) })
	for range limit + 1 {
		sub, err := nc.SubscribeSync(nc.NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, err := CountSubscriptions(t.Context(), nc, 5); n != 0 || err != nil {
		t.Errorf("a connection with all %d subscriptions may have %d more, %v", limit, n, err)
	}
}
