package stream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/lease"
	"github.com/embedd/embedd/stream/registry"
)

// replicaVariable makes this program a replica: it holds the address of a server and the number of partitions.
const replicaVariable = "EMBEDD_PARTITION_REPLICA"

func TestMain(m *testing.M) {
	if how := os.Getenv(replicaVariable); how != "" {
		url, partitions, _ := strings.Cut(how, " ")
		if err := replicate(url, partitions); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// replicate runs a replica until the process is killed.
func replicate(url, partitions string) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.Timeout(ample))
	if err != nil {
		return err
	}
	p := keyed()
	p.Partitions, err = strconv.Atoi(partitions)
	if err != nil {
		return err
	}
	if p.Stage.Fixed, err = pair(context.Background()); err != nil {
		return err
	}
	e, err := New(Options{Conn: nc, Pipelines: []Pipeline{p}, Wait: ample})
	if err != nil {
		return err
	}
	return e.Run(context.Background())
}

// pair is a model of the numbered messages.
func pair(ctx context.Context) (*model.Model, error) {
	d := &model.Data{N: 40, M: 4, Classes: []string{"even", "odd"}, Features: []string{"x[0]", "x[1]", "x[2]", "x[3]"}}
	for i := range d.N {
		d.X = append(d.X, float64(i), float64(i%2*100), float64(i*31%17), float64(i*7%5))
		d.Y = append(d.Y, i%2)
	}
	return fit.Fit(ctx, d, fit.Config{Method: "pca", Dim: 2})
}

// keyed is a pipeline whose subject has a key.
func keyed() Pipeline {
	return Pipeline{Name: "p", Stream: "in", Subject: "in.*", Partitions: 8, Output: "out.x", Dead: "out.dead",
		Lease: lease.Shortest, AckWait: 2 * time.Second,
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}}}
}

// fleet are replicas, processes of their own, of a pipeline with keys.
type fleet struct {
	*site
	partitions int
	running    []*exec.Cmd
	through    string   // what carries the connections of those that join; "" for nothing
	keys       []string // of the messages, by their numbers
	random     *rand.Rand
}

func newFleet(t *testing.T, partitions int) *fleet {
	f := &fleet{site: newSite(t), partitions: partitions, keys: []string{""}, random: rand.New(rand.NewPCG(1, 2))}
	if partitions > 0 {
		f.transform(transform("in.*", partitions))
	}
	t.Cleanup(func() {
		for _, one := range f.running {
			_ = one.Process.Kill()
			_ = one.Wait()
		}
	})
	return f
}

func (s *site) transform(how *jetstream.SubjectTransformConfig) {
	s.Helper()
	if _, err := s.js.UpdateStream(s.Context(), jetstream.StreamConfig{Name: "in", Subjects: []string{"in.>"},
		SubjectTransform: how}); err != nil {
		s.Fatal(err)
	}
}

func (f *fleet) join() {
	f.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", replicaVariable, cmp.Or(f.through, f.url()), f.partitions))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.running = append(f.running, cmd)
}

// kill ends a replica without a word.
func (f *fleet) kill() {
	f.Helper()
	i := f.random.IntN(len(f.running))
	if err := f.running[i].Process.Kill(); err != nil {
		f.Fatal(err)
	}
	_ = f.running[i].Wait()
	f.running = slices.Delete(f.running, i, i+1)
}

// stop stops a replica for so long; it goes on as if nothing had been.
func (f *fleet) stop(d time.Duration) {
	f.Helper()
	one := f.running[f.random.IntN(len(f.running))]
	if err := one.Process.Signal(syscall.SIGSTOP); err != nil {
		f.Fatal(err)
	}
	time.AfterFunc(d, func() { _ = one.Process.Signal(syscall.SIGCONT) })
}

// publish stores so many messages of so many keys.
func (f *fleet) publish(n, keys int) {
	f.Helper()
	for range n {
		key := fmt.Sprintf("k%d", f.random.IntN(keys))
		f.keys = append(f.keys, key)
		f.store("in."+key, f.message(len(f.keys)-1))
	}
}

// order is what the outputs say of it.
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
		seq, _ := seqOf(msg.Headers().Get(wire.HeaderSource), "in")
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

// each reads a stream from end to end.
func (s *site) each(name string, take func(jetstream.Msg)) {
	s.Helper()
	n := s.state(name).Msgs
	c, err := s.js.OrderedConsumer(s.Context(), name, jetstream.OrderedConsumerConfig{})
	if err != nil {
		s.Fatal(err)
	}
	msgs, err := c.Messages()
	if err != nil {
		s.Fatal(err)
	}
	defer msgs.Stop()
	for range n {
		msg, err := msgs.Next()
		if err != nil {
			s.Fatal(err)
		}
		take(msg)
	}
}

// answered waits until every message has its output.
func (f *fleet) answered() {
	f.Helper()
	f.until("every input has an output", func() bool { return f.state("out").Msgs >= uint64(len(f.keys)-1) })
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
			f.stop(5 * lease.Shortest / 2)
		} else {
			f.kill()
			f.join()
		}
		f.publish(n/2, keys)
		if soak() {
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
	if soak() {
		o = f.ordeal(4, 12, 200, 1500)
	} else {
		o = f.ordeal(2, 1, 40, 300)
	}
	if o.lost+o.twice+o.late+o.marked > 0 {
		t.Error("outputs are lost, come twice or out of order")
	}
}

// TestOrderByKeyControl: without partitions outputs come out of order, so the test can tell.
func TestOrderByKeyControl(t *testing.T) {
	if !soak() {
		t.Skip("a control of TestOrderByKey that depends on chance; EMBEDD_SOAK=1 runs it")
	}
	t.Parallel()
	if o := newFleet(t, 0).ordeal(4, 3, 200, 1500); o.late == 0 {
		t.Error("without partitions nothing came out of order: the test cannot tell")
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

// TestOrderWhereOutputsAreRefused: the stream of the outputs refuses some and takes later ones; those of a key still come
// in order. Sent one after the other without a look at what became of the one before, they do not.
func TestOrderWhereOutputsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.mixed = true
	limit := func(n int64) {
		if _, err := f.js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"}, MaxMsgs: n,
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
	if o := f.order(); o != (order{}) {
		t.Errorf("%+v", o)
	}
	f.bodies()
}

// TestPartitionsAreShared: who joins gets its share, who leaves gives it back; nothing is delivered twice for it.
func TestPartitionsAreShared(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 8)
	p := keyed()
	p.Stage.Fixed = fixed(t)
	held := func(replicas ...*replica) func() bool {
		return func() bool {
			sum := 0
			for _, r := range replicas {
				all := r.Status()
				if len(all) == 0 {
					return false
				}
				n := *all[0].Held
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
	f.until("all is counted as answered", func() bool { s := second.Status()[0]; return s.Counted && s.Lag == 0 && s.Ready })
}

// TestPartitionsOfAnExistingStream: what was stored before a stream had partitions, or while it had another number of
// them, is answered before what came after.
func TestPartitionsOfAnExistingStream(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	p := keyed()
	p.Stage.Fixed = fixed(t)
	run := func(partitions int) *replica {
		p.Partitions = partitions
		return f.replica(p)
	}
	f.publish(100, 10)
	before := run(0)
	f.answered()
	before.end()
	f.publish(100, 10) // nobody answers those
	f.transform(transform("in.*", 8))
	f.publish(100, 10)
	eight := run(8)
	f.answered()
	eight.end()
	f.publish(100, 10)
	f.transform(transform("in.*", 4))
	f.publish(100, 10)
	run(4)
	f.answered()
	if o := f.order(); o.lost+o.twice+o.late+o.marked > 0 {
		t.Errorf("%+v", o)
	}
}

// TestPartitionsBeginAfterTheBookmark: what a stream had before its partitions is not read from the first message again
// where somebody made the consumer of it anew.
func TestPartitionsBeginAfterTheBookmark(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	f.publish(10, 2)
	f.transform(transform("in.*", 2))
	p := keyed()
	p.Partitions, p.Stage.Fixed = 2, fixed(t)
	bookmarked := func() (at bookmark) {
		text, err := f.seats().Left(t.Context(), partition{}.mark("p"))
		if err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal([]byte(text), &at)
		return at
	}
	for bookmarked().Floor < 10 { // one reads them, the next finds that they are acknowledged
		r := f.replica(p)
		f.answered()
		f.until("all is held and acknowledged", func() bool {
			all := r.Status()
			c, err := f.js.Consumer(t.Context(), "in", durable("p"))
			return len(all) > 0 && *all[0].Held == 3 && err == nil && c.CachedInfo().AckFloor.Stream == 10
		})
		r.end()
	}
	if err := f.js.DeleteConsumer(t.Context(), "in", durable("p")); err != nil {
		t.Fatal(err)
	}
	f.replica(p)
	f.until("the consumer begins after it", func() bool {
		c, err := f.js.Consumer(t.Context(), "in", durable("p"))
		return err == nil && c.CachedInfo().Config.OptStartSeq == 11
	})
	if at := bookmarked(); at.Floor != 10 {
		t.Errorf("the bookmark went back to %d", at.Floor)
	}
}

// TestPartitionsLearn: learning reads all partitions, and its models answer.
func TestPartitionsLearn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 8)
	p := apprentice()
	p.Subject, p.Partitions, p.Lease = "in.*", 8, lease.Shortest
	first, second := f.replica(p), f.replica(p)
	f.publish(300, 20)
	f.answered()
	f.publish(100, 20)
	f.answered()
	if v := first.live(); v == "" || v != second.live() {
		t.Errorf("the replicas answer with %q and %q", v, second.live())
	}
	f.until("all was learned", func() bool { return first.Status()[0].Stage.Rows+second.Status()[0].Stage.Rows >= 400 })
	if o := f.order(); o.lost+o.twice+o.late+o.marked > 0 {
		t.Errorf("%+v", o)
	}
}

// TestOrderHalted: a replica that is halted has nothing under way, so it ends at once, though it pulled inputs, and leaves
// word that it did: it is not taken for one that died.
func TestOrderHalted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	for range 3 {
		f.store("in.k", []byte("bad"))
	}
	for i := range 10 { // fewer than a slow machine may hold
		f.store("in.k", numbered(i, 0))
	}
	p := keyed()
	p.Partitions, p.Stage.Fixed, p.Stop = 2, fixed(t), Stop{Bad: 3, Of: 5}
	r := f.replica(p)
	var has partition
	f.until("it is halted, with inputs that it pulled", func() bool {
		all := r.Status()
		for _, q := range p.partitions() {
			c, err := f.js.Consumer(t.Context(), "in", q.durable("p"))
			if err == nil && c.CachedInfo().NumAckPending == 10 {
				has = q
			}
		}
		return len(all) == 1 && all[0].Halted != "" && has.of > 0
	})
	r.end() // it says so where inputs are not answered in time
	text, err := f.seats().Left(t.Context(), has.mark("p"))
	if err != nil {
		t.Fatal(err)
	}
	var at bookmark
	if err := json.Unmarshal([]byte(text), &at); err != nil || at.Holder != "" {
		t.Errorf("its end is taken for a death: %s %v", text, err)
	}
	p.Stop = Stop{}
	f.replica(p)
	f.until("the next answers", func() bool { return f.state("out").Msgs == 13 })
	f.each("out", func(msg jetstream.Msg) {
		if code := msg.Headers().Get(wire.HeaderCode); code == string(wire.ProcessDied) {
			t.Error("an input is a dead letter for it")
		}
	})
}

// TestPartitionsOfWhoMayNotAnswer: a replica that is halted gives its partitions to those that are not, and gets its share
// again once it goes on.
func TestPartitionsOfWhoMayNotAnswer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	p := keyed()
	p.Partitions, p.Stage.Fixed, p.Stop = 2, fixed(t), Stop{Bad: 3, Of: 5}
	first := f.replica(p)
	p.Stop = Stop{}
	holds := func(r *replica, least, most int) bool {
		all := r.Status()
		return len(all) > 0 && *all[0].Held >= least && *all[0].Held <= most
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
	first.mu.Lock()
	one := first.running[0]
	first.mu.Unlock()
	one.unhalt()
	f.until("they share", func() bool { return holds(first, 1, 2) && holds(second, 1, 2) })
}

// TestPartitionsOfWhoHasNoModel: a replica that finds no model it could answer with (the store was emptied, or what is
// there is of other features) has no partitions: those that have one answer all. With a model it gets its share.
func TestPartitionsOfWhoHasNoModel(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	p := apprentice()
	p.Subject, p.Partitions, p.Lease = "in.*", 2, lease.Shortest
	first := f.replica(p)
	f.publish(300, 20)
	f.answered()
	other := p
	other.Role, other.Stage.Spec.Features = RoleTransform, []string{"y"}
	stranger := f.replica(other)
	f.until("it is open", func() bool { return len(stranger.Status()) == 1 })
	f.until("who has other features says so", func() bool {
		return strings.Contains(stranger.Status()[0].Store, "cannot go live, and none answers here: it was made of x[0]") &&
			strings.HasSuffix(stranger.Status()[0].Store, "put schema.features back")
	})
	stored := f.atHome()
	has, err := stored.Pin(t.Context(), "") // no other goes live
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
	for _, r := range []*replica{second, stranger} {
		if s := r.Status()[0]; r.live() != "" || s.Ready || *s.Held > 0 {
			t.Errorf("without a model, %q, a replica is ready: %t, and holds %d", r.live(), s.Ready, *s.Held)
		}
	}
	release := &plugin.Release{Model: m, Epoch: has.Find(has.Live).Epoch}
	if _, err := stored.Save(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	f.until("they share", func() bool {
		return second.live() != "" && *first.Status()[0].Held > 0 && *second.Status()[0].Held > 0
	})
	f.publish(100, 20)
	f.answered()
	if o := f.order(); o.lost+o.twice+o.late+o.marked > 0 {
		t.Errorf("%+v", o)
	}
	if stranger.live() != "" {
		t.Errorf("a replica of other features answers with %s", stranger.live())
	}
}

// TestPartitionsWithinTheLimit: what the pulls of all partitions bring together stays within what may be held, whichever
// partition is filled first, and all is answered in the end.
func TestPartitionsWithinTheLimit(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	limit := func(n int64) {
		if _, err := f.js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"}, MaxMsgs: n,
			Discard: jetstream.DiscardNew}); err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // nothing more leaves, so all that comes is held
	p := keyed()
	p.Partitions, p.Stage.Fixed, p.InFlight = 4, fixed(t), 10<<20
	r := f.replica(p)
	f.until("it holds all", func() bool { all := r.Status(); return len(all) > 0 && *all[0].Held == 5 })
	body := numbered(1, 5000)
	holds := func() (bytes int64) {
		for _, q := range p.partitions() {
			if c, err := f.js.Consumer(t.Context(), "in", q.durable("p")); err == nil {
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

// TestShares: every member has its share of the partitions, all come to the same, and who joins takes little but its own.
func TestShares(t *testing.T) {
	p := keyed()
	random := rand.New(rand.NewPCG(1, 2))
	var members []string
	for n := range 12 {
		parts, before := p.partitions(), shares(p.partitions(), members)
		members = append(members, nats.NewInbox())
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		is := shares(parts, members)
		random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		if !maps.Equal(is, shares(p.partitions(), members)) {
			t.Fatalf("%d members come to different shares", n+1)
		}
		has, moved := map[string]int{}, 0
		for q, who := range is {
			if q.of > 0 {
				has[who]++
			}
			if n > 0 && before[q] != who {
				moved++
			}
		}
		for _, m := range members {
			if has[m] > (8+n)/(n+1) {
				t.Errorf("of %d members one has %d partitions of 8", n+1, has[m])
			}
		}
		t.Logf("member %d: %d of 9 change hands", n+1, moved)
	}
}

// TestPartitionsThatCannotBe: what stands in the way is said before anything starts, by setup, by doctor and by a start, and
// the cure works.
func TestPartitionsThatCannotBe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), ample) // else the client gives each request five seconds
	defer cancel()
	p := keyed()
	p.Stage.Fixed = fixed(t)
	for name, c := range map[string]struct {
		stream jetstream.StreamConfig
		says   string
		cure   *jetstream.SubjectTransformConfig
	}{
		"without a transform": {jetstream.StreamConfig{}, "does not put the keys of S1.* into 8 partitions", transform("S1.*", 8)},
		"another number": {jetstream.StreamConfig{SubjectTransform: transform("S2.*", 4)},
			"puts S2.* into 4 partitions, and pipeline p is to have 8; set input.partitions: 4", transform("S2.*", 8)},
		"a transform of somebody": {jetstream.StreamConfig{SubjectTransform: &jetstream.SubjectTransformConfig{Source: "S3.a",
			Destination: "S3.b"}}, "give the pipeline a stream of its own", nil},
		"a work queue": {jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy}, "limits retention", nil},
	} {
		at := map[string]string{"without a transform": "S1", "another number": "S2", "a transform of somebody": "S3",
			"a work queue": "S4"}[name]
		c.stream.Name = at
		s.make(c.stream)
		q := p
		q.Stream, q.Subject = at, at+".*"
		problem := func() (out string) {
			plans, err := Setup(ctx, s.js, []Pipeline{q}, true)
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
			found, err := Examine(ctx, Options{Conn: s.js.Conn(), Pipelines: []Pipeline{q}})
			return err == nil && slices.ContainsFunc(found, func(f Finding) bool {
				return f.Check == "partitions" && f.Level == LevelFault && strings.Contains(f.Text+f.Cure, strings.Split(c.says, ";")[0])
			})
		})
		if c.cure == nil {
			continue
		}
		if !strings.Contains(problem(), "--transform-destination='"+c.cure.Destination+"'") {
			t.Errorf("%s: setup does not say how: %s", name, problem())
		}
		c.stream.Subjects, c.stream.SubjectTransform = []string{at + ".>"}, c.cure
		if _, err := s.js.UpdateStream(ctx, c.stream); err != nil {
			t.Fatal(err)
		}
		if text := problem(); text != "" {
			t.Errorf("%s: after its cure setup says %q", name, text)
		}
	}
	for version, want := range map[string]string{"2.9.25": "from 2.11 on", "2.10.29": "from 2.11 on", "2.11.0": ""} {
		if err := oldServer(version); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("of server %s: %v", version, err)
		}
	}
}

// TestSetupMakesPartitions: setup makes a stream with partitions, and gives them to one that it made before, which goes on
// to take what it took for other pipelines.
func TestSetupMakesPartitions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), ample)
	defer cancel()
	plain := piped("a", "KEYS", "keys.*", "out.a")
	plain.Dead = "out.dead"
	other := plain
	other.Name, other.Subject, other.Output = "b", "others.*", "out.b"
	parted := plain
	parted.Partitions = 8
	for _, all := range [][]Pipeline{{plain, other}, {parted}, {parted}} {
		plans, err := Setup(ctx, s.js, all, false)
		if err == nil && plans[0].Extends && fmt.Sprint(plans[0].Subjects) != "[keys.* others.*]" {
			t.Errorf("setup is to let the stream take %v", plans[0].Subjects)
		}
		if err == nil {
			_, err = Setup(ctx, s.js, all, true)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	made, err := s.js.Stream(ctx, "KEYS")
	if err != nil {
		t.Fatal(err)
	}
	if have := made.CachedInfo().Config.SubjectTransform; have == nil || *have != *transform("keys.*", 8) ||
		have.Destination != "keys.{{wildcard(1)}}.8.{{partition(8,1)}}" {
		t.Errorf("the stream has %+v", have)
	}
	if have := made.CachedInfo().Config.Subjects; fmt.Sprint(have) != "[keys.* others.*]" {
		t.Errorf("the stream takes %v", have)
	}
	if n := parted.readers(); n != 10 {
		t.Errorf("it has %d consumers; want 8, the rest, and one that learns", n)
	}
}
