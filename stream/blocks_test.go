package stream

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/registry"
)

// The messages and rows of the blocks of these tests.
const (
	sharedBlock  = 10
	sharedRows   = 10 // of a message
	sharedBlocks = 30
)

// sharing is replicas of one pipeline that learn from summaries, and what they promoted.
type sharing struct {
	*site
	replicas []*runner
	metrics  []*prometheus.Registry

	mu      sync.Mutex
	digests []string
}

// share starts replicas with these roles.
func (s *site) share(roles ...Role) *sharing {
	s.Helper()
	g := &sharing{site: s}
	for _, role := range roles {
		p := holdingPipeline()
		p.Role, p.Lease = role, longLease
		p.Stage.Training.Block, p.Stage.Training.Window.Rows = sharedBlock, 1500
		p.Stage.Training.Gate.MoreRows = 1.15 // the rows of a message are alike, and count as few
		p.Stage.Observe = func(o plugin.Outcome) {
			if o.Promoted {
				g.mu.Lock()
				g.digests = append(g.digests, o.Live.Model.Digest())
				g.mu.Unlock()
			}
		}
		metrics := prometheus.NewRegistry()
		e, err := New(Options{Conn: s.dial().Conn(), Pipelines: []Pipeline{p}, Logger: s.log, Registerer: metrics,
			Wait: ample})
		if err != nil {
			s.Fatal(err)
		}
		e.claimTTL = 5 * time.Second
		g.replicas, g.metrics = append(g.replicas, s.run(e)), append(g.metrics, metrics)
	}
	return g
}

// blockAt is a block of the input of a pipeline.
func blockAt(p *pipeline, n uint64) stage.Block {
	return stage.Block{Created: p.Created, First: n*sharedBlock + 1, Last: (n + 1) * sharedBlock}
}

// learned waits until the trainer has processed the given number of blocks, and returns what was promoted until then.
func (g *sharing) learned(blocks int) []string {
	g.Helper()
	progress := ""
	g.eventually(func() any { return fmt.Sprintf("%d blocks are learned; %s", blocks, progress) }, func() bool {
		progress = ""
		for _, r := range holders(g.replicas) {
			s := r.Status()[0].Stage
			progress += fmt.Sprintf("%d rows were seen, %d wait; %s; ", s.Received, s.Backlog, r.running[0].progress())
			if s.Received == blocks*sharedBlock*sharedRows && s.Backlog == 0 && !s.Fitting {
				return true
			}
		}
		return false
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.digests)
}

// counted is the number of summaries of all replicas with the given result.
func (g *sharing) counted(result string) (n float64) {
	g.Helper()
	for _, m := range g.metrics {
		families, err := m.Gather()
		if err != nil {
			g.Fatal(err)
		}
		for _, f := range families {
			for _, one := range f.GetMetric() {
				if f.GetName() == "embedd_summaries_total" && one.GetLabel()[1].GetValue() == result {
					n += one.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

func (g *sharing) end() {
	for _, r := range g.replicas {
		r.end()
	}
}

// forget removes all streams and buckets of embedd, so that the next replicas start again on the same stream.
func (s *site) forget() {
	s.Helper()
	for _, name := range append(registry.Streams(), lease.Stream, summaries.Stream) {
		if err := s.js.DeleteStream(s.Context(), name); err != nil {
			s.Fatal(err)
		}
	}
}

// collection is the collection that has the summaries of the pipeline, with its settings.
func (s *site) collection(settings string) *summaries.Collection {
	s.Helper()
	b, err := summaries.Open(s.Context(), s.js, 1)
	if err != nil {
		s.Fatal(err)
	}
	in, err := s.js.Stream(s.Context(), "in")
	if err != nil {
		s.Fatal(err)
	}
	return b.Collection("p", settings, in.CachedInfo().Created)
}

// crashed claims a block as replicas that crashed while they summed it leave it.
func (s *site) crashed(p *pipeline, block uint64, attempts int) {
	s.Helper()
	key := fmt.Sprintf("$KV.%s.p.%s.%s.%d.claim", summaries.BucketName, p.Running.Settings(),
		strconv.FormatInt(p.Created.UnixNano(), 36), block)
	if _, err := s.js.Publish(s.Context(), key, fmt.Appendf(nil, `{"owner":"dead","attempts":%d}`, attempts)); err != nil {
		s.Fatal(err)
	}
}

// TestSharedStatistics: four replicas that share the blocks of a stream train the same models as one replica alone,
// although some of the blocks were claimed by a replica that was killed, some had been stored before, and some of those
// were damaged or had other settings, which are made again and counted.
func TestSharedStatistics(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for n := range sharedBlocks*sharedBlock + 3 { // the last three are no block yet
		s.store("in.x", numbered(n+1, sharedRows-1))
	}
	alone := s.share(RoleAll)
	want := alone.learned(sharedBlocks)
	if len(want) < 2 || alone.counted("stored") < sharedBlocks || alone.counted("recomputed") > 0 {
		t.Fatalf("alone: %d models, %g blocks summed up, %g recomputed", len(want), alone.counted("stored"),
			alone.counted("recomputed"))
	}
	p := alone.replicas[0].running[0]
	settings := p.Running.Settings()
	before := s.collection(settings)
	text, err := before.Get(t.Context(), 20, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	p.Stage.Training.Holdout = 0.4
	other, err := stage.New(p.Stage)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	of, err := other.SummaryBuilder(blockAt(p, 7), p.Running.Features())
	if err != nil {
		t.Fatal(err)
	}
	otherSettings, err := of.Bytes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	alone.end()
	s.acknowledged("p")
	s.forget()

	collection := s.collection(settings)
	for _, n := range []uint64{2, 11, 19} {
		s.crashed(p, n, 1)
	}
	damaged := slices.Clone(text)
	damaged[len(damaged)/2]++
	for n, text := range map[uint64][]byte{4: []byte("no summary"), 7: otherSettings, 20: damaged, 21: text} {
		if first, err := collection.Put(t.Context(), n, text); err != nil || !first {
			t.Fatal(first, err)
		}
	}
	many := s.share(RoleAll, RoleTransform, RoleTransform, RoleTrain)
	if got := many.learned(sharedBlocks); !slices.Equal(got, want) {
		t.Errorf("together they promoted %v, one alone %v", got, want)
	}
	if n := many.counted("recomputed"); n != 4 {
		t.Errorf("%g summaries were made again, and four could not be used", n)
	}
	// A summary that is made again is identical and is not stored again.
	q := many.replicas[1].running[0]
	for _, n := range []uint64{20, 25} {
		stored, err := collection.Get(t.Context(), n, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := q.Running.SummaryBuilder(blockAt(q, n), q.Running.Features())
		if err == nil {
			err = q.training.ReadBlock(t.Context(), blockAt(q, n), func(in *scope.Message) {
				sum.Add(plugin.Position{Created: q.Created, Seq: in.Origin.Seq, Time: in.Time}, in.Data)
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := sum.Bytes(t.Context())
		if err != nil || !bytes.Equal(again, stored) {
			t.Errorf("block %d made again has other bytes: %v", n, err)
		}
		if first, err := collection.Put(t.Context(), n, again); first || err != nil {
			t.Errorf("block %d is stored twice: %v", n, err)
		}
	}
	// What the window does not need any more has gone.
	s.until("old summaries are gone", func() bool {
		old, err := collection.Has(t.Context(), 0)
		return err == nil && !old
	})
	if there, err := collection.Has(t.Context(), sharedBlocks-1); err != nil || !there {
		t.Errorf("the newest summary is not there: %v", err)
	}
	s.acknowledged("p")
	s.once(sharedBlocks*sharedBlock + 3)
}

// TestAwaitedSummaries: before a first model the status reports what training waits for.
func TestAwaitedSummaries(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for n := range sharedBlock + 3 {
		s.store("in.x", numbered(n+1, 0)) // too few rows for a model
	}
	p := blockPipeline()
	p.Stage.Spec.Sizes = map[string]int{"x": 4}
	r := s.replica(p)
	s.until("it waits for the end of the second block", func() bool {
		all := r.Status()
		return len(all) == 1 && strings.Contains(all[0].Reason,
			"learning waits until message 20 is stored, the last of the next block (training.block is 10)")
	})
}

// TestBlocksHaveTheStoredSchema: no block is summarised before the schema is stored, whatever the first message has.
// Then all blocks are summarised from the first on, without the messages that do not fit.
func TestBlocksHaveTheStoredSchema(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.store("in.x", arrowRows(1, 0, 2))
	for n := 2; n <= 2*sharedBlock+3; n++ {
		s.store("in.x", numbered(n, 0)) // too few rows for a model
	}
	g := s.share(RoleAll, RoleTransform)
	s.until("the messages are counted", func() bool {
		for _, r := range g.replicas {
			all := r.Status()
			if len(all) == 1 && len(all[0].Stage.Candidates) == 2 && all[0].Stage.Candidates[0].Messages == 2*sharedBlock+2 {
				return true
			}
		}
		return false
	})
	time.Sleep(time.Second) // replicas look for blocks three times a second
	progress, err := s.collection(g.replicas[0].running[0].Running.Settings()).Progress(t.Context())
	if progress != nil || err != nil || g.counted("stored") != 0 {
		t.Errorf("while messages are counted the progress is %+v, %v, and %g blocks are summed", progress, err,
			g.counted("stored"))
	}
	for n := 2*sharedBlock + 4; n <= 6*sharedBlock; n++ {
		s.store("in.x", numbered(n, sharedRows-1))
	}
	s.until("all blocks are learned", func() bool {
		for _, r := range holders(g.replicas) {
			live, seen := r.Status()[0].Stage.Live, r.Status()[0].Stage.Received
			return live != nil && live.Model.M() == 4 && seen == 2*sharedBlock+2+(4*sharedBlock-3)*sharedRows
		}
		return false
	})
	if n := dropped(t, g.metrics...); n != 1 {
		t.Errorf("%g messages are counted as not learned, of one", n)
	}
}

// TestDeletedSummaries: after the bucket of the summaries was deleted, or the progress of the trainer was overwritten,
// the blocks that follow are summarised and learned.
func TestDeletedSummaries(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.share(RoleAll, RoleTransform)
	for n := range 3 * sharedBlock {
		s.store("in.x", numbered(n+1, sharedRows-1))
	}
	g.learned(3)
	if err := s.js.DeleteStream(t.Context(), summaries.Stream); err != nil {
		t.Fatal(err)
	}
	for n := range 2 * sharedBlock {
		s.store("in.x", numbered(3*sharedBlock+n+1, sharedRows-1))
	}
	g.learned(5)
	collection := s.collection(g.replicas[0].running[0].Running.Settings())
	wrong := summaries.Progress{From: math.MaxUint64, Next: math.MaxUint64}
	if err := collection.SetProgress(t.Context(), wrong); err != nil {
		t.Fatal(err)
	}
	for n := range 2 * sharedBlock {
		s.store("in.x", numbered(5*sharedBlock+n+1, sharedRows-1))
	}
	g.learned(7)
}

// TestDeadlyBlock: after three replicas have crashed on a block, it crashes no fourth. Nothing is learned from it, its
// messages are counted, and training continues behind it.
func TestDeadlyBlock(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.share(RoleTransform)
	s.until("the replica is open", func() bool { return len(first.replicas[0].Status()) == 1 })
	p := first.replicas[0].running[0]
	collection := s.collection(p.Running.Settings())
	s.crashed(p, 1, 3)
	for n := range 5 * sharedBlock {
		s.store("in.x", numbered(n+1, sharedRows-1))
	}
	g := s.share(RoleAll)
	g.replicas, g.metrics = append(g.replicas, first.replicas...), append(g.metrics, first.metrics...)
	if got := g.learned(4); len(got) == 0 {
		t.Error("no model was learned behind the block")
	}
	text, err := collection.Get(t.Context(), 1, 1<<30)
	if err != nil || !bytes.Contains(text, []byte(`"unread":10`)) {
		t.Errorf("the summary of the block: %.300q %v", text, err)
	}
}

// TestSharedTakeover: when the trainer has ended, the standby continues in its epoch, from the existing summaries, and
// new blocks are summarised.
func TestSharedTakeover(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.share(RoleAll, RoleAll)
	s.until("one learns", func() bool { return len(holders(g.replicas)) == 1 })
	for n := range 12 * sharedBlock {
		s.store("in.x", numbered(n+1, sharedRows-1))
	}
	g.learned(12)
	holder := holders(g.replicas)[0]
	epoch := holder.Status()[0].Stage.Live.Epoch
	holder.end()
	g.replicas = slices.DeleteFunc(g.replicas, func(r *runner) bool { return r == holder })
	s.until("the other learns", func() bool { return len(holders(g.replicas)) == 1 })
	for n := range 12 * sharedBlock {
		s.store("in.x", numbered(12*sharedBlock+n+1, sharedRows-1))
	}
	g.learned(24)
	if live := g.replicas[0].Status()[0].Stage.Live; live.Epoch != epoch {
		t.Errorf("after a takeover the epoch is %d, before it was %d: it started again", live.Epoch, epoch)
	}
	collection := s.collection(g.replicas[0].running[0].Running.Settings())
	s.until("old summaries are gone, and newer ones are there", func() bool {
		old, err := collection.Has(t.Context(), 0)
		fresh, errToo := collection.Has(t.Context(), 23)
		return err == nil && errToo == nil && !old && fresh
	})
	s.acknowledged("p")
	s.once(24 * sharedBlock)
}

// asked subscribes to a subject and returns a function that counts the requests.
func (s *site) asked(subject string) func() int {
	s.Helper()
	nc := s.dial().Conn()
	sub, err := nc.SubscribeSync(subject)
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		s.Fatal(err)
	}
	return func() int {
		s.Helper()
		if err := nc.Flush(); err != nil {
			s.Fatal(err)
		}
		n, _, err := sub.Pending()
		if err != nil {
			s.Fatal(err)
		}
		return n
	}
}

// dropped is how many messages are counted as not learned from.
func dropped(t *testing.T, metrics ...*prometheus.Registry) (n float64) {
	t.Helper()
	for _, m := range metrics {
		families, err := m.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, one := range f.GetMetric() {
				if f.GetName() == "embedd_dropped_messages_total" {
					n += one.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// TestLateStream: if the first message of a stream has a high sequence number, the numbers before it are neither
// removed block by block nor counted.
func TestLateStream(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.again(jetstream.StreamConfig{FirstSeq: 2000*sharedBlock + 1})
	for n := range 3 * sharedBlock {
		s.store("in.x", numbered(n+1, sharedRows-1))
	}
	purges := s.asked("$JS.API.STREAM.PURGE." + summaries.Stream)
	g := s.share(RoleAll)
	g.learned(3)
	s.until("old summaries are removed", func() bool { return purges() > 0 })
	if n := purges(); n > 500 {
		t.Errorf("%d purges for 3 blocks", n)
	}
	if n := dropped(t, g.metrics...); n != 0 {
		t.Errorf("%g messages are counted as dropped, and all are learned", n)
	}
}
