package stream

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
)

// site is a real server that can be stopped and started again, and the test's own connection.
type site struct {
	*testing.T
	options server.Options
	server  *server.Server
	js      jetstream.JetStream
	log     *slog.Logger // of the next pupil; nil: no logs
	sent    int          // messages of input so far; each has its number in it
	first   uint64       // where the window of the next pupil's model begins
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, options: server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: t.TempDir()}}
	s.start()
	t.Cleanup(s.stop)
	s.js = s.dial()
	s.make(jetstream.StreamConfig{Name: "in"})
	s.make(jetstream.StreamConfig{Name: "out"})
	return s
}

func (s *site) start() {
	s.Helper()
	var err error
	options := s.options
	if s.server, err = server.NewServer(&options); err != nil {
		s.Fatal(err)
	}
	go s.server.Start()
	if !s.server.ReadyForConnections(20 * time.Second) {
		s.Fatal("the server does not start")
	}
	s.options.Port = s.server.Addr().(*net.TCPAddr).Port // it comes back on the same one
}

func (s *site) stop() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

func (s *site) dial() jetstream.JetStream {
	s.Helper()
	nc, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", s.options.Port), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		s.Fatal(err)
	}
	return js
}

func (s *site) make(c jetstream.StreamConfig) {
	s.Helper()
	if c.Subjects == nil {
		c.Subjects = []string{c.Name + ".>"}
	}
	made, err := s.js.CreateStream(s.Context(), c)
	if err != nil {
		s.Fatal(err)
	}
	if n := made.CachedInfo().State.Msgs; n > 0 {
		s.Fatalf("a new stream holds %d messages: the server has taken up the files of the one that was deleted", n)
	}
}

// again deletes the input and makes it anew, in memory: a server was seen to take up the files of a stream that it had
// just deleted in a new one of that name.
func (s *site) again(c jetstream.StreamConfig) {
	s.Helper()
	if err := s.js.DeleteStream(s.Context(), "in"); err != nil {
		s.Fatal(err)
	}
	c.Name, c.Storage = "in", jetstream.MemoryStorage
	s.make(c)
}

func (s *site) purge(upTo uint64) {
	s.Helper()
	in, err := s.js.Stream(s.Context(), "in")
	if err == nil {
		err = in.Purge(s.Context(), jetstream.WithPurgeSequence(upTo))
	}
	if err != nil {
		s.Fatal(err)
	}
}

// send stores so many messages, each with the next number in it.
func (s *site) send(n int) {
	s.Helper()
	for range n {
		s.sent++
		s.store("in.x", numbered(s.sent, 0))
	}
}

// store goes on trying while the server is away, under one identity, so that the stream holds the message once.
func (s *site) store(subject string, body []byte) {
	s.Helper()
	id := nats.NewInbox()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(s.Context(), 2*time.Second)
		_, err = s.js.Publish(ctx, subject, body, jetstream.WithMsgID(id))
		cancel()
		if err == nil {
			return
		}
	}
	s.Fatal(err)
}

// numbered is a message of one labelled row whose first feature is a number. More rows make it larger.
func numbered(n, more int) []byte {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "label", Type: arrow.BinaryTypes.String},
		{Name: "x", Type: arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Float32)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	x := b.Field(1).(*array.FixedSizeListBuilder)
	for i := range 1 + more {
		b.Field(0).(*array.StringBuilder).Append([]string{"even", "odd"}[n%2])
		x.Append(true)
		x.ValueBuilder().(*array.Float32Builder).AppendValues(
			[]float32{float32(n), float32(n % 2 * 100), float32(n * 31 % 17), float32(i * 7 % 5)}, nil)
	}
	rec := b.NewRecord()
	defer rec.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	_ = w.Write(rec)
	_ = w.Close()
	return out.Bytes()
}

// pupil is a pipeline that runs, and what its learning side got.
type pupil struct {
	*pipeline
	t        *testing.T
	registry *prometheus.Registry
	end      func()

	mu      sync.Mutex
	numbers []int // in the messages, in the order in which they came
	at      []plugin.Position
}

// start runs a pipeline over the site's input as the engine does. teach, where it is not nil, is called for each
// lesson after it was noted.
func (s *site) pupil(change func(*Pipeline), teach func(*pupil, *lesson)) *pupil {
	s.Helper()
	c := Pipeline{Name: "p", Stream: "in", Subject: "in.x", Output: "out.x", Dead: "out.dead",
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Until: plugin.UntilSkip,
			Fit: fit.Config{Method: "lda"}, Training: plugin.Training{Every: plugin.Every{Rows: 100}}}}
	if change != nil {
		change(&c)
	}
	js := s.dial()
	q := &pupil{t: s.T, registry: prometheus.NewRegistry()}
	e, err := New(Options{Conn: js.Conn(), Pipelines: []Pipeline{c}, Registerer: q.registry,
		Logger: s.log})
	if err != nil {
		s.Fatal(err)
	}
	if q.pipeline, err = e.open(s.Context(), js, watchAccess(js.Conn()), e.options.Pipelines[0]); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	q.learnFirst = s.first
	q.feed = newFeed(q.InFlight/4, q.input.CachedInfo().Config.Retention != jetstream.LimitsPolicy)
	take := func(_ context.Context, l *lesson) {
		q.note(l)
		if teach != nil {
			teach(q, l)
		}
	}
	wg.Go(func() {
		if q.readsOnce() {
			q.learnFrom(ctx, take)
		} else {
			newReader(q.pipeline, take).run(ctx)
		}
	})
	wg.Go(func() { q.watch(ctx) })
	wg.Go(func() { _ = q.serve(ctx) })
	if q.tenure.Lease != nil {
		wg.Go(func() { q.tenure.Keep(ctx, q.takeTurn) })
	}
	q.end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		q.close()
		js.Conn().Close()
	})
	s.Cleanup(q.end)
	return q
}

func (q *pupil) note(l *lesson) {
	m, err := l.message, l.err
	if !l.decoded {
		m, err = q.stage.Decode(l.data)
	}
	number := -1
	if err == nil && m != nil {
		b := m.Batches()[0].Features()[0]
		number = int(b.At(0, 0))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.numbers = append(q.numbers, number)
	q.at = append(q.at, plugin.Position{Created: l.origin.Created, Seq: l.origin.Seq, Time: l.time})
}

func (q *pupil) got() []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.numbers)
}

// await waits until the learning side got a message.
func (q *pupil) await(number int, within time.Duration) {
	q.t.Helper()
	begin := time.Now()
	for {
		got := q.got()
		if slices.Contains(got, number) {
			return
		}
		if time.Since(begin) > within {
			q.t.Fatalf("message %d is not learned within %v; %d were, the last %d; status: %v", number, within,
				len(got), got[max(0, len(got)-1):], q.status())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (q *pupil) status() string {
	if turn := q.turn.Load(); turn != nil {
		return *turn
	}
	return ""
}

// exactly holds the learning side to have got these messages in this order, and positions that ascend.
func (q *pupil) exactly(want []int) {
	q.t.Helper()
	got := q.got()
	if !slices.Equal(got, want) {
		seen := map[int]int{}
		for _, n := range got {
			seen[n]++
		}
		missing, twice := 0, 0
		for _, n := range want {
			if seen[n] == 0 {
				missing++
			} else if seen[n] > 1 {
				twice++
			}
		}
		q.t.Errorf("the learning side got %d messages and was to get %d; %d are missing, %d came twice, in order: %t",
			len(got), len(want), missing, twice, slices.IsSorted(got))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.t; t.Failed() {
		for i, at := range q.at {
			if i == 0 || !at.Created.Equal(q.at[i-1].Created) || at.Seq != q.at[i-1].Seq+1 || i == len(q.at)-1 {
				t.Logf("%d: message %d has the position %v %d; %s", i, q.numbers[i], at.Created, at.Seq, q.status())
			}
		}
	}
	for i := 1; i < len(q.at); i++ {
		a, b := q.at[i-1], q.at[i]
		if c := a.Created.Compare(b.Created); c > 0 || c == 0 && a.Seq >= b.Seq {
			q.t.Fatalf("position %v comes after %v", b, a)
		}
	}
}

// metric is the value of a counter of the pipeline by its other label.
func (q *pupil) metric(name, label string) float64 {
	q.t.Helper()
	families, err := q.registry.Gather()
	if err != nil {
		q.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetValue() == label {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	q.t.Fatalf("there is no metric %s with label %s", name, label)
	return 0
}

func (q *pupil) says(words string) {
	q.t.Helper()
	if s := q.status(); !strings.Contains(s, words) {
		q.t.Errorf("the status says %q, want %q in it", s, words)
	}
}

func to(n int) []int { return between(1, n) }

func between(first, last int) (out []int) {
	for i := first; i <= last; i++ {
		out = append(out, i)
	}
	return out
}

// TestOneReadFeedsBoth: where the durable consumer is in step, the learning side reads nothing for itself.
func TestOneReadFeedsBoth(t *testing.T) {
	s := newSite(t)
	s.send(500)
	q := s.pupil(nil, nil)
	q.await(500, 20*time.Second)
	s.send(500)
	q.await(1000, 20*time.Second)
	q.exactly(to(1000))
	answer, learn := q.metric("embedd_read_messages_total", "answer"), q.metric("embedd_read_messages_total", "learn")
	t.Logf("messages read: %v to be answered, %v once more to be learned", answer, learn)
	if answer != 1000 || learn > 10 {
		t.Errorf("%v messages were read to be answered and %v once more, want 1000 and none", answer, learn)
	}
}

// TestHandover: while the hot path holds the learning side reads; when a model is live the hot path's messages serve
// both, and none is learned twice or left out.
func TestHandover(t *testing.T) {
	s := newSite(t)
	s.send(300)
	q := s.pupil(func(c *Pipeline) { c.Stage.Until = plugin.UntilHold }, func(q *pupil, l *lesson) {
		q.learn(t.Context(), l)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.send(1200)
	}()
	<-done
	q.await(1500, 30*time.Second)
	s.send(200)
	q.await(1700, 30*time.Second)
	q.exactly(to(1700))
	t.Logf("messages read: %v to be answered, %v to be learned", q.metric("embedd_read_messages_total", "answer"),
		q.metric("embedd_read_messages_total", "learn"))
	if q.stage.Live() == nil {
		t.Error("no model is live")
	}
}

// TestStreamMadeAnew: learning goes on within 10 s from the first message of a stream that was deleted and made again,
// whatever its numbers, and the status says so.
func TestStreamMadeAnew(t *testing.T) {
	for name, again := range map[string]struct {
		config jetstream.StreamConfig
		n      int
		hold   bool
	}{
		"fewer messages":  {jetstream.StreamConfig{}, 5, false},
		"as many":         {jetstream.StreamConfig{}, 50, false},
		"more messages":   {jetstream.StreamConfig{}, 300, false},
		"numbers go on":   {jetstream.StreamConfig{FirstSeq: 51}, 20, false},
		"numbers jump":    {jetstream.StreamConfig{FirstSeq: 100_000}, 20, false},
		"while it holds":  {jetstream.StreamConfig{}, 30, true},
		"jumps and holds": {jetstream.StreamConfig{FirstSeq: 1000}, 30, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			q := s.pupil(func(c *Pipeline) {
				if again.hold {
					c.Stage.Until = plugin.UntilHold
				}
			}, nil)
			s.send(50)
			q.await(50, 20*time.Second)
			s.again(again.config)
			begin := time.Now()
			s.send(again.n)
			q.await(50+again.n, 10*time.Second)
			t.Logf("learning went on within %v", time.Since(begin).Round(time.Millisecond))
			q.exactly(to(50 + again.n))
			q.says("the input stream was made anew at")
			if n := q.metric("embedd_reader_restarts_total", "recreated"); n != 1 {
				t.Errorf("%v restarts are counted, want 1", n)
			}
		})
	}
}

// TestStreamMadeAnewBusy deletes and makes the stream again again and again, at once, under load.
func TestStreamMadeAnewBusy(t *testing.T) {
	s := newSite(t)
	s.again(jetstream.StreamConfig{})
	q := s.pupil(nil, nil)
	var want []int
	for range 5 {
		s.send(100)
		want = append(want, between(s.sent-99, s.sent)...)
		q.await(s.sent, 15*time.Second)
		s.again(jetstream.StreamConfig{})
	}
	s.send(10)
	q.await(s.sent, 15*time.Second)
	q.exactly(append(want, between(s.sent-9, s.sent)...))
}

// TestPurged: what is purged before it was learned is counted and said, and learning goes on with what is left.
func TestPurged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const n, upTo = 3000, 2000
	s.send(n)
	reached, purged := make(chan struct{}), make(chan struct{})
	// The hot path holds, so the reader is on its own; its first pull brings more than is learned then.
	q := s.pupil(func(c *Pipeline) { c.Stage.Until = plugin.UntilHold }, func(q *pupil, l *lesson) {
		if l.origin.Seq == 100 {
			close(reached)
			<-purged
		}
	})
	<-reached
	s.purge(upTo + 1)
	close(purged)
	q.await(n, 10*time.Second)
	s.send(10)
	q.await(n+10, 10*time.Second)
	for end := time.Now().Add(10 * time.Second); q.status() == "" && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	before, _ := slices.BinarySearch(q.got(), upTo+1) // as many as the pull had brought when the purge came
	if before < 100 || before >= upTo {
		t.Fatalf("%d messages were learned before the purge, want 100 to %d", before, upTo)
	}
	q.exactly(append(to(before), between(upTo+1, n+10)...))
	lost := upTo - before
	q.says(fmt.Sprintf("up to %d messages were gone", lost))
	if got := q.metric("embedd_dropped_messages_total", "learn"); got != float64(lost) {
		t.Errorf("%v lost messages are counted, want %d", got, lost)
	}
	if got := q.metric("embedd_reader_restarts_total", "purged"); got != 1 {
		t.Errorf("%v restarts are counted, want 1", got)
	}
}

// TestPurgedLearned: a purge of what was learned already is no event.
func TestPurgedLearned(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.pupil(nil, nil)
	s.send(50)
	q.await(50, 10*time.Second)
	s.purge(0)
	time.Sleep(quiet + quiet/2)
	s.send(50)
	q.await(100, 10*time.Second)
	q.exactly(to(100))
	if q.status() != "" {
		t.Errorf("the status says %q, want nothing", q.status())
	}
}

// TestRenumbered puts an old copy of the server's store back: the stream has the same name and was made at the same
// time, and the numbers that were read are given out again for other messages.
func TestRenumbered(t *testing.T) {
	for name, more := range map[string]int{"seen by its end": 20, "grown past what was read": 90} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			q := s.pupil(nil, nil)
			s.send(50)
			q.await(50, 10*time.Second)
			s.stop()
			backup := t.TempDir()
			if err := os.CopyFS(backup, os.DirFS(s.options.StoreDir)); err != nil {
				t.Fatal(err)
			}
			s.start()
			s.send(50)
			q.await(100, 10*time.Second)
			s.stop()
			s.options.StoreDir = backup
			s.start()
			s.send(more)
			q.await(100+more, 20*time.Second)
			q.exactly(to(100 + more))
			q.says("renumbered")
		})
	}
}

// TestReplicas: two replicas share a durable consumer, so each hot path sees a part; each learning side sees all.
func TestReplicas(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.send(200)
	a := s.pupil(nil, nil)
	b := s.pupil(nil, nil)
	for range 8 {
		s.send(100)
		time.Sleep(20 * time.Millisecond)
	}
	for _, q := range []*pupil{a, b} {
		q.await(1000, 30*time.Second)
		q.exactly(to(1000))
	}
	shared := a.metric("embedd_read_messages_total", "answer")
	if shared == 0 || shared >= 1000 {
		t.Fatalf("one replica answered %v of 1000 messages; the test wants both to", shared)
	}
	// One of them ends: the other is in step again.
	a.end()
	s.send(10)
	b.await(1010, 20*time.Second)
	time.Sleep(apart + fetchWait + time.Second) // a pull that was begun while both were there ends first
	before := b.metric("embedd_read_messages_total", "learn")
	s.send(300)
	b.await(1310, 20*time.Second)
	b.exactly(to(1310))
	if more := b.metric("embedd_read_messages_total", "learn") - before; more > 50 {
		t.Errorf("the replica that is alone read %v of 300 messages once more to learn", more)
	}
}

// TestOverflow: what falls out of the feed is read from the stream.
func TestOverflow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.pupil(func(c *Pipeline) { c.InFlight = 64 << 10 }, func(*pupil, *lesson) { time.Sleep(time.Millisecond) })
	const n = 1500
	s.send(n)
	q.await(n, 30*time.Second)
	q.exactly(to(n))
	gaps, learn := q.metric("embedd_reader_restarts_total", "behind"), q.metric("embedd_read_messages_total", "learn")
	t.Logf("%v gaps, %v of %d messages read once more", gaps, learn, n)
	if gaps == 0 {
		t.Error("the feed did not overflow; the test wants it to")
	}
	if lost := q.metric("embedd_dropped_messages_total", "learn"); lost != 0 {
		t.Errorf("%v messages are counted as lost, want none: they were read", lost)
	}
}

// TestFilteredStream: numbers of other subjects are no gaps and no losses, and reading ends where only such are left.
func TestFilteredStream(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	mixed := func(n int) {
		for range n {
			s.store("in.other", []byte("x"))
			s.send(1)
			s.store("in.other", []byte("y"))
		}
	}
	mixed(100)
	q := s.pupil(nil, nil)
	q.await(100, 10*time.Second)
	mixed(50)
	time.Sleep(quiet + time.Second)
	mixed(50)
	q.await(200, 10*time.Second)
	q.exactly(to(200))
	if lost := q.metric("embedd_dropped_messages_total", "learn"); lost != 0 || q.status() != "" {
		t.Errorf("%v messages are counted as lost, and the status says %q", lost, q.status())
	}
	if n := q.metric("embedd_read_messages_total", "learn"); n > 10 {
		t.Errorf("%v messages were read once more, want none", n)
	}
}

// TestServerRestarts restarts the server in the middle.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.pupil(nil, nil)
	for range 3 {
		s.send(200)
		s.stop()
		s.start()
		s.send(200)
	}
	q.await(1200, 30*time.Second)
	q.exactly(to(1200))
	if s := q.status(); s != "" {
		t.Errorf("the status says %q; a restart of the server is no change of the stream", s)
	}
}

// TestRestarts ends the pipeline at random points. Each time its successor gets every message from the one on where
// the window begins, in order.
func TestRestarts(t *testing.T) {
	s := newSite(t)
	random := rand.New(rand.NewPCG(1, 2))
	times := 12
	if yes, _ := strconv.ParseBool(os.Getenv("EMBEDD_LONG")); yes {
		times = 100
	}
	for i := range times {
		s.first = uint64(random.IntN(s.sent + 1))
		q := s.pupil(func(c *Pipeline) { c.AckWait = time.Second }, nil)
		s.send(50 + random.IntN(100))
		if i%3 > 0 { // or it ends with messages under way
			q.await(s.sent, 20*time.Second)
		}
		q.end()
		got := q.got()
		if len(got) > 0 {
			q.exactly(between(max(int(s.first), 1), got[len(got)-1]))
		}
	}
}

// TestStreamMadeAnewBehind makes the stream anew while learning is behind, with a gap of numbers that the new stream
// has messages for: none of them is taken for one of the old stream.
func TestStreamMadeAnewBehind(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.pupil(func(c *Pipeline) { c.InFlight = 64 << 10 },
		func(*pupil, *lesson) { time.Sleep(2 * time.Millisecond) })
	s.send(1000)
	q.await(100, 10*time.Second)
	s.again(jetstream.StreamConfig{})
	s.send(1500)
	q.await(2500, 30*time.Second)
	got := q.got()
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Error("messages came twice or out of order")
	}
	of, _ := slices.BinarySearch(got, 1001)
	t.Logf("%d of 1000 messages of the old stream were learned", of)
	lost := 1000 - of
	// Those that nobody had looked at when the stream was deleted cannot be counted.
	n := q.metric("embedd_dropped_messages_total", "learn")
	if n < 1 || n > float64(lost) {
		t.Errorf("%v messages are counted as lost, and %d are", n, lost)
	}
	q.says(fmt.Sprintf("at least %v messages of the one before were not learned", n))
	if !slices.Equal(got[of:], between(1001, 2500)) {
		t.Errorf("%d messages of the new stream were learned, want 1500", len(got)-of)
	}
	for i, at := range q.at {
		if old := at.Created.Equal(q.at[0].Created); old != (i < of) {
			t.Fatalf("message %d has the position %v", got[i], at)
		}
	}
}

// TestRenumberedRestart: after an older copy of the stream was put back, and after a restart, the rows of the new
// numbers are learned.
func TestRenumberedRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir := t.TempDir()
	learning := func(c *Pipeline) {
		c.Stage.Until, c.Models.Directory = plugin.UntilHold, dir
		c.Stage.Training.Window.Balance = plugin.BalanceNone
		c.Stage.Training.IgnoreDrift = true // a feature is the message's number, and the old rows come once more
	}
	teach := func(q *pupil, l *lesson) { q.learn(t.Context(), l) }
	rows := func(q *pupil, n int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			status := q.stage.Status()
			if status.Rows == n && !status.Filling && status.Backlog == 0 {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the window has %d rows, want %d; %+v; %s", status.Rows, n, status, q.status())
			}
		}
	}
	q := s.pupil(learning, teach)
	s.send(400)
	rows(q, 400)
	s.stop()
	backup := t.TempDir()
	if err := os.CopyFS(backup, os.DirFS(s.options.StoreDir)); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.send(600)
	rows(q, 1000)
	s.stop()
	s.options.StoreDir = backup
	s.start()
	s.send(3000)
	rows(q, 4000)
	q.says("renumbered")
	q.end()
	// The stream holds the first 400 messages and the 3000 newest.
	q = s.pupil(learning, teach)
	s.send(100)
	rows(q, 3500)
}

// TestReadOnce: where the hot path's messages are all that learning gets, those that are delivered again, to this
// process or to its successor, are learned once by each, and all are learned.
func TestReadOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.again(jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	all := map[int]bool{}
	random := rand.New(rand.NewPCG(5, 6))
	for i := range 6 {
		q := s.pupil(func(c *Pipeline) {
			c.AckWait = time.Second
			if i%2 == 0 {
				c.Stage.Until = plugin.UntilHold // everything that is pulled waits, and is left to the successor
			}
		}, nil)
		s.send(200)
		if i%2 == 0 {
			q.await(s.sent, 20*time.Second)
			time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond) // some are delivered again
		} else {
			for end := time.Now().Add(20 * time.Second); len(q.got()) < 400 && time.Now().Before(end); {
				time.Sleep(20 * time.Millisecond)
			}
		}
		q.end()
		got := q.got()
		slices.Sort(got)
		if twice := len(got) - len(slices.Compact(slices.Clone(got))); twice > 0 {
			t.Errorf("%d of %d messages were learned twice", twice, len(got))
		}
		for _, n := range got {
			all[n] = true
		}
	}
	if len(all) != s.sent {
		t.Errorf("%d of %d messages were learned", len(all), s.sent)
	}
}
