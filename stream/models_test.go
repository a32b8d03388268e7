package stream

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/training"
	"github.com/embedd/embedd/stream/registry"
)

// twoColumns is a message of rows with two features, a and b, and a label.
func twoColumns(from, rows int) []byte {
	schema := arrow.NewSchema([]arrow.Field{{Name: "label", Type: arrow.BinaryTypes.String},
		{Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "b", Type: arrow.PrimitiveTypes.Float64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range rows {
		n := from + i
		b.Field(0).(*array.StringBuilder).Append([]string{"even", "odd"}[n%2])
		b.Field(1).(*array.Float64Builder).Append(float64(n%2*50 + n*31%17))
		b.Field(2).(*array.Float64Builder).Append(float64(n%2*-30 + n*7%13))
	}
	rec := b.NewRecord()
	defer rec.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	_ = w.Write(rec)
	_ = w.Close()
	return out.Bytes()
}

// learner is a pipeline that holds messages until it has trained a model of some features, and stores it in JetStream.
func (s *site) learner(features ...string) *testPipeline {
	s.Helper()
	return s.runPipeline(func(c *Pipeline) {
		c.Stage.Spec.Features, c.Stage.Until, c.Stage.Fit.Dim = features, plugin.UntilHold, 1
	}, func(q *testPipeline, l *training.Message) { q.training.Learn(context.Background(), l) })
}

// answers waits for outputs, and returns the last of them.
func (s *site) answers(least uint64) (last *jetstream.RawStreamMsg) {
	s.Helper()
	out, err := s.js.Stream(s.Context(), "out")
	if err != nil {
		s.Fatal(err)
	}
	s.until(fmt.Sprintf("there are %d outputs", least), func() bool {
		last, err = out.GetLastMsgForSubject(s.Context(), "out.x")
		return err == nil && last.Sequence >= least
	})
	return last
}

func (s *site) epoch(least uint64) (n int) {
	s.Helper()
	_, err := fmt.Sscan(s.answers(least).Header.Get(wire.HeaderEpoch), &n)
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// TestLostStoreEpochs: after the store was deleted no epoch is used a second time, whether outputs are still stored or
// not; a new pipeline starts with the first epoch.
func TestLostStoreEpochs(t *testing.T) {
	t.Parallel()
	for _, outputs := range []bool{true, false} {
		s := newSite(t)
		q := s.learner("a", "b")
		for i := range 10 {
			s.store("in.x", twoColumns(100*i, 100))
		}
		if n := s.epoch(10); n != 1 {
			t.Fatalf("a new pipeline begins with epoch %d", n)
		}
		q.awaitAcks(10)
		q.end()
		for _, stream := range []string{"OBJ_" + registry.Bucket, "KV_" + registry.Bucket} {
			if err := s.js.DeleteStream(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
		}
		least := uint64(11)
		if !outputs {
			s.purgeOut()
		}
		q = s.learner("a", "b")
		s.store("in.x", twoColumns(5000, 100))
		if n := s.epoch(least); n < int(time.Now().Unix())-3600 {
			t.Errorf("outputs %v: after the store was deleted the epoch is %d", outputs, n)
		}
		if !strings.Contains(q.pipeline.status().Store, "none is used twice") {
			t.Errorf("the status says %q", q.pipeline.status().Store)
		}
		q.end()
	}
}

// TestFirstEpochBehindDeletedMessages: a new pipeline has answered nothing, also if its stream has deleted messages.
func TestFirstEpochBehindDeletedMessages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.store("in.x", twoColumns(0, 1))
	in, err := s.js.Stream(t.Context(), "in")
	if err == nil {
		err = in.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	q := s.learner("a", "b")
	defer q.end()
	if text := q.pipeline.status().Store; text != "" {
		t.Errorf("the status of a new pipeline says %q", text)
	}
}

func (q *testPipeline) awaitAcks(n uint64) {
	q.t.Helper()
	natstest.Await(q.t, fmt.Sprintf("message %d is acknowledged", n), func() bool {
		c, err := q.Input.Consumer(q.t.Context(), needs.ConsumerName(q.Name, ""))
		return err == nil && c.CachedInfo().AckFloor.Stream >= n
	})
}

func (s *site) purgeOut() {
	s.Helper()
	out, err := s.js.Stream(s.Context(), "out")
	if err == nil {
		err = out.Purge(s.Context())
	}
	if err != nil {
		s.Fatal(err)
	}
}

// TestOtherFeatures: a change of schema.features in the configuration makes a first model of the new features, in a new
// epoch, and is reported; when the change is undone, the old model can be chosen again. A pinned model ends the start
// with an error that names the fix.
func TestOtherFeatures(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.learner("a")
	for i := range 10 {
		s.store("in.x", twoColumns(100*i, 100))
	}
	if n := s.epoch(10); n != 1 {
		t.Fatalf("epoch %d", n)
	}
	q.end()
	// A model that was stored last may be live in the store alone.
	store := registry.New(mustStore(t, s), "p", registry.Options{})
	p, err := store.Pointer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := p.Live
	q = s.learner("a", "b")
	s.store("in.x", twoColumns(5000, 100))
	if n := s.epoch(11); n < 2 {
		t.Errorf("with other features the epoch is %d", n)
	}
	if l := q.Running.Live(); l.Model.M() != 2 {
		t.Errorf("the model has %d features", l.Model.M())
	}
	if text := q.pipeline.status().Store; !strings.Contains(text, "model rollback "+old) {
		t.Errorf("the status says %q, and %s was live", text, old)
	}
	q.end()
	if _, err := store.Rollback(t.Context(), registry.Request{Version: old}); err != nil {
		t.Fatal(err)
	}
	q = s.learner("a")
	if l := q.Running.Live(); l == nil || l.Version != old {
		t.Errorf("after going back live is %+v", l)
	}
	q.end()
	if _, err := store.Pin(t.Context(), registry.Request{}); err != nil {
		t.Fatal(err)
	}
	e, err := New(Options{Conn: s.js.Conn(), Pipelines: []Pipeline{{Name: "p", Stream: "in", Subject: "in.x",
		Output: "out.x", Dead: "out.dead", Stage: plugin.Config{Spec: q.Stage.Spec}}}, Wait: ample})
	if err != nil {
		t.Fatal(err)
	}
	e.options.Pipelines[0].Stage.Spec.Features = []string{"b"}
	if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "embedd model unpin p") {
		t.Errorf("with a pinned model of other features: %v", err)
	}
}

func mustStore(t *testing.T, s *site) registry.Store {
	t.Helper()
	store, err := registry.JetStream(t.Context(), s.js)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestDamagedStore: a pipeline whose live model lost its bytes, and whose pointer is damaged, starts with the version
// before, answers, and reports it; it can be stopped.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.learner("a", "b")
	sent := 0
	store := registry.New(mustStore(t, s), "p", registry.Options{})
	s.until("there are two versions", func() bool { // the fewer fits there were meanwhile, the more rows it takes
		s.store("in.x", twoColumns(100*sent, 100))
		sent++
		p, err := store.Pointer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return sent >= 30 && len(p.Versions) > 1
	})
	s.answers(uint64(sent))
	s.until("all is learned", func() bool {
		is := q.Running.Status()
		return is.Received == 100*sent && !is.Fitting
	})
	q.end()
	p, err := store.Pointer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := s.js.ObjectStore(t.Context(), registry.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	info, err := objects.GetInfo(t.Context(), p.Live)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := s.js.Stream(t.Context(), "OBJ_"+registry.Bucket)
	if err == nil {
		err = bytes.Purge(t.Context(), jetstream.WithPurgeSubject("$O."+registry.Bucket+".C."+info.NUID))
	}
	if err != nil {
		t.Fatal(err)
	}
	pointers, err := s.js.KeyValue(t.Context(), registry.Bucket)
	if err == nil {
		_, err = pointers.PutString(t.Context(), "p", "{")
	}
	if err != nil {
		t.Fatal(err)
	}
	strict := Pipeline{Name: "p", Stream: "in", Subject: "in.x", Output: "out.x", Dead: "out.dead",
		Stage: plugin.Config{Spec: q.Stage.Spec}, Models: Models{Strict: true}}
	e, err := New(Options{Conn: s.js.Conn(), Pipelines: []Pipeline{strict}, Wait: ample})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "embedd model rollback") {
		t.Errorf("after a stop: %v", err)
	}
	q = s.learner("a", "b")
	if l := q.Running.Live(); l == nil || l.Version != p.Previous {
		t.Fatalf("live is %+v, want %s: %s", l, p.Previous, q.pipeline.status().Store)
	}
	s.store("in.x", twoColumns(5000, 100))
	s.answers(uint64(sent) + 1)
	text := q.pipeline.status().Store
	if !strings.Contains(text, "pointer") || !strings.Contains(text, p.Live+" cannot be read") {
		t.Errorf("the status says %q", text)
	}
}
