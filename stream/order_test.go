package stream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/needs"
)

// order is what the outputs show about their order.
type order struct {
	lost, twice int
	late        int // outputs after a later one of their key, that are not marked
	marked      int // the same, of inputs that were delivered before
	again       int // outputs that are marked
}

func (f *fleet) order() (o order) {
	f.Helper()
	newest, seen := map[string]uint64{}, map[uint64]bool{}
	f.each("out", func(msg jetstream.Msg) {
		seq := inputSeq(msg)
		if seq == 0 || seq >= uint64(len(f.keys)) {
			f.Fatalf("an output of no input: %q", msg.Headers().Get(wire.HeaderSource))
		}
		if seen[seq] {
			o.twice++
			return
		}
		seen[seq] = true
		key, mark := f.keys[seq], msg.Headers().Get(wire.HeaderRedelivered) != ""
		if mark {
			o.again++
		}
		switch {
		case seq > newest[key]:
			newest[key] = seq
		case mark:
			o.marked++
		default:
			o.late++
		}
	})
	o.lost = len(f.keys) - 1 - len(seen)
	return o
}

// ordeal kills or stops a replica of a fleet in each round, and says what the outputs are like.
func (f *fleet) ordeal(replicas, rounds, keys, n int) order {
	f.Helper()
	for range replicas {
		f.join()
	}
	f.publish(n/2, keys)
	f.until("they answer", func() bool { return f.state("out").Msgs > 0 })
	for round := range rounds {
		begin := time.Now()
		f.publish(n/2, keys)
		if round%3 == 2 {
			f.stop(5 * fleetTTL / 2)
		} else {
			f.kill()
			f.join()
		}
		f.publish(n/2, keys)
		if testsize.Soak() {
			time.Sleep(time.Until(begin.Add(10 * time.Second)))
		}
	}
	f.answered()
	o := f.order()
	f.Logf("%d messages: %+v", len(f.keys)-1, o)
	return o
}

// TestOrderByKey: whichever replicas are killed or stopped, the outputs of a key come in the order of their inputs, and
// each once.
func TestOrderByKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 8)
	var o order
	if testsize.Soak() {
		o = f.ordeal(4, 12, 200, 1500)
	} else {
		o = f.ordeal(2, 1, 40, 300)
	}
	if o.lost+o.twice+o.late+o.marked > 0 {
		t.Error("outputs are lost, come twice or out of order")
	}
}

// TestOrderByKeyControl: without partitions outputs come out of order, so the test can detect it.
func TestOrderByKeyControl(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("a control of TestOrderByKey that depends on chance; EMBEDD_SOAK=1 runs it")
	}
	t.Parallel()
	if o := newFleet(t, 0).ordeal(4, 3, 200, 1500); o.late == 0 {
		t.Error("without partitions nothing came out of order: the test proves nothing")
	}
}

// TestMessageThatKillsInOrder has a message of which every replica dies that answers it: after some deaths it is a dead
// letter, and everything else is answered once and in order.
func TestMessageThatKillsInOrder(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.publish(20, 4)
	f.keys = append(f.keys, "k1")
	msg := nats.NewMsg("in.k1")
	msg.Data = numbered(21, 0)
	msg.Header.Set("X-Deadly", "yes")
	if _, err := f.js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	f.publish(20, 4)
	var mu sync.Mutex
	var dead chan struct{} // closed when the replica has ended
	l, err := carrier.New(strings.TrimPrefix(f.url(), "nats://"), func(piece []byte) error {
		if !bytes.Contains(piece, []byte("HPUB out.x")) || !bytes.Contains(piece, []byte("X-Deadly")) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		_ = f.running[0].Process.Kill()
		return errors.New("killed")
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f.through = "nats://" + l.Address()
	start := func() {
		mu.Lock()
		defer mu.Unlock()
		f.running = nil
		f.join()
		one, ended := f.running[0], make(chan struct{})
		dead = ended
		go func() {
			defer close(ended)
			_ = one.Wait()
		}()
	}
	t.Cleanup(func() { // who waits for it is the goroutine above, and not the fleet
		mu.Lock()
		_ = f.running[0].Process.Kill()
		f.running = nil
		mu.Unlock()
		<-dead
	})
	deaths := 0
	start()
	f.until("every input is answered", func() bool {
		select {
		case <-dead:
			deaths++
			start()
		default:
		}
		return f.state("out").Msgs == 41
	})
	letters := 0
	f.each("out", func(msg jetstream.Msg) {
		if msg.Headers().Get(wire.HeaderCode) == string(wire.ProcessDied) && msg.Headers().Get(wire.HeaderSource) == "in:21" {
			letters++
		}
	})
	t.Logf("%d deaths", deaths)
	if o := f.order(); letters != 1 || o.lost+o.twice+o.late+o.marked > 0 || deaths > 12 {
		t.Errorf("%d deaths, %d dead letters; %+v", deaths, letters, o)
	}
}

// TestOrderWhereOutputsAreRefused: the stream of the outputs refuses some and takes later ones; those of a key still
// come in order. Sent one after the other without a look at what became of the one before, they do not.
func TestOrderWhereOutputsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.mixed = true
	limit := func(n int64) {
		if _, err := f.js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"},
			MaxMsgs: n,
			Discard: jetstream.DiscardNew}); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	p := keyed()
	p.Partitions, p.Stage.Fixed = 2, fixed(t)
	f.publish(100, 3)
	f.replica(p)
	for n := int64(1); n < 100; n += 7 {
		limit(n)
		f.until("the stream is full", func() bool { return f.state("out").Msgs == uint64(n) })
	}
	limit(-1)
	f.answered()
	o := f.order()
	o.again = 0 // a busy machine may say too late that an input is still under way
	if o != (order{}) {
		t.Errorf("%+v", o)
	}
	f.bodies()
}

// TestOrderHalted: a replica that is halted has nothing under way, so it ends at once, though it pulled inputs, and
// leaves word that it did: it is not taken for one that died.
func TestOrderHalted(t *testing.T) {
	t.Parallel()
	for end := time.Now().Add(ample); !endsHalted(t); {
		if time.Now().After(end) {
			t.Fatal("the server does not store in time that the replica ended")
		}
	}
}

// endsHalted is TestOrderHalted. It reports whether the server stored the end of the replica in the time for it.
func endsHalted(t *testing.T) bool {
	t.Helper()
	f := newFleet(t, 2)
	log := &lines{}
	f.log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for range 3 {
		f.store("in.k", []byte("bad"))
	}
	for i := range 10 { // fewer than a slow machine may hold
		f.store("in.k", numbered(i, 0))
	}
	p := keyed()
	p.Partitions, p.Stage.Fixed, p.Stop = 2, fixed(t), Stop{Bad: 3, Of: 5}
	p.Lease = lease.DefaultTTL // a busy machine can renew it
	r := f.replica(p)
	var has needs.Partition
	f.until("it is halted, with inputs that it pulled", func() bool {
		all := r.Status()
		for _, q := range needs.Partitions(&p) {
			c, err := f.js.Consumer(t.Context(), "in", q.ConsumerName(needs.ConsumerName("p", "")))
			if err == nil && c.CachedInfo().NumAckPending > 0 {
				has = q
			}
		}
		return len(all) == 1 && all[0].Halted != "" && has.Of > 0
	})
	r.end() // it says so where inputs are not answered in time
	if late := log.with("the next owner of the partition counts this one as crashed"); len(late) > 0 {
		t.Logf("tried again: %q", late)
		return false
	}
	at := struct{ Holder string }{"none was loaded"}
	if err := lease.Load(t.Context(), f.seats(), has.BookmarkKey("p"), &at); err != nil || at.Holder != "" {
		t.Errorf("its end is taken for a death: %v %v", at, err)
	}
	p.Stop = Stop{}
	f.replica(p)
	f.until("the next answers", func() bool { return f.state("out").Msgs == 13 })
	f.each("out", func(msg jetstream.Msg) {
		if code := msg.Headers().Get(wire.HeaderCode); code == string(wire.ProcessDied) {
			t.Error("an input is a dead letter for it")
		}
	})
	return true
}

// seats are the leases of a site.
func (s *site) seats() *lease.Bucket {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), ample)
	defer cancel()
	b, err := lease.Open(ctx, s.js, 1)
	if err != nil {
		s.Fatal(err)
	}
	return b
}
