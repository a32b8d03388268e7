package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
)

// reloadable starts a replica whose next configuration is what next holds.
func reloadable(t testing.TB, nc *nats.Conn, next *atomic.Pointer[stream.Reload], p ...stream.Pipeline) *replica {
	t.Helper()
	r := newReplicaOf(t, stream.Options{Conn: nc, Pipelines: p,
		Reload: func(context.Context) (*stream.Reload, error) {
			if n := next.Load(); n != nil {
				return n, nil
			}
			return nil, errors.New("line 7 is wrong")
		}})
	r.Start()
	return r
}

// withGate is a reload that changes the gate of pipelines.
func withGate(g plugin.Gate, pipelines ...stream.Pipeline) *stream.Reload {
	r := &stream.Reload{Applied: []string{"gate"}}
	for _, p := range pipelines {
		p.Stage.Training.Gate = g
		r.Pipelines = append(r.Pipelines, p)
	}
	return r
}

// reloadCondition is why the last reload failed, as the status has it; "" if it did not.
func reloadCondition(s stream.Status) string {
	for _, c := range s.Conditions {
		if c.Name == "reload" {
			return c.Reason
		}
	}
	return ""
}

// TestReloads: while inputs arrive, a configuration is reloaded twenty times and another replica is killed. Every input
// is answered once, with a model of one epoch, and the last configuration is in force.
func TestReloads(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	publishShapes(s, p, good(30)...)
	var next atomic.Pointer[stream.Reload]
	r := reloadable(t, s.Connect(), &next, p)
	awaitOutcomes(s, p, 30)
	epoch := r.pipeline().Stage.Live.Epoch
	other := startReplica(t, s.Connect(), p)

	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 30
		for ; ; n++ {
			select {
			case <-stop:
				done <- n
				return
			default:
				publishShapes(s, p, "good")
			}
		}
	}()
	for i := range 20 {
		next.Store(withGate(plugin.Gate{Evidence: 1000 + float64(i), MoreRows: math.Inf(1)}, p))
		got, err := r.Reload(t.Context())
		if err != nil || got.Generation != i+2 || !slices.Equal(got.Applied, []string{"gate"}) {
			t.Fatalf("reload %d: %+v, %v", i, got, err)
		}
		if i == 10 {
			other.Kill()
		}
	}
	close(stop)
	n := <-done
	want := map[int]string{}
	for seq := 1; seq <= n; seq++ {
		want[seq] = "out"
	}
	wantOutcomes(t, awaitOutcomes(s, p, n), want)
	natstest.Await(t, "the model is live again", func() bool { return r.live() != "" })
	if st := r.pipeline(); st.Generation != 21 || st.Stage.Live.Epoch != epoch {
		t.Errorf("after %d inputs generation %d, epoch %d after %d", n, st.Generation, st.Stage.Live.Epoch, epoch)
	}
	if got := r.counter("embedd_config_generation"); got != 21 {
		t.Errorf("the metric of the generation is %g", got)
	}

	// The last configuration is in force, and stays when the next one cannot be opened.
	inForce := func() bool { return r.pipeline().Stage.EvidenceRequired == 1019 }
	natstest.Await(t, "the last configuration is in force", inForce)
	next.Store(withGate(plugin.Gate{Evidence: 0.5}, p))
	if _, err := r.Reload(t.Context()); err == nil {
		t.Error("a configuration that cannot be opened is reloaded")
	}
	natstest.Await(t, "the last configuration is in force after a failed reload", inForce)
}

// TestReloadEndsAHalt: a pipeline that was halted and is opened again is halted neither by its status nor by its
// metric, and has no condition of before.
func TestReloadEndsAHalt(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	for _, name := range []string{"in", "out", "dead"} {
		s.Stream(jetstream.StreamConfig{Name: name})
	}
	p := basicPipeline()
	p.Stage.Fixed, p.Stop = fixedModel(t), stream.Stop{Bad: 10, Of: 20}
	var next atomic.Pointer[stream.Reload]
	r := reloadable(t, s.Connect(), &next, p)
	for range 10 {
		s.Publish(&nats.Msg{Subject: "in.x", Data: []byte("bad")})
	}
	hasCondition := func() bool {
		return slices.ContainsFunc(r.pipeline().Conditions, func(c stream.Condition) bool {
			return c.Name == "dead_share"
		})
	}
	natstest.Await(t, "the pipeline is halted, and all of its messages are dead letters", func() bool {
		return r.pipeline().Halted != "" && r.counter("embedd_halted") == 1 && hasCondition() && s.Count("dead") == 10
	})
	p.Stop = stream.Stop{}
	next.Store(&stream.Reload{Applied: []string{"limits.bad"}, Pipelines: []stream.Pipeline{p}})
	if _, err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.pipeline().Halted != "" || r.counter("embedd_halted") != 0 || hasCondition() {
		t.Errorf("after a reload the pipeline is halted: %q, the metric is %g, its conditions are %v", r.pipeline().Halted,
			r.counter("embedd_halted"), r.pipeline().Conditions)
	}
}

// TestReloadFails: a configuration that cannot be read, or with which one of two pipelines cannot be opened, changes
// nothing, and the status says so until a reload succeeds.
func TestReloadFails(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p, q := contractPipeline("p"), contractPipeline("q")
	makeStreams(s, p)
	makeStreams(s, q)
	var next atomic.Pointer[stream.Reload]
	r := reloadable(t, s.Connect(), &next, p, q)
	abandoned, committed := 0, 0
	wrong := withGate(plugin.Gate{Evidence: 0.5}, p)
	wrong.Pipelines = append(wrong.Pipelines, withGate(plugin.Gate{Evidence: 50}, q).Pipelines...)
	wrong.Abandon, wrong.Commit = func() { abandoned++ }, func() { committed++ }
	for _, c := range []struct {
		next *stream.Reload
		want string
	}{{nil, "line 7 is wrong"}, {wrong, "evidence 0.5"}} {
		next.Store(c.next)
		_, err := r.Reload(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
		for _, st := range r.Status() {
			if st.Generation != 1 || !strings.Contains(reloadCondition(st), c.want) {
				t.Errorf("%s has generation %d, conditions %v", st.Pipeline, st.Generation, st.Conditions)
			}
		}
	}
	got := r.counter("embedd_condition", "pipeline=p", "condition=reload")
	if got != 1 || abandoned != 1 || committed != 0 {
		t.Errorf("the metric is %g, abandoned %d, committed %d", got, abandoned, committed)
	}

	// Requests to the service are answered by every replica; one whose host has no configuration does not answer.
	startReplica(t, s.Connect(), p)
	next.Store(withGate(plugin.Gate{Evidence: 50}, p, q))
	msg, err := s.Connect().Request(stream.ServiceSubject("p", "reload"), nil, natstest.Timeout)
	var answer stream.Reloaded
	if err != nil || json.Unmarshal(msg.Data, &answer) != nil || answer.Pipeline != "p" || answer.Generation != 2 {
		t.Errorf("the service answers %+v, %v", answer, err)
	}
	publishShapes(s, p, good(30)...)
	publishShapes(s, q, good(30)...)
	for _, p := range []stream.Pipeline{p, q} {
		if answers := awaitOutcomes(s, p, 30); len(answers) != 30 {
			t.Errorf("%d inputs of %s are answered", len(answers), p.Name)
		}
	}
	for _, st := range r.Status() {
		if st.Generation != 2 || reloadCondition(st) != "" {
			t.Errorf("%s has generation %d, conditions %v", st.Pipeline, st.Generation, st.Conditions)
		}
	}
}
