package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/spec"
)

// guarded is a site whose daemon has a separate user, with permissions that a test revokes and grants. The test's own
// user may do everything.
func guarded(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, options: server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: t.TempDir(), NoAuthUser: "test", Users: users(nil), AuthTimeout: ample.Seconds()}}
	s.begin()
	for _, name := range []string{"in", "out", "dead"} {
		s.make(jetstream.StreamConfig{Name: name})
	}
	return s
}

func users(daemon *server.Permissions) []*server.User {
	return []*server.User{{Username: "test"}, {Username: "embedd", Password: "secret", Permissions: daemon}}
}

// denied are the permissions of a user who may do everything except publish on the given subjects.
func denied(subjects ...string) *server.Permissions {
	return &server.Permissions{Publish: &server.SubjectPermission{Deny: subjects}}
}

// grant changes the daemon's rights while the server runs.
func (s *site) grant(p *server.Permissions) {
	s.Helper()
	options := s.options
	options.Users = users(p)
	if err := s.server.ReloadOptions(&options); err != nil {
		s.Fatal(err)
	}
}

// runGuarded runs a pipeline as the daemon's user until the test ends, and returns a function that reads its status.
func (s *site) runGuarded(change func(*Pipeline)) (*Engine, *prometheus.Registry) {
	s.Helper()
	e, r, run := s.invite(change)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := run(ctx); err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(func() { cancel(); wg.Wait() })
	return e, r
}

func (s *site) invite(change func(*Pipeline)) (*Engine, *prometheus.Registry, func(context.Context) error) {
	s.Helper()
	nc := connect(s.T, s.server.ClientURL(), nats.UserInfo("embedd", "secret"))
	s.Cleanup(nc.Close)
	p := Pipeline{Name: "p", Stream: "in", Subject: "in.x", Output: "out.x", Dead: "dead.x", Models: Models{None: true},
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Until: plugin.UntilSkip,
			Fit: fit.Config{Method: "lda"}, Training: plugin.Training{Every: plugin.Every{Rows: 10}}}}
	if change != nil {
		change(&p)
	}
	r := prometheus.NewRegistry()
	e, err := New(Options{Conn: nc, Pipelines: []Pipeline{p}, Registerer: r, Wait: ample})
	if err != nil {
		s.Fatal(err)
	}
	return e, r, e.Run
}

// awaitState waits until the pipeline has a state and its reason contains all the words.
func (s *site) awaitState(e *Engine, state State, ready bool, words ...string) Status {
	s.Helper()
	var last Status
	for end := time.Now().Add(ample); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		all := e.Status()
		if len(all) == 0 {
			continue
		}
		last = all[0]
		is := last.State == state && last.Ready == ready
		for _, w := range words {
			is = is && strings.Contains(last.Reason, w)
		}
		if is {
			return last
		}
	}
	s.Fatalf("the pipeline is %q, ready %t, %q; want %q, ready %t, with %q", last.State, last.Ready, last.Reason, state,
		ready, words)
	return last
}

// gauge is one series of a registry; the labels are written as in the text form.
func gauge(t *testing.T, r *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	series:
		for _, m := range f.GetMetric() {
			for _, want := range labels {
				has := false
				for _, l := range m.GetLabel() {
					has = has || l.GetName()+"="+l.GetValue() == want
				}
				if !has {
					continue series
				}
			}
			return m.GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s %v", name, labels)
	return 0
}

// TestReady: a pipeline is ready if an input would be answered now, also while none arrives; if it is not ready, it
// reports what blocks it (Invariant 14).
func TestReady(t *testing.T) {
	t.Run("rights", func(t *testing.T) {
		t.Parallel()
		s := guarded(t)
		s.grant(denied("out.x"))
		e, r := s.runGuarded(nil)
		s.awaitState(e, StateBlocked, false, `publish on "out.x"`, "grant")
		if v := gauge(t, r, "embedd_state", "state=blocked"); v != 1 {
			t.Errorf("embedd_state of blocked is %v", v)
		}
		s.grant(denied("dead.x"))
		last := s.awaitState(e, StateParked, true, `publish on "dead.x"`)
		if len(last.Conditions) != 1 || last.Conditions[0].Blocks != spec.BlocksDeadLetters {
			t.Errorf("conditions: %v", last.Conditions)
		}
		if v := gauge(t, r, "embedd_condition", "condition=dead_letter_stream", "blocks=dead_letters"); v != 1 {
			t.Errorf("embedd_condition is %v", v)
		}
		s.grant(nil)
		s.awaitState(e, StateLearning, true)
	})
	t.Run("rights that cannot be asked for", func(t *testing.T) {
		t.Parallel()
		s := guarded(t)
		s.grant(denied("out.x", "$SYS.>"))
		e, _ := s.runGuarded(func(p *Pipeline) { p.Stage.Until = plugin.UntilPCA })
		for range 20 {
			s.send(1)
		}
		s.awaitState(e, StateBlocked, false, `publish on "out.x"`)
		s.grant(denied("$SYS.>"))
		for end := time.Now().Add(ample); e.Status()[0].State == StateBlocked; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("with the right the pipeline is still blocked: %s", e.Status()[0].Reason)
			}
		}
		s.acknowledged("p")
	})
	t.Run("acknowledgements", func(t *testing.T) {
		t.Parallel()
		s := guarded(t)
		s.grant(&server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"out.x", "dead.x", "$JS.API.>",
			"$KV.EMBEDD_STATE.p.identity", "$JS.ACK.in.embedd_p.>", natsx.UserInfoSubject}}})
		e, _ := s.runGuarded(nil)
		s.send(1)
		s.awaitState(e, StateLearning, true)
		s.grant(denied("$JS.ACK.in.>"))
		s.send(1)
		s.awaitState(e, StateBlocked, false, `publish on "$JS.ACK.`)
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		s := guarded(t)
		full := func(name string) {
			t.Helper()
			c := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, MaxMsgs: 1,
				Discard: jetstream.DiscardNew}
			if _, err := s.js.UpdateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			s.store(name+".other", []byte("x"))
		}
		purge := func(name string) {
			t.Helper()
			stream, err := s.js.Stream(t.Context(), name)
			if err == nil {
				err = stream.Purge(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		full("out")
		e, _ := s.runGuarded(nil)
		s.awaitState(e, StateBlocked, false, "stream out", "out.x", "full", "1 messages", "nats stream edit out --max-msgs=2")
		purge("out")
		s.awaitState(e, StateLearning, true)
		full("dead")
		s.awaitState(e, StateParked, true, "stream dead", "dead.x", "full")
		purge("dead")
		s.awaitState(e, StateLearning, true)
	})
	t.Run("connection", func(t *testing.T) {
		t.Parallel()
		s := guarded(t)
		e, _ := s.runGuarded(nil)
		s.awaitState(e, StateLearning, true)
		s.stop()
		s.awaitState(e, StateBlocked, false, "not connected")
		s.start()
		s.awaitState(e, StateLearning, true)
	})
	t.Run("streams", func(t *testing.T) {
		t.Parallel()
		s := guarded(t)
		e, _ := s.runGuarded(nil)
		s.awaitState(e, StateLearning, true)
		if err := s.js.DeleteStream(t.Context(), "out"); err != nil {
			t.Fatal(err)
		}
		s.awaitState(e, StateBlocked, false, "no stream takes", "out.x", "embedd setup --apply")
		s.make(jetstream.StreamConfig{Name: "out"})
		s.awaitState(e, StateLearning, true)
		if _, err := s.js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "in",
			Subjects: []string{"other"}}); err != nil {
			t.Fatal(err)
		}
		s.awaitState(e, StateBlocked, false, "stream in takes other and not in.x",
			"nats stream edit in --subjects='other,in.x'")
		if err := s.js.DeleteStream(t.Context(), "in"); err != nil {
			t.Fatal(err)
		}
		s.awaitState(e, StateBlocked, false, "input stream in", "gone")
		s.make(jetstream.StreamConfig{Name: "in", Storage: jetstream.MemoryStorage})
		s.awaitState(e, StateLearning, true)
	})
}

// TestEditedConsumer: a consumer that a user pauses, or that reads other messages since it was edited, is reported.
// Settings with which it would lose messages are set again. It takes as long as the streams are inspected four times.
func TestEditedConsumer(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	e, _ := s.runGuarded(nil)
	s.awaitState(e, StateLearning, true)
	config := func() jetstream.ConsumerConfig {
		c, err := s.js.Consumer(t.Context(), "in", "embedd_p")
		if err != nil {
			t.Fatal(err)
		}
		return c.CachedInfo().Config
	}
	edit := func(change func(*jetstream.ConsumerConfig)) {
		c := config()
		change(&c)
		if _, err := s.js.UpdateConsumer(t.Context(), "in", c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.js.PauseConsumer(t.Context(), "in", "embedd_p", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.awaitState(e, StateBlocked, false, "embedd_p of stream in is paused", "nats consumer resume in embedd_p")
	if _, err := s.js.ResumeConsumer(t.Context(), "in", "embedd_p"); err != nil {
		t.Fatal(err)
	}
	edit(func(c *jetstream.ConsumerConfig) {
		c.HeadersOnly, c.MaxDeliver, c.BackOff = true, 3, []time.Duration{time.Second}
	})
	s.until("the settings are set again", func() bool {
		c := config()
		return !c.HeadersOnly && c.MaxDeliver == -1 && len(c.BackOff) == 0
	})
	s.awaitState(e, StateLearning, true)
	edit(func(c *jetstream.ConsumerConfig) { c.FilterSubject = "in.y" })
	s.awaitState(e, StateBlocked, false, `reads ["in.y"]`, `"in.x"`)
	edit(func(c *jetstream.ConsumerConfig) { c.FilterSubject = "in.x" })
	s.awaitState(e, StateLearning, true)
}

// TestLag: unanswered messages are counted, also while the pipeline holds them and before its consumer exists.
func TestLag(t *testing.T) {
	start := time.Now()
	lags := func(t *testing.T, s *site, e *Engine, r *prometheus.Registry, messages float64, state State,
		words ...string) {
		t.Helper()
		s.awaitState(e, state, false, words...)
		for end := time.Now().Add(ample); ; time.Sleep(20 * time.Millisecond) {
			n, age := gauge(t, r, "embedd_lag_messages"), gauge(t, r, "embedd_lag_seconds")
			if n == messages && age > 0.5 && age <= time.Since(start).Seconds() {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("embedd_lag_messages is %v and embedd_lag_seconds %v; want %v messages", n, age, messages)
			}
		}
	}
	hold := func(p *Pipeline) { p.Stage.Until, p.Stage.Training.Every.Rows = plugin.UntilHold, 1000 }
	t.Run("holding", func(t *testing.T) {
		t.Parallel()
		s := guarded(t)
		s.store("in.other", []byte("of another subject"))
		s.send(7)
		e, r := s.runGuarded(hold)
		lags(t, s, e, r, 7, StateWaitingForModel, "7 of 250 labelled rows")
		// The consumer exists although nothing is pulled, and is recreated if a user deletes it: on an interest
		// stream nothing would be kept for it.
		if err := s.js.DeleteConsumer(t.Context(), "in", "embedd_p"); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(ample); ; time.Sleep(20 * time.Millisecond) {
			c, err := s.js.Consumer(t.Context(), "in", "embedd_p")
			if err == nil && c.CachedInfo().NumPending == 7 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the consumer that was deleted is not made again: %v", err)
			}
		}
		lags(t, s, e, r, 7, StateWaitingForModel)
	})
	t.Run("without the consumer", func(t *testing.T) {
		t.Parallel()
		s := guarded(t)
		s.store("in.other", []byte("of another subject"))
		s.send(5)
		e, r := s.runGuarded(hold)
		lags(t, s, e, r, 5, StateWaitingForModel)
		s.grant(denied("$JS.API.CONSUMER.CREATE.in.embedd_p.>"))
		if err := s.js.DeleteConsumer(t.Context(), "in", "embedd_p"); err != nil {
			t.Fatal(err)
		}
		lags(t, s, e, r, 5, StateBlocked, "consumer embedd_p", "$JS.API.CONSUMER.CREATE.in.embedd_p", "grant")
		s.grant(nil)
		lags(t, s, e, r, 5, StateWaitingForModel)
	})
}

// TestPermissionsAtStart: a permission that is missing at the start is named at once.
func TestPermissionsAtStart(t *testing.T) {
	s := guarded(t)
	for _, subject := range []string{"$JS.API.STREAM.INFO.in", "$JS.API.CONSUMER.CREATE.in.embedd_p.in.x"} {
		s.grant(denied(subject))
		_, _, run := s.invite(nil)
		begin := time.Now()
		err := run(t.Context()) // it retries as long again if it is not notified at once
		if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), fmt.Sprintf("publish on %q", subject)) ||
			strings.Contains(err.Error(), "deadline") {
			t.Errorf("without the right to publish on %s: %v", subject, err)
		}
		if took := time.Since(begin); took >= ample {
			t.Errorf("that took %v", took)
		}
	}
}

// TestNotDrained: a stop that left inputs unanswered is not reported as drained.
func TestNotDrained(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	if _, err := s.js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"},
		MaxMsgs: 1, Discard: jetstream.DiscardNew}); err != nil {
		t.Fatal(err)
	}
	s.store("out.other", []byte("x"))
	s.send(20)
	e, _, run := s.invite(func(p *Pipeline) { p.Stage.Until = plugin.UntilPCA })
	e.drainTimeout = 300 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	s.awaitState(e, StateBlocked, false, "publishing on out.x fails", "maximum messages exceeded",
		"nats stream edit out --max-msgs=2 --force")
	cancel()
	err := <-ended
	if !errors.Is(err, ErrDrain) || !strings.Contains(err.Error(), "20 inputs") ||
		!strings.Contains(err.Error(), "publishing on out.x fails") {
		t.Errorf("the run ended with %v", err)
	}
}

// TestOpened: it is called when the streams have been checked and requests are answered, and not if one is missing.
func TestOpened(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	if err := s.js.DeleteStream(t.Context(), "dead"); err != nil {
		t.Fatal(err)
	}
	e, _, run := s.invite(nil)
	opened := make(chan error, 1)
	e.options.Opened = func() {
		_, err := s.js.Conn().Request(ServiceSubject("p", "status"), nil, ample)
		opened <- err
	}
	if err := run(t.Context()); !errors.Is(err, ErrStreamMissing) || len(opened) > 0 {
		t.Errorf("without dead letters it ended with %v, called %d times", err, len(opened))
	}
	s.make(jetstream.StreamConfig{Name: "dead"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	if err := <-opened; err != nil {
		t.Errorf("a request when it is called: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
