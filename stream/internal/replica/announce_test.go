package replica

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

// TestAnnouncedAtOnce: of versions that are announced at the same time one is read at a time, so that their announcer
// does not decide how much memory that takes.
func TestAnnouncedAtOnce(t *testing.T) {
	t.Parallel()
	nc := natstest.New(t).Connect()
	a := announcer{&scope.Scope{Pipeline: spec.Pipeline{Name: "p"}, Conn: nc, Receiver: natsx.NewReceiver(nc),
		Log: slog.New(slog.DiscardHandler), Instance: "this"}}
	var now, most, fetched atomic.Int32
	fetch := func(context.Context, string) error {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(20 * time.Millisecond)
		now.Add(-1)
		fetched.Add(1)
		return nil
	}
	var wg sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	a.prefetch(ctx, &wg, fetch)
	for i := range maxPrefetches {
		text := fmt.Appendf(nil, `{"version":"p-%d","from":"other"}`, i)
		if err := nc.PublishRequest(needs.StagedSubject("p"), nc.NewInbox(), text); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Await(t, "all are fetched", func() bool { return fetched.Load() == maxPrefetches })
	end()
	wg.Wait()
	if n := most.Load(); n != 1 {
		t.Errorf("%d versions were read at once", n)
	}
}
