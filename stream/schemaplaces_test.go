package stream_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/internal/needs"
)

// wantAll expects one answer for each input: what, except for some sequence numbers.
func wantAll(what string, n int, except map[int]string) map[int]string {
	want := map[int]string{}
	for seq := 1; seq <= n; seq++ {
		want[seq] = what
		if other, ok := except[seq]; ok {
			want[seq] = other
		}
	}
	return want
}

// TestPartitionedSchema: a pipeline with partitions follows a reset as any other, and doctor compares the messages that
// no partition's consumer has acknowledged.
func TestPartitionedSchema(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	p.Subject, p.Partitions = "inp.*", 4
	s.Stream(jetstream.StreamConfig{Name: "inp", SubjectTransform: needs.PartitionTransform("inp.*", 4)})
	s.Stream(jetstream.StreamConfig{Name: "outp"})
	sent := 0
	publish := func(names ...string) {
		t.Helper()
		for _, name := range names {
			body := shapeOf(t, name).write(t, drawRows(uint64(sent), 5, 4))
			s.Publish(&nats.Msg{Subject: fmt.Sprint("inp.k", sent%8), Data: body})
			sent++
		}
	}
	answered := func() map[int][]string {
		t.Helper()
		have := map[int][]string{}
		natstest.Await(t, "each input has an answer, and is acknowledged", func() bool {
			if have = outcomes(s, p); len(have) < sent {
				return false
			}
			f := schemaFinding(s, p)
			return strings.Contains(f.Text, "no message waits") && f.Level == admin.LevelOK
		})
		return have
	}
	replicas := []*replica{startReplica(t, s.Connect(), p), startReplica(t, s.Connect(), p)}
	publish(good(40)...)
	answered()
	for _, r := range replicas {
		natstest.Await(t, "both replicas have the model", func() bool { return r.live() != "" })
	}
	before := replicas[0].live()
	if after := resetSchema(s, p); after.After != 40 {
		t.Errorf("the reset stored %+v", after)
	}
	for _, r := range replicas {
		r.awaitReopened(before)
	}
	publish(append(append(good(1), longer(60)...), good(5)...)...)
	changed := map[int]string{41: string(wire.SchemaChanged)}
	for seq := 102; seq <= 106; seq++ {
		changed[seq] = string(wire.SchemaChanged)
	}
	wantOutcomes(t, answered(), wantAll("out", 106, changed))

	for _, r := range replicas {
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	publish(append(longer(2), good(5)...)...)
	if f := schemaFinding(s, p); f.Level != admin.LevelFault ||
		!strings.Contains(f.Text, "of the next 7 messages 5 with x[4], z; 2 with x[5], z: 5 do not fit") {
		t.Errorf("doctor finds %+v", f)
	}
}

// TestSchemaInACluster: while the server that leads the bucket of the schema is down, a replica that starts uses the
// stored schema, and a reset is stored once.
func TestSchemaInACluster(t *testing.T) {
	t.Parallel()
	servers := natstest.NewCluster(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	connect := func() *nats.Conn {
		nc, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
			nats.Timeout(natstest.Timeout))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	js, err := jetstream.New(connect(), jetstream.WithDefaultTimeout(natstest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	s := servers[0].For(t)
	s.JS = js // of a connection to any of the three
	p := contractPipeline("p")
	for _, name := range []string{"inp", "outp"} {
		s.Stream(jetstream.StreamConfig{Name: name, Replicas: 3, Storage: jetstream.MemoryStorage})
	}
	first := startReplica(t, connect(), p)
	publishShapes(s, p, good(30)...)
	awaitOutcomes(s, p, 30)

	state, err := js.Stream(t.Context(), "KV_EMBEDD_STATE")
	if err != nil {
		t.Fatal(err)
	}
	if n := state.CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("the bucket of the schema has %d replicas, want 3", n)
	}
	leader := state.CachedInfo().Cluster.Leader
	i := slices.IndexFunc(servers, func(s *natstest.Server) bool { return s.Options.ServerName == leader })
	servers[i].Stop()
	second := startReplica(t, connect(), p)
	publishShapes(s, p, append(longer(20), good(20)...)...)
	changed := map[int]string{}
	for seq := 31; seq <= 50; seq++ {
		changed[seq] = string(wire.SchemaChanged)
	}
	wantOutcomes(t, awaitOutcomes(s, p, 70), wantAll("out", 70, changed))
	if shown, err := admin.ReadSchema(t.Context(), js, p); err != nil || shown.Generation != 1 || shown.Elements != 5 {
		t.Errorf("the schema is %+v: %v", shown, err)
	}

	before := first.live()
	if after := resetSchema(s, p); after.Generation != 2 {
		t.Errorf("the reset stored %+v", after)
	}
	for _, r := range []*replica{first, second} {
		r.awaitReopened(before)
	}
	servers[i].Start()
	publishShapes(s, p, longer(30)...)
	wantOutcomes(t, awaitOutcomes(s, p, 100), wantAll("out", 100, changed))
}

// TestClockSetBack: a machine's clock that is set back by a day, or forward, while a replica runs and between two runs,
// changes neither the schema nor an answer.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	p.MaxAge = 72 * time.Hour
	makeStreams(s, p)
	var offset atomic.Int64
	start := func() *replica {
		r := newReplicaOf(t, stream.Options{Conn: s.Connect(), Pipelines: []stream.Pipeline{p},
			Clock: func() time.Time { return time.Now().Round(0).Add(time.Duration(offset.Load())) }})
		r.Start()
		return r
	}
	r := start()
	publishShapes(s, p, good(30)...)
	awaitOutcomes(s, p, 30)
	n, changed := 30, map[int]string{}
	step := func(hours time.Duration) {
		t.Helper()
		offset.Store(int64(hours * time.Hour))
		if m := r.pipeline().Report().Model; m == nil || m.AgeSeconds < 0 {
			t.Errorf("with the clock at %d hours the report has the model: %+v", hours, m)
		}
		publishShapes(s, p, append(longer(3), append(good(30), "integer labels")...)...)
		for seq := n + 1; seq <= n+3; seq++ {
			changed[seq] = string(wire.SchemaChanged)
		}
		n += 34
		wantOutcomes(t, awaitOutcomes(s, p, n), wantAll("out", n, changed))
		natstest.Await(t, "the replica is ready", func() bool { return r.pipeline().Ready })
	}
	step(-24)
	step(24)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	offset.Store(int64(-100 * time.Hour))
	r = start()
	step(-100)
	if shown, err := admin.ReadSchema(t.Context(), s.JS, p); err != nil || shown.Generation != 1 || shown.Elements != 5 {
		t.Errorf("the schema is %+v: %v", shown, err)
	}
}
