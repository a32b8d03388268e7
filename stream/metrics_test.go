package stream_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
)

func streamsOf(s *natstest.Server) {
	for _, name := range []string{"in", "out", "dead"} {
		s.Stream(jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}})
	}
}

func message(subject string, body []byte) *nats.Msg { return &nats.Msg{Subject: subject, Data: body} }

// series reports whether a metric has any series.
func (r *replica) series(name string) bool {
	r.t.Helper()
	families, err := r.Metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return true
		}
	}
	return false
}

// TestMetricsOfAFirstModel: the rows until the first fit are counted down, and gauges of a model have series only once
// there is one.
func TestMetricsOfAFirstModel(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	streamsOf(s)
	r := startReplica(t, s.Connect(), basicPipeline())
	s.Publish(message("in.x", drawRows(1, 40, 4).message(t)))
	natstest.Await(t, "60 rows are left to learn", func() bool { return r.counter("embedd_fit_due_rows") == 60 })
	ofModel := []string{"embedd_model_created_timestamp_seconds", "embedd_model_stale"}
	for _, name := range append([]string{"embedd_accuracy", "embedd_drift"}, ofModel...) {
		if r.series(name) {
			t.Errorf("%s has a series without a model", name)
		}
	}
	s.Publish(message("dead.x", []byte("one")))
	s.Publish(message("in.x", drawRows(2, 80, 4).message(t)))
	natstest.Await(t, "a model is live", func() bool { return r.live() != "" })
	for _, name := range ofModel {
		if !r.series(name) {
			t.Errorf("%s has no series", name)
		}
	}
	if at := r.counter("embedd_model_created_timestamp_seconds"); at > float64(time.Now().Unix()+1) || at < 1e9 {
		t.Errorf("the model was fitted at %v", at)
	}
	for name, want := range map[string]float64{"embedd_inflight_limit_bytes": 256 << 20,
		"embedd_window_limit_bytes": 1 << 30, "embedd_window_limit_rows": 20_000, "embedd_window_limit_classes": 1000,
		"embedd_epoch_changes_total": 0, "embedd_redeliveries_total": 0, "embedd_duplicates_total": 0} {
		if got := r.counter(name); got != want || !r.series(name) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	natstest.Await(t, "nothing is in flight", func() bool { return r.counter("embedd_inflight_bytes") == 0 })
}

// TestMetricsOfRepetitions: an input that another client pulled and released is counted as redelivered, and answers
// that are stored already as duplicates, also where the consumer was deleted and all inputs are new to it.
func TestMetricsOfRepetitions(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := basicPipeline()
	p.Stage.Fixed = fixedModel(t)
	streamsOf(s)
	inputs(s, 5)
	s.Publish(message("dead.x", []byte("one")))
	r := startReplica(t, s.Connect(), p)
	natstest.Await(t, "the inputs are answered", func() bool { return s.Count("out") == 5 && acknowledged(s, 5) })
	natstest.Await(t, "the stored dead letter is counted",
		func() bool { return r.counter("embedd_dead_letters_stored") == 1 })
	if n := r.counter("embedd_duplicates_total"); n != 0 {
		t.Errorf("%v duplicates of new inputs", n)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	inputs(s, 1)
	c, err := s.JS.Consumer(t.Context(), "in", "embedd_p")
	if err != nil {
		t.Fatal(err)
	}
	var msg jetstream.Msg
	natstest.Await(t, "the input is pulled", func() bool {
		msg, err = c.Next(jetstream.FetchMaxWait(time.Second))
		return err == nil
	})
	if err := msg.Nak(); err != nil {
		t.Fatal(err)
	}
	r = startReplica(t, s.Connect(), p)
	natstest.Await(t, "the input is answered", func() bool { return s.Count("out") == 6 && acknowledged(s, 6) })
	if n := r.counter("embedd_redeliveries_total"); n != 1 {
		t.Errorf("%v redeliveries, want 1", n)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.JS.DeleteConsumer(t.Context(), "in", "embedd_p"); err != nil {
		t.Fatal(err)
	}
	r = startReplica(t, s.Connect(), p)
	natstest.Await(t, "all answers are found", func() bool { return r.counter("embedd_duplicates_total") == 6 })
	if n := s.Count("out"); n != 6 {
		t.Errorf("%d outputs of 6 inputs", n)
	}
}

// acknowledged reports whether the first n inputs are acknowledged.
func acknowledged(s *natstest.Server, n uint64) bool {
	c, err := s.JS.Consumer(s.Context(), "in", "embedd_p")
	if err != nil {
		s.Fatal(err)
	}
	return c.CachedInfo().AckFloor.Stream == n
}
