package stream_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// corePipeline reads a subject without a stream.
func corePipeline() stream.Pipeline {
	p := basicPipeline()
	p.Stream = ""
	return p
}

// publishCore publishes n messages once a replica subscribes.
func publishCore(t testing.TB, s *natstest.Server, n int, body []byte) {
	t.Helper()
	nc := s.JS.Conn()
	s.AwaitSubscriber("in.x")
	for range n {
		if err := nc.Publish("in.x", body); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(natstest.Timeout); err != nil {
		t.Fatal(err)
	}
}

// TestStopWithHeldInputs: core NATS keeps no message, so that inputs which wait for a first model are lost with a stop.
// They are counted and logged, and Run returns an error.
func TestStopWithHeldInputs(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	r := newReplica(t, s.Connect(), corePipeline())
	stream.SetDrain(r.Engine, natstest.Timeout)
	r.Start()
	publishCore(t, s, 1000, drawRows(1, 1, 4).message(t)[:100]) // no Arrow, so that none is learned from
	natstest.Await(t, "the inputs are held", func() bool { return r.pipeline().Lag == 1000 })
	begin := time.Now()
	err := r.Stop()
	if !errors.Is(err, stream.ErrDrain) {
		t.Errorf("Run returned: %v", err)
	}
	if n := r.counter("embedd_dropped_messages_total", "path=answer"); n != 1000 {
		t.Errorf("%v messages are counted as dropped", n)
	}
	if !r.Log.has("level=WARN", "messages=1000") {
		t.Errorf("the log does not say so:\n%s", r.Log)
	}
	if took := time.Since(begin); took >= natstest.Timeout {
		t.Errorf("the stop waited %v for a model that could not come", took)
	}
}

// TestStopsAreNoCrashes: an input whose output is refused at each of many stops is answered once the output's stream
// takes it, and is not taken for one that crashes the process.
func TestStopsAreNoCrashes(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "in"})
	s.Stream(jetstream.StreamConfig{Name: "dead"})
	full := jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"}, MaxMsgs: 1, Discard: jetstream.DiscardNew}
	s.Stream(full)
	s.Publish(nats.NewMsg("out.y"))
	in := nats.NewMsg("in.x")
	in.Data = drawRows(1, 2, 4).message(t)
	s.Publish(in)
	p := basicPipeline()
	p.Stage.Fixed = fixedModel(t)
	for range 8 {
		r := newReplica(t, s.Connect(), p)
		stream.SetDrain(r.Engine, time.Millisecond)
		r.Start()
		natstest.Await(t, "the output is refused", func() bool {
			return strings.Contains(r.pipeline().Reason, "publishing on out.x fails")
		})
		if err := r.Stop(); !errors.Is(err, stream.ErrDrain) {
			t.Errorf("Run returned: %v", err)
		}
	}
	full.MaxMsgs = -1
	if _, err := s.JS.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	startReplica(t, s.Connect(), p)
	natstest.Await(t, "the input is answered", func() bool { return s.Count("out")+s.Count("dead") == 2 })
	if n := s.Count("dead"); n != 0 {
		t.Errorf("%d inputs are dead letters", n)
	}
}

// TestAnsweredBeforeTheCrashes: an input whose output is stored becomes no dead letter too if its process crashed again
// and again before the acknowledgement.
func TestAnsweredBeforeTheCrashes(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	var created time.Time
	for _, name := range []string{"out", "dead", "in"} {
		created = s.Stream(jetstream.StreamConfig{Name: name}).CachedInfo().Created
	}
	in := nats.NewMsg("in.x")
	in.Data = drawRows(1, 2, 4).message(t)
	s.Publish(in)
	p := basicPipeline()
	p.Stage.Fixed = fixedModel(t)
	r := startReplica(t, s.Connect(), p)
	natstest.Await(t, "the input is answered", func() bool { return s.Count("out") == 1 })
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	// The consumer as it is after two deliveries without an acknowledgement, and a note of as many attempts as allowed.
	name := needs.ConsumerName("p", "")
	c, err := s.JS.Consumer(t.Context(), "in", name)
	if err != nil {
		t.Fatal(err)
	}
	config := c.CachedInfo().Config
	config.MaxRequestExpires = 0
	if err := s.JS.DeleteConsumer(t.Context(), "in", name); err != nil {
		t.Fatal(err)
	}
	if c, err = s.JS.CreateConsumer(t.Context(), "in", config); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		msg, err := c.Next(jetstream.FetchMaxWait(natstest.Timeout))
		if err != nil {
			t.Fatal(err)
		}
		if err := msg.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	note := fmt.Appendf(nil, `{"stream_created":%d,"attempts":{"1":5}}`, created.UnixNano())
	state := natsx.NewBucket(s.JS, statestore.Bucket)
	if err := state.Put(t.Context(), statestore.AttemptsKey("p", needs.Partition{}.String()), note); err != nil {
		t.Fatal(err)
	}
	startReplica(t, s.Connect(), p)
	natstest.Await(t, "the input is acknowledged", func() bool {
		c, err := s.JS.Consumer(t.Context(), "in", name)
		return err == nil && c.CachedInfo().AckFloor.Stream == 1
	})
	if out, dead := s.Count("out"), s.Count("dead"); out != 1 || dead != 0 {
		t.Errorf("%d outputs and %d dead letters of an input", out, dead)
	}
}

// TestStopBehindSlowModel: a stop waits no longer than the drain timeout for the messages of core NATS, and counts the
// rest, those too that are still on their way from the server. Answering all of them would take a minute.
func TestStopBehindSlowModel(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := corePipeline()
	p.Stage.Fixed = slowModel(t)
	p.Stage.Spec.Label = ""
	r := newReplica(t, s.Connect(), p)
	if d := stream.SetDrain(r.Engine, time.Millisecond); d != 15*time.Second {
		t.Errorf("a stop drains for %v by default, want 15 s", d)
	}
	r.Start()
	publishCore(t, s, 1000, arrowMessage(t, column{"x", drawRows(1, 2000, 4).x}))
	begin := time.Now()
	err := r.Stop()
	answered := r.counter("embedd_messages_total")
	dropped := r.counter("embedd_dropped_messages_total", "path=answer")
	t.Logf("stopped after %v with %v answered and %v dropped: %v", time.Since(begin), answered, dropped, err)
	if !errors.Is(err, stream.ErrDrain) {
		t.Errorf("Run returned: %v", err)
	}
	if dropped == 0 || answered+dropped != 1000 {
		t.Errorf("%v messages are answered and %v counted as dropped, of 1000", answered, dropped)
	}
}

// slowModel compares each row that it projects with two thousand rows.
func slowModel(t testing.TB) *model.Model {
	t.Helper()
	m, err := fit.Fit(t.Context(), dataOf(drawRows(1, 2000, 4)), fit.Config{Method: "le"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestHostClosesConnection: Run ends when the host closes its connection, with the error that says so.
func TestHostClosesConnection(t *testing.T) {
	t.Parallel()
	core, jets := corePipeline(), basicPipeline()
	jets.Name, jets.Stage.Fixed = "q", fixedModel(t)
	held, keyed := basicPipeline(), basicPipeline()
	keyed.Subject, keyed.Partitions, keyed.Stage.Fixed = "in.*", 2, fixedModel(t)
	jets.Stream, held.Stream, keyed.Stream = "IN", "IN", "IN"
	for name, pipelines := range map[string][]stream.Pipeline{"core NATS": {core}, "holding": {held},
		"partitions": {keyed}, "both": {core, jets}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.New(t)
			if _, err := admin.Setup(t.Context(), s.JS, pipelines, true); err != nil {
				t.Fatal(err)
			}
			nc := s.Connect()
			r := startReplica(t, nc, pipelines...)
			if err := s.JS.Conn().Publish("in.x", drawRows(1, 2, 4).message(t)); err != nil {
				t.Fatal(err)
			}
			nc.Close()
			select {
			case <-r.done:
			case <-time.After(natstest.Timeout):
				t.Fatalf("Run does not return; the state is %s", r.pipeline().State)
			}
			if !errors.Is(r.err, nats.ErrConnectionClosed) {
				t.Errorf("Run returned: %v", r.err)
			}
		})
	}
}

// TestRunOnClosedConnection: an engine on a connection that is closed already ends at once.
func TestRunOnClosedConnection(t *testing.T) {
	nc := natstest.New(t).Connect()
	e, err := stream.New(stream.Options{Conn: nc, Pipelines: []stream.Pipeline{basicPipeline()}, Wait: natstest.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Timeout)
	defer cancel()
	if err := e.Run(ctx); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("Run returned: %v", err)
	}
}

// TestEngineRunsOnce: a second call of Run is an error, while the first serves and after it, and changes nothing.
func TestEngineRunsOnce(t *testing.T) {
	s := natstest.New(t)
	for _, name := range []string{"in", "out", "dead"} {
		s.Stream(jetstream.StreamConfig{Name: name})
	}
	e, err := stream.New(stream.Options{Conn: s.Connect(), Pipelines: []stream.Pipeline{basicPipeline()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	natstest.Await(t, "the engine runs", func() bool { return len(e.Status()) > 0 })
	const want = "the engine has run before; create another one with New"
	ended, end := context.WithCancel(t.Context())
	end()
	if err := e.Run(ended); err == nil || err.Error() != want {
		t.Errorf("while it runs: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := e.Run(ended); err == nil || err.Error() != want {
		t.Errorf("after it has run: %v", err)
	}
}

// TestEngineLeavesHostsValues: an engine changes neither the host's pipelines nor its connection, however often it
// runs.
func TestEngineLeavesHostsValues(t *testing.T) {
	s := natstest.New(t)
	for _, name := range []string{"in", "out", "dead"} {
		s.Stream(jetstream.StreamConfig{Name: name})
	}
	nc := s.Connect()
	depth := make(chan int, 1)
	nc.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) {
		select {
		case depth <- runtime.Callers(0, make([]uintptr, 1000)):
		default:
		}
	})
	given := []stream.Pipeline{basicPipeline()}
	before := slices.Clone(given)
	for range 20 {
		e, err := stream.New(stream.Options{Conn: nc, Pipelines: given})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		natstest.Await(t, "the engine runs", func() bool { return len(e.Status()) > 0 })
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(before, given) {
		t.Errorf("the host's pipelines are changed to %+v", given)
	}
	nc.Opts.AsyncErrorCB(nc, nil, nats.ErrTimeout)
	if n := <-depth; n > 20 {
		t.Errorf("the host's error handler is called through %d frames", n)
	}
}
