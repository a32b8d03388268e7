package stream

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/training"
)

// testPipeline is a running pipeline, and the messages that its training received.
type testPipeline struct {
	*pipeline
	t        *testing.T
	registry *prometheus.Registry
	end      func()

	mu      sync.Mutex
	numbers []int // in the messages, in the order in which they came
	at      []plugin.Position
}

// open opens the one pipeline of an engine as Run does, and runs no part of it.
func (s *site) open(e *Engine, js jetstream.JetStream) *pipeline {
	s.Helper()
	e.options.Wait = ample
	run := &engineRun{Engine: e, js: js, permissions: natsx.MonitorPermissions(js.Conn()),
		receiver: natsx.NewReceiver(js.Conn())}
	p, err := run.open(s.Context(), e.options.Pipelines[0], time.Now().Add(ample))
	if err != nil {
		s.Fatal(err)
	}
	return p
}

// runPipeline runs a pipeline over the input of the site as the engine does. teach, unless it is nil, is called for
// each lesson after it was noted.
func (s *site) runPipeline(change func(*Pipeline), teach func(*testPipeline, *training.Message)) *testPipeline {
	s.Helper()
	c := Pipeline{Name: "p", Stream: "in", Subject: "in.x", Output: "out.x", Dead: "out.dead",
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Until: plugin.UntilSkip,
			Fit: fit.Config{Method: "lda"}, Training: plugin.Training{Every: plugin.Every{Rows: 100}}}}
	if change != nil {
		change(&c)
	}
	js := s.dial()
	q := &testPipeline{t: s.T, registry: prometheus.NewRegistry()}
	e, err := New(Options{Conn: js.Conn(), Pipelines: []Pipeline{c}, Registerer: q.registry,
		Logger: s.log})
	if err != nil {
		s.Fatal(err)
	}
	q.pipeline = s.open(e, js)
	q.PollInterval = max(q.PollInterval, s.calm)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	q.training.ReadFrom = s.first
	q.training.OpenFeed()
	take := func(_ context.Context, l *training.Message) {
		q.note(l)
		if teach != nil {
			teach(q, l)
		}
	}
	wg.Go(func() { q.training.Read(ctx, take) })
	stop := q.observer.Start(ctx)
	wg.Go(func() { _ = q.relay.Serve(ctx, context.Background()) })
	stopReplica := q.replica.Start(ctx, &wg)
	q.end = sync.OnceFunc(func() {
		cancel()
		stop()
		stopReplica() // waits for the attempts of leases, which close must not run beside
		wg.Wait()
		if n := e.activity.Processing(); n != 0 {
			s.Errorf("%d inputs wait indefinitely, as far as training knows", n)
		}
		q.close()
		js.Conn().Close()
	})
	s.Cleanup(q.end)
	return q
}

func (q *testPipeline) note(l *training.Message) {
	m, err := l.Decode(q.Running)
	number := -1
	if err == nil && m != nil {
		b := m.Batches()[0].Features()[0]
		number = int(b.At(0, 0))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.numbers = append(q.numbers, number)
	q.at = append(q.at, plugin.Position{Created: l.Origin.Created, Seq: l.Origin.Seq, Time: l.Time})
}

func (q *testPipeline) got() []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.numbers)
}

// await waits until the learning side got a message.
func (q *testPipeline) await(number int) {
	q.t.Helper()
	begin := time.Now()
	for {
		got := q.got()
		if slices.Contains(got, number) {
			return
		}
		if time.Since(begin) > ample {
			q.t.Fatalf("message %d is not learned within %v; %d were, the last %d; status: %v", number, ample,
				len(got), got[max(0, len(got)-1):], q.status())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (q *testPipeline) status() string {
	return q.training.Event()
}

// exactly checks that training received these messages in this order, with ascending positions.
func (q *testPipeline) exactly(want []int) {
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
func (q *testPipeline) metric(name, label string) float64 {
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

func (q *testPipeline) says(words string) {
	q.t.Helper()
	if s := q.status(); !strings.Contains(s, words) {
		q.t.Errorf("the status says %q, want %q in it", s, words)
	}
}
