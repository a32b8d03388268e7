package stream

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/stream/internal/needs"
)

// TestSilentServer: a server that keeps its connection open and sends nothing makes the pipeline unready; if another
// server is known, the client connects to that one.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	for _, others := range []bool{false, true} {
		s := newSite(t)
		log := &lines{}
		l := s.link()
		urls := l.url()
		if others {
			urls += "," + s.url()
		}
		nc := connect(t, urls, nats.DontRandomize(), nats.IgnoreDiscoveredServers())
		e, err := New(Options{Conn: nc, Pipelines: []Pipeline{answerer(t)}, Logger: slog.New(slog.NewTextHandler(log, nil)),
			Wait: ample})
		if err != nil {
			t.Fatal(err)
		}
		e.serverTimeout = 2 * time.Second // a busy server answers in the half of it
		s.run(e)
		s.send(20)
		s.acknowledged("p")
		l.hush.Store(true)
		if others {
			s.until("switching to another server", func() bool { return log.with("switching to another server") != nil })
		} else {
			s.awaitState(e, StateBlocked, false, "the server does not answer since", "partitioned from its cluster")
			time.Sleep(2 * e.serverTimeout)
			if n := nc.Stats().Reconnects; n > 0 || log.with("switching to another server") != nil {
				t.Errorf("the only server was left: %d reconnects", n)
			}
			l.hush.Store(false)
		}
		s.send(20)
		s.acknowledged("p")
		s.awaitState(e, StateReady, true)
		s.once(40)
	}
}

// flow is when data passed a link: the newest piece, and when the current sequence without a gap began.
type flow struct {
	mu           sync.Mutex
	since, until time.Time
}

// flowGap is a pause after which data does not flow: a busy machine causes some.
const flowGap = 200 * time.Millisecond

func (f *flow) came(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.Sub(f.until) > flowGap {
		f.since = at
	}
	f.until = at
}

// during reports whether data has flowed for the given time, up to now.
func (f *flow) during(d time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	return now.Sub(f.until) < flowGap && now.Sub(f.since) >= d
}

// TestSlowLinkIsNotSilent: over a slow link an answer waits behind other messages for longer than a server may be
// silent; while those arrive the connection is kept, whether the host counts bytes or the client counts messages.
func TestSlowLinkIsNotSilent(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"bytes": 900 << 10, "messages": 40 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.make(jetstream.StreamConfig{Name: "big", Storage: jetstream.MemoryStorage})
			const all = 1800 << 10 // two seconds of the link
			for range all / size {
				s.store("big.x", make([]byte, size))
			}
			var carried flow
			var bytes atomic.Uint64
			slow, err := carrier.New(fmt.Sprintf("127.0.0.1:%d", s.options.Port), nil, func(piece []byte) error {
				time.Sleep(time.Duration(len(piece)) * time.Second / (900 << 10))
				carried.came(time.Now())
				bytes.Add(uint64(len(piece)))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(slow.Close)
			nc := connect(t, "nats://"+slow.Address()+","+s.url(), nats.DontRandomize(), nats.IgnoreDiscoveredServers())
			t.Cleanup(nc.Close)
			p := answerer(t) // what it cannot read leaves as dead letters
			p.Stream, p.Subject = "big", "big.x"
			var wronged atomic.Bool
			o := Options{Conn: nc, Pipelines: []Pipeline{p}, Wait: ample}
			if size > 100<<10 {
				o.Received = bytes.Load
			}
			var patience time.Duration
			o.Leave = func() error {
				if carried.during(patience) {
					wronged.Store(true)
				}
				return nc.ForceReconnect()
			}
			e, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			e.serverTimeout = time.Second
			patience = e.serverTimeout
			s.run(e)
			s.until("all that there was is answered", func() bool {
				c, err := s.js.Consumer(s.Context(), "big", needs.ConsumerName("p", ""))
				return err == nil && c.CachedInfo().NumPending == 0 && c.CachedInfo().NumAckPending == 0
			})
			if wronged.Load() {
				t.Error("the server was left although data came from it all the time")
			}
		})
	}
}
