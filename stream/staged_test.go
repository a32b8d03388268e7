package stream

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/registry"
)

// epochs are the epochs of the outputs in stored order, from the n-th output on.
func (s *site) epochs(n int) (out []string) {
	s.Helper()
	s.each("out", func(msg jetstream.Msg) { // with a request for each message of it the test would take minutes
		if msg.Subject() == "out.x" {
			out = append(out, msg.Headers().Get(wire.HeaderEpoch))
		}
	})
	return out[n:]
}

// TestStaged: four replicas; a version is fetched by the others before the pointer moves to it, and once they have
// followed a change of the epoch, no output has the epoch before.
func TestStaged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	log := &lines{}
	s.log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var replicas []*runner
	for i := range 4 {
		p := holdingPipeline()
		p.Lease = longLease
		if i == 3 {
			p.Role = RoleTransform
		}
		replicas = append(replicas, s.replica(p))
		s.until("it is open", func() bool { return len(replicas[i].Status()) > 0 })
	}
	s.send(300)
	same := func(version string) func() bool {
		return func() bool {
			for _, r := range replicas {
				if v := r.live(); v == "" || version != "" && v != version {
					return false
				}
			}
			return true
		}
	}
	s.until("all answer", same(""))
	s.until("a version was staged", func() bool { // the first may have no time for it on a busy machine
		s.send(1)
		return len(log.with("all replicas have fetched a version")) > 0
	})
	// The model of a new epoch, and back and forth between the two.
	store, err := registry.JetStream(t.Context(), s.js)
	if err != nil {
		t.Fatal(err)
	}
	other := registry.New(store, "p", registry.Options{})
	s.acknowledged("p")
	var first, second string
	s.until("a model of a new epoch is stored", func() bool { // unless what was live is another meanwhile
		p, err := other.Pointer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first = p.Live
		m, err := other.Model(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		second, err = other.Save(t.Context(), &plugin.Release{Model: m, Epoch: 7, NewEpoch: true, Parent: first,
			Score: math.NaN(), LiveScore: math.NaN()})
		return err == nil
	})
	epochs := map[string]string{first: "1", second: "7"}
	changes := 0
	for round := range 6 {
		version := []string{second, first}[round%2]
		if _, err := other.Pin(t.Context(), registry.Request{Version: version}); err != nil {
			t.Fatal(err)
		}
		s.send(40) // while they follow
		s.until("all follow", same(version))
		s.acknowledged("p")
		before := len(s.epochs(0))
		s.send(40)
		s.acknowledged("p")
		for i, e := range s.epochs(before) {
			if e != epochs[version] {
				t.Fatalf("round %d: output %d after all have followed is of epoch %s, want %s", round, i, e, epochs[version])
			}
		}
	}
	last := ""
	for _, e := range s.epochs(0) {
		if e != last && last != "" {
			changes++
		}
		last = e
	}
	t.Logf("%d changes of the epoch in the outputs for 6 of the pointer", changes)
	s.once(s.sent)
}

// TestOutdated: a replica that does not know which model is live stops answering, reports it, releases its messages,
// and continues once it knows.
func TestOutdated(t *testing.T) {
	t.Parallel()
	s := &site{T: t, options: server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: t.TempDir(), NoAuthUser: "test", Users: users(nil), AuthTimeout: ample.Seconds()}}
	s.begin()
	for _, name := range []string{"in", "out"} {
		s.make(jetstream.StreamConfig{Name: name})
	}
	p := holdingPipeline()
	p.Role, p.Lease, p.ModelSyncTimeout = RoleAll, lease.MinTTL, 2*time.Second
	nc := connect(t, s.server.ClientURL(), nats.UserInfo("embedd", "secret"))
	e, err := New(Options{Conn: nc, Pipelines: []Pipeline{p}, Wait: ample})
	if err != nil {
		t.Fatal(err)
	}
	one := s.run(e)
	s.send(300)
	s.until("it answers", func() bool { return one.live() != "" })
	s.acknowledged("p")
	s.once(300)
	s.grant(denied("$JS.API.STREAM.INFO.KV_EMBEDD_MODELS", "$JS.API.STREAM.MSG.GET.KV_EMBEDD_MODELS"))
	s.awaitState(e, StateBlocked, false, "the model store has not confirmed since", "nats.model_sync_timeout is 2s")
	s.send(50)
	time.Sleep(time.Second)
	if n := len(s.sources()); n > 300 {
		t.Errorf("%d inputs were answered with a model that may be out of date", n-300)
	}
	s.grant(nil)
	s.acknowledged("p")
	s.once(350)
	s.awaitState(e, StateReady, true)
}

// TestIncompatibleLiveModel: a replica without a model that cannot use the live one does what until_ready specifies,
// indefinitely: it knows which model is live.
func TestIncompatibleLiveModel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := holdingPipeline()
	one := s.replica(p)
	s.send(300)
	s.until("a model is live", func() bool { return one.live() != "" })
	s.acknowledged("p")
	one.end()
	p.Role, p.Stage.Spec.Features, p.Stage.Until = RoleTransform, []string{"y"}, plugin.UntilSkip
	p.ModelSyncTimeout = time.Second
	begun := time.Now()
	otherFeatures := s.replica(p)
	s.until("it reports that no model answers", func() bool {
		all := otherFeatures.Status()
		return len(all) == 1 && strings.Contains(all[0].Store, "cannot go live, and no model answers here")
	})
	time.Sleep(2*p.ModelSyncTimeout - time.Since(begun))
	s.send(50)
	s.acknowledged("p")
	s.until("it is not blocked", func() bool { return otherFeatures.Status()[0].State != StateBlocked })
}
