package stream

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
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
	sent    int // messages of input so far; each has its number in it
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
	if _, err := s.js.CreateStream(s.Context(), c); err != nil {
		s.Fatal(err)
	}
}

func (s *site) delete(stream string) {
	s.Helper()
	if err := s.js.DeleteStream(s.Context(), stream); err != nil {
		s.Fatal(err)
	}
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

func (s *site) store(subject string, body []byte) {
	s.Helper()
	if _, err := s.js.Publish(s.Context(), subject, body); err != nil {
		s.Fatal(err)
	}
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
	e, err := New(Options{Conn: js.Conn(), Pipelines: []Pipeline{c}, Registerer: q.registry})
	if err != nil {
		s.Fatal(err)
	}
	if q.pipeline, err = e.open(s.Context(), js, e.options.Pipelines[0]); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	q.feed = newFeed(q.InFlight/4, false)
	wg.Go(func() {
		newReader(q.pipeline, func(l *lesson) {
			q.note(l)
			if teach != nil {
				teach(q, l)
			}
		}).run(ctx)
	})
	wg.Go(func() { _ = q.serve(ctx) })
	q.end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		q.stage.Close()
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
	q := s.pupil(func(c *Pipeline) { c.Stage.Until = plugin.UntilHold }, func(q *pupil, l *lesson) { q.learn(l) })
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
		"fewer messages":  {jetstream.StreamConfig{Name: "in"}, 5, false},
		"as many":         {jetstream.StreamConfig{Name: "in"}, 50, false},
		"more messages":   {jetstream.StreamConfig{Name: "in"}, 300, false},
		"numbers go on":   {jetstream.StreamConfig{Name: "in", FirstSeq: 51}, 20, false},
		"numbers jump":    {jetstream.StreamConfig{Name: "in", FirstSeq: 100_000}, 20, false},
		"while it holds":  {jetstream.StreamConfig{Name: "in"}, 30, true},
		"jumps and holds": {jetstream.StreamConfig{Name: "in", FirstSeq: 1000}, 30, true},
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
			s.delete("in")
			time.Sleep(300 * time.Millisecond)
			s.make(again.config)
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
	q := s.pupil(nil, nil)
	var want []int
	for range 5 {
		s.send(100)
		want = append(want, between(s.sent-99, s.sent)...)
		q.await(s.sent, 15*time.Second)
		s.delete("in")
		s.make(jetstream.StreamConfig{Name: "in"})
	}
	s.send(10)
	q.await(s.sent, 15*time.Second)
	q.exactly(append(want, between(s.sent-9, s.sent)...))
}

