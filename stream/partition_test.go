package stream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/registry"
)

// TestPartitionsAreShared: a replica that joins gets its share of the partitions, one that leaves releases its own, and
// no message is delivered twice because of it.
func TestPartitionsAreShared(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 8)
	p := keyed()
	p.Stage.Fixed = fixed(t)
	held := func(replicas ...*runner) func() bool {
		return func() bool {
			sum := 0
			for _, r := range replicas {
				all := r.Status()
				if len(all) == 0 {
					return false
				}
				n := *all[0].Partitions
				if sum += n; n < 8/len(replicas) || n > 8/len(replicas)+1 {
					return false
				}
			}
			return sum == 9 // with what the stream has without a partition
		}
	}
	first := f.replica(p)
	f.until("the first holds all", held(first))
	f.publish(50, 20)
	second := f.replica(p)
	f.publish(50, 20)
	f.until("each holds its share", held(first, second))
	f.publish(50, 20)
	first.end()
	f.publish(50, 20)
	f.until("the second holds all", held(second))
	f.answered()
	if o := f.order(); o.lost+o.twice+o.late+o.marked > 0 {
		t.Errorf("%+v", o)
	}
	f.until("all is counted as answered", func() bool {
		s := second.Status()[0]
		return s.LagKnown && s.Lag == 0 && s.Ready
	})
}

// TestHandOverReadsNoOutputs: an owner of a partition that ends cleanly tells the next one up to where inputs may be
// answered, so that this one does not read the outputs.
func TestHandOverReadsNoOutputs(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	p := keyed()
	p.Partitions, p.Stage.Fixed = 2, fixed(t)
	owned := func(r *runner, n int) func() bool {
		return func() bool { all := r.Status(); return len(all) > 0 && *all[0].Partitions == n }
	}
	acknowledged := func() bool {
		for _, q := range needs.Partitions(&p) {
			c, err := f.js.Consumer(t.Context(), "in", q.ConsumerName(needs.ConsumerName("p", "")))
			if err != nil || c.CachedInfo().NumAckPending > 0 || c.CachedInfo().NumPending > 0 {
				return false
			}
		}
		return true
	}
	first := f.replica(p)
	f.publish(50, 20)
	f.answered()
	f.until("all is acknowledged", acknowledged)
	reads, err := f.js.Conn().SubscribeSync("$JS.API.CONSUMER.CREATE.out.>")
	if err != nil {
		t.Fatal(err)
	}
	first.end()
	second := f.replica(p)
	f.publish(50, 20)
	f.until("the second owns all", owned(second, 3))
	f.answered()
	// Those of both subjects, for the messages without a partition: the first owned their consumer before there were any.
	if n, _, _ := reads.Pending(); n > 2 {
		t.Errorf("the outputs were read %d times", n)
	}
}

// TestPartitionsOfAnExistingStream: what was stored before a stream had partitions, or while it had another number of
// them, is answered before what came after.
func TestPartitionsOfAnExistingStream(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	p := keyed()
	p.Stage.Fixed = fixed(t)
	run := func(partitions int) *runner {
		p.Partitions = partitions
		return f.replica(p)
	}
	f.publish(100, 10)
	before := run(0)
	f.answered()
	before.end()
	f.publish(100, 10) // no replica answers those
	f.transform(needs.PartitionTransform("in.*", 8))
	f.publish(100, 10)
	eight := run(8)
	f.answered()
	eight.end()
	f.publish(100, 10)
	f.transform(needs.PartitionTransform("in.*", 4))
	f.publish(100, 10)
	run(4)
	f.answered()
	if o := f.order(); o.lost+o.twice+o.late+o.marked > 0 {
		t.Errorf("%+v", o)
	}
}

// TestPartitionsAfterConsumerRecreated: if a user recreates the consumer of a stream that got partitions later, the
// messages from before are not read again from the first on.
func TestPartitionsAfterConsumerRecreated(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	f.publish(10, 2)
	f.transform(needs.PartitionTransform("in.*", 2))
	p := keyed()
	p.Partitions, p.Stage.Fixed = 2, fixed(t)
	bookmarked := func() (at struct{ Floor uint64 }) {
		if err := lease.Load(t.Context(), f.seats(), needs.Partition{}.BookmarkKey("p"), &at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	for bookmarked().Floor < 10 { // one reads them, the next finds that they are acknowledged
		r := f.replica(p)
		f.answered()
		f.until("all is held and acknowledged", func() bool {
			all := r.Status()
			c, err := f.js.Consumer(t.Context(), "in", needs.ConsumerName("p", ""))
			return len(all) > 0 && *all[0].Partitions == 3 && err == nil && c.CachedInfo().AckFloor.Stream == 10
		})
		r.end()
	}
	if err := f.js.DeleteConsumer(t.Context(), "in", needs.ConsumerName("p", "")); err != nil {
		t.Fatal(err)
	}
	f.replica(p)
	f.until("the consumer begins after it", func() bool {
		c, err := f.js.Consumer(t.Context(), "in", needs.ConsumerName("p", ""))
		return err == nil && c.CachedInfo().Config.OptStartSeq == 11
	})
	if at := bookmarked(); at.Floor != 10 {
		t.Errorf("the bookmark went back to %d", at.Floor)
	}
}

// TestPartitionsOfAnOlderCopy: a bookmark from before an older copy of the stream was restored leaves out no new
// message.
func TestPartitionsOfAnOlderCopy(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	p := keyed()
	p.Partitions, p.Stage.Fixed = 2, fixed(t)
	in, err := f.js.Stream(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]any{"created": in.CachedInfo().Created, "floor": 100, "up_to": 100, "newest": 100}
	for _, q := range needs.Partitions(&p) {
		if err := f.seats().Save(t.Context(), q.BookmarkKey("p"), at); err != nil {
			t.Fatal(err)
		}
	}
	f.publish(10, 2)
	f.replica(p)
	f.answered()
}

// TestPausedPartition: a paused consumer of a partition is reported while no input arrives. It takes as long as the
// streams are inspected four times.
func TestPausedPartition(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	p := keyed()
	p.Partitions, p.Stage.Fixed = 2, fixed(t)
	first := f.replica(p)
	f.publish(10, 2)
	f.answered()
	first.end()
	durable := needs.Partitions(&p)[1].ConsumerName(needs.ConsumerName("p", ""))
	if _, err := f.js.PauseConsumer(t.Context(), "in", durable, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	second := f.replica(p)
	isReported := func() bool {
		all := second.Status()
		return len(all) > 0 && !all[0].Ready && strings.Contains(all[0].Reason, durable+" of stream in is paused")
	}
	f.until("the paused consumer is reported", isReported)
	findings, err := admin.Diagnose(t.Context(), admin.Options{Conn: f.js.Conn(), Pipelines: []Pipeline{p}})
	if i := slices.IndexFunc(findings, func(f admin.Finding) bool { return f.Check == "consumer" }); err != nil || i < 0 ||
		findings[i].Level != admin.LevelFault || !strings.Contains(findings[i].Command, "nats consumer resume in "+durable) {
		t.Errorf("the doctor finds %+v, %v", findings, err)
	}
	for end := time.Now().Add(7 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if !isReported() {
			t.Fatalf("it is not reported any more: %s", second.Status()[0].Reason)
		}
	}
}

// TestPartitionsLearn: training reads all partitions, and its models answer.
func TestPartitionsLearn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 8)
	p := holdingPipeline()
	p.Subject, p.Partitions, p.Lease = "in.*", 8, fleetTTL
	first, second := f.replica(p), f.replica(p)
	f.publish(300, 20)
	f.answered()
	f.publish(100, 20)
	f.answered()
	f.until("both replicas answer with one model", func() bool {
		return first.live() != "" && first.live() == second.live()
	})
	f.until("all was learned", func() bool { return first.Status()[0].Stage.Rows+second.Status()[0].Stage.Rows >= 400 })
	if o := f.order(); o.lost+o.twice+o.late+o.marked > 0 {
		t.Errorf("%+v", o)
	}
}

// TestFullBuckets: replicas start, elect a trainer, share partitions and adopt its model while the streams of all
// buckets have as many consumers as they may have.
func TestFullBuckets(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	for _, open := range []func(context.Context, jetstream.JetStream, int) error{
		func(ctx context.Context, js jetstream.JetStream, n int) error {
			_, err := statestore.Open(ctx, js, n)
			return err
		},
		func(ctx context.Context, js jetstream.JetStream, n int) error {
			_, err := lease.Open(ctx, js, n)
			return err
		},
		func(ctx context.Context, js jetstream.JetStream, _ int) error {
			_, err := registry.CreateReplicated(ctx, js, 1)
			return err
		}} {
		if err := open(t.Context(), f.js, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append(registry.Streams(), statestore.Stream, lease.Stream) {
		made, err := f.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		config := made.CachedInfo().Config
		if err := f.js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		config.MaxConsumers = 1
		s, err := f.js.CreateStream(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "other"}); err != nil {
			t.Fatal(err)
		}
	}
	p := holdingPipeline()
	p.Subject, p.Partitions, p.Lease = "in.*", 2, fleetTTL
	first, second := f.replica(p), f.replica(p)
	f.publish(300, 20)
	f.answered()
	f.until("both replicas answer with one model", func() bool {
		return first.live() != "" && first.live() == second.live()
	})
	f.until("both own partitions", func() bool {
		return *first.Status()[0].Partitions > 0 && *second.Status()[0].Partitions > 0
	})
	for _, r := range []*runner{first, second} { // the other one takes over
		if r.Status()[0].IsTrainer {
			r.end()
			break
		}
	}
	f.publish(50, 20)
	f.answered()
}

// TestPartitionsWithoutLeases: a replica that cannot store its session, as on a server with a full disk, owns no
// partition and is blocked, at the start and after the session has expired. It answers when the session is stored.
func TestPartitionsWithoutLeases(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	if _, err := lease.Open(t.Context(), f.js, 1); err != nil {
		t.Fatal(err)
	}
	accept := func(size int32) {
		t.Helper()
		s, err := f.js.Stream(t.Context(), lease.Stream)
		if err == nil {
			config := s.CachedInfo().Config
			config.MaxMsgSize = size
			_, err = f.js.UpdateStream(t.Context(), config)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p := keyed()
	p.Partitions, p.Stage.Fixed, p.Lease = 2, fixed(t), lease.MinTTL
	accept(1)
	r := f.replica(p)
	for range 2 {
		f.awaitState(r.Engine, StateBlocked, false, "no partition can be owned", lease.BucketName)
		accept(-1)
		f.publish(20, 5)
		f.answered()
		f.until("it is ready", func() bool { return r.Status()[0].Ready })
		accept(1)
	}
}

// TestPartitionsOfHaltedReplica: a halted replica releases its partitions to the others, and gets its share again
// after it continues.
func TestPartitionsOfHaltedReplica(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	p := keyed()
	p.Partitions, p.Stage.Fixed, p.Stop = 2, fixed(t), Stop{Bad: 3, Of: 5}
	first := f.replica(p)
	p.Stop = Stop{}
	holds := func(r *runner, least, most int) bool {
		all := r.Status()
		return len(all) > 0 && *all[0].Partitions >= least && *all[0].Partitions <= most
	}
	f.until("the first holds all", func() bool { return holds(first, 3, 3) })
	for range 3 {
		f.store("in.k", []byte("bad"))
	}
	for i := range 20 {
		f.store("in.k", numbered(i, 0))
	}
	f.until("it is halted, and holds none", func() bool { return first.Status()[0].Halted != "" && holds(first, 0, 0) })
	second := f.replica(p)
	f.until("the second answers all", func() bool { return f.state("out").Msgs == 23 && holds(second, 3, 3) })
	if _, err := f.js.Conn().RequestWithContext(t.Context(), ServiceSubject("p", "resume"), nil); err != nil {
		t.Fatal(err)
	}
	f.until("they share", func() bool { return holds(first, 1, 2) && holds(second, 1, 2) })
}

// TestPartitionsWithoutModel: a replica without a model that it can use (the store was emptied, or the live model
// has other features) has no partitions: the replicas with a model answer all. Once it has a model it gets its share.
func TestPartitionsWithoutModel(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	p := holdingPipeline()
	p.Subject, p.Partitions, p.Lease = "in.*", 2, fleetTTL
	first := f.replica(p)
	f.publish(300, 20)
	f.answered()
	other := p
	other.Role, other.Stage.Spec.Features = RoleTransform, []string{"y"}
	otherFeatures := f.replica(other)
	f.until("it is open", func() bool { return len(otherFeatures.Status()) == 1 })
	f.until("who has other features says so", func() bool {
		return strings.Contains(otherFeatures.Status()[0].Store, "cannot go live, and no model answers here: it has the "+
			"features x[0]") &&
			strings.HasSuffix(otherFeatures.Status()[0].Store, "restore schema.features")
	})
	stored := f.atHome()
	has, err := stored.Pin(t.Context(), registry.Request{}) // no other goes live
	if err != nil {
		t.Fatal(err)
	}
	f.until("it is pinned", func() bool { return first.Status()[0].Stage.Pinned })
	m, err := stored.Model(t.Context(), has.Live)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range registry.Streams() { // models first: of those that are there without a pointer one is made
		all, err := f.js.Stream(t.Context(), name)
		if err == nil {
			err = all.Purge(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p.Role = RoleTransform
	second := f.replica(p)
	f.until("it is open", func() bool { return len(second.Status()) == 1 })
	f.publish(100, 20)
	f.answered()
	for _, r := range []*runner{second, otherFeatures} {
		if s := r.Status()[0]; r.live() != "" || s.Ready || *s.Partitions > 0 {
			t.Errorf("without a model, %q, a replica is ready: %t, and holds %d", r.live(), s.Ready, *s.Partitions)
		}
	}
	release := &plugin.Release{Model: m, Epoch: has.Find(has.Live).Epoch}
	if _, err := stored.Save(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	f.until("they share", func() bool {
		return second.live() != "" && *first.Status()[0].Partitions > 0 && *second.Status()[0].Partitions > 0
	})
	f.publish(100, 20)
	f.answered()
	if o := f.order(); o.lost+o.twice+o.late+o.marked > 0 {
		t.Errorf("%+v", o)
	}
	if otherFeatures.live() != "" {
		t.Errorf("a replica of other features answers with %s", otherFeatures.live())
	}
}

// TestPartitionsWithinTheLimit: the pulls of all partitions together stay within the in-flight limit, whichever
// partition is filled first, and every message is answered.
func TestPartitionsWithinTheLimit(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	limit := func(n int64) {
		if _, err := f.js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"},
			MaxMsgs: n,
			Discard: jetstream.DiscardNew}); err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // nothing more leaves, so all that comes is held
	p := keyed()
	p.Partitions, p.Stage.Fixed, p.InFlight = 4, fixed(t), 10<<20
	p.AckWait = time.Minute // what is held is not delivered again
	r := f.replica(p)
	f.until("it holds all", func() bool { all := r.Status(); return len(all) > 0 && *all[0].Partitions == 5 })
	body := numbered(1, 5000)
	holds := func() (bytes int64) {
		for _, q := range needs.Partitions(&p) {
			if c, err := f.js.Consumer(t.Context(), "in", q.ConsumerName(needs.ConsumerName("p", ""))); err == nil {
				bytes += int64(c.CachedInfo().NumAckPending) * int64(len(body))
			}
		}
		return bytes
	}
	publish := func(key string, bytes int) {
		for range bytes / len(body) {
			f.keys = append(f.keys, key)
			f.store("in."+key, body)
		}
	}
	publish("k0", 14<<20)
	f.until("some is held", func() bool { return holds() > 0 }) // how much depends on how fast the machine is
	for i := range 30 {
		publish(fmt.Sprint("k", i), 1<<19)
	}
	most := int64(0)
	for range 10 {
		time.Sleep(50 * time.Millisecond)
		most = max(most, holds())
	}
	t.Logf("%d MiB of %d are held, of %d", most>>20, p.InFlight>>20, len(f.keys)*len(body)>>20)
	if most > p.InFlight {
		t.Errorf("%d bytes are held, and may be %d", most, p.InFlight)
	}
	limit(-1)
	f.answered()
	if o := f.order(); o.lost+o.twice+o.late+o.marked > 0 {
		t.Errorf("%+v", o)
	}
}

// TestImpossiblePartitions: setup, doctor and a start report what prevents partitions before anything runs, and the
// fix works.
func TestImpossiblePartitions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), ample) // else the client gives each request five seconds
	defer cancel()
	p := keyed()
	p.Stage.Fixed = fixed(t)
	for name, c := range map[string]struct {
		stream jetstream.StreamConfig
		says   string
		fix    *jetstream.SubjectTransformConfig
	}{
		"without a transform": {jetstream.StreamConfig{}, "does not map the keys of S1.* to 8 " +
			"partitions", needs.PartitionTransform("S1.*", 8)},
		"another number": {jetstream.StreamConfig{SubjectTransform: needs.PartitionTransform("S2.*", 4)},
			"maps S2.* to 4 partitions, and pipeline p has 8; set input.partitions: 4", needs.PartitionTransform("S2.*", 8)},
		"another transform": {jetstream.StreamConfig{SubjectTransform: &jetstream.SubjectTransformConfig{Source: "S3.a",
			Destination: "S3.b"}}, "give the pipeline a separate stream", nil},
		"a work queue": {jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy}, "limits retention", nil},
	} {
		at := map[string]string{"without a transform": "S1", "another number": "S2", "another transform": "S3",
			"a work queue": "S4"}[name]
		c.stream.Name = at
		s.make(c.stream)
		q := p
		q.Stream, q.Subject = at, at+".*"
		problem := func() (out string) {
			plans, err := admin.Setup(ctx, s.js, []Pipeline{q}, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range plans {
				out += one.Problem
			}
			return out
		}
		if text := problem(); !strings.Contains(text, c.says) {
			t.Errorf("%s: setup says %q", name, text)
		}
		e, err := New(Options{Conn: s.js.Conn(), Pipelines: []Pipeline{q}, Wait: ample})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Run(ctx); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: a start says %v", name, err)
		}
		s.until(name+": doctor says it", func() bool {
			found, err := admin.Diagnose(ctx, admin.Options{Conn: s.js.Conn(), Pipelines: []Pipeline{q}})
			return err == nil && slices.ContainsFunc(found, func(f admin.Finding) bool {
				return f.Check == "partitions" && f.Level == admin.LevelFault && strings.Contains(f.Text+f.Fix,
					strings.Split(c.says, ";")[0])
			})
		})
		if c.fix == nil {
			continue
		}
		if !strings.Contains(problem(), "--transform-destination='"+c.fix.Destination+"'") {
			t.Errorf("%s: setup does not say how: %s", name, problem())
		}
		c.stream.Subjects, c.stream.SubjectTransform = []string{at + ".>"}, c.fix
		if _, err := s.js.UpdateStream(ctx, c.stream); err != nil {
			t.Fatal(err)
		}
		if text := problem(); text != "" {
			t.Errorf("%s: after its fix setup reports %q", name, text)
		}
	}
}

// TestSetupMakesPartitions: setup creates a stream with partitions, and adds them to one that it created before, which
// continues to store what it stored for other pipelines.
func TestSetupMakesPartitions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), ample)
	defer cancel()
	plain := piped("a", "KEYS", "keys.*", "out.a")
	plain.Dead = "out.dead"
	other := plain
	other.Name, other.Subject, other.Output = "b", "others.*", "out.b"
	partitioned := plain
	partitioned.Partitions = 8
	for _, all := range [][]Pipeline{{plain, other}, {partitioned}, {partitioned}} {
		plans, err := admin.Setup(ctx, s.js, all, false)
		if err == nil && plans[0].Outdated && fmt.Sprint(plans[0].Subjects) != "[keys.* others.*]" {
			t.Errorf("setup is to let the stream take %v", plans[0].Subjects)
		}
		if err == nil {
			_, err = admin.Setup(ctx, s.js, all, true)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	made, err := s.js.Stream(ctx, "KEYS")
	if err != nil {
		t.Fatal(err)
	}
	if have := made.CachedInfo().Config.SubjectTransform; have == nil || *have != *needs.PartitionTransform("keys.*", 8) ||
		have.Destination != "keys.{{wildcard(1)}}.8.{{partition(8,1)}}" {
		t.Errorf("the stream has %+v", have)
	}
	if have := made.CachedInfo().Config.Subjects; fmt.Sprint(have) != "[keys.* others.*]" {
		t.Errorf("the stream takes %v", have)
	}
	n := 0
	for _, need := range needs.For(needs.Config{Pipelines: []Pipeline{partitioned}}) {
		if need.Kind == needs.Consumer {
			n++
		}
	}
	if n != 10 {
		t.Errorf("it has %d consumers; want 8, the rest, and one that learns", n)
	}
}
