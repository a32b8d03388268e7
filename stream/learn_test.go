package stream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/internal/training"
)

// TestOneReadFeedsBoth: while the durable consumer is in step, training reads no message itself.
func TestOneReadFeedsBoth(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.calm = ample // learning does not lose patience where the hot path has no processor
	s.send(500)
	q := s.runPipeline(nil, nil)
	q.await(500)
	s.send(500)
	q.await(1000)
	q.exactly(to(1000))
	answer, learn := q.metric("embedd_read_messages_total", "answer"), q.metric("embedd_read_messages_total", "learn")
	t.Logf("messages read: %v to be answered, %v once more to be learned", answer, learn)
	if answer != 1000 || learn > 10 {
		t.Errorf("%v messages were read to be answered and %v once more, want 1000 and none", answer, learn)
	}
}

// TestHandover: while the hot path holds messages, training reads; when a model is live, the hot path's messages serve
// both, and none is learned twice or left out.
func TestHandover(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.send(300)
	q := s.runPipeline(func(c *Pipeline) { c.Stage.Until = plugin.UntilHold }, func(q *testPipeline, l *training.Message) {
		q.training.Learn(t.Context(), l)
	})
	s.send(1200)
	q.await(1500)
	s.until("a model is live", func() bool { return q.Running.Live() != nil })
	s.send(200)
	q.await(1700)
	q.exactly(to(1700))
	t.Logf("messages read: %v to be answered, %v to be learned", q.metric("embedd_read_messages_total", "answer"),
		q.metric("embedd_read_messages_total", "learn"))
}

// TestStreamRecreated: training continues at the first message of a stream that was deleted and recreated, whatever its
// sequence numbers, and the status reports it.
func TestStreamRecreated(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]struct {
		config jetstream.StreamConfig
		n      int
		hold   bool
	}{
		"fewer messages":   {jetstream.StreamConfig{}, 5, false},
		"as many":          {jetstream.StreamConfig{}, 50, false},
		"more messages":    {jetstream.StreamConfig{}, 300, false},
		"numbers continue": {jetstream.StreamConfig{FirstSeq: 51}, 20, false},
		"numbers jump":     {jetstream.StreamConfig{FirstSeq: 100_000}, 20, false},
		"while it holds":   {jetstream.StreamConfig{}, 30, true},
		"jumps and holds":  {jetstream.StreamConfig{FirstSeq: 1000}, 30, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			q := s.runPipeline(func(c *Pipeline) {
				if again.hold {
					c.Stage.Until = plugin.UntilHold
				}
			}, nil)
			s.send(50)
			q.await(50)
			s.again(again.config)
			begin := time.Now()
			s.send(again.n)
			q.await(50 + again.n)
			t.Logf("learning continued within %v", time.Since(begin).Round(time.Millisecond))
			q.exactly(to(50 + again.n))
			q.says("the input stream was recreated at")
			if n := q.metric("embedd_reader_restarts_total", "recreated"); n != 1 {
				t.Errorf("%v restarts are counted, want 1", n)
			}
		})
	}
}

// TestStreamRecreatedBusy repeatedly deletes and recreates the stream under load.
func TestStreamRecreatedBusy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.again(jetstream.StreamConfig{})
	q := s.runPipeline(nil, nil)
	var want []int
	for range 5 {
		s.send(100)
		want = append(want, between(s.sent-99, s.sent)...)
		q.await(s.sent)
		s.again(jetstream.StreamConfig{})
	}
	s.send(10)
	q.await(s.sent)
	q.exactly(append(want, between(s.sent-9, s.sent)...))
}

// TestPurged: messages that are purged before they were learned are counted and reported, and training continues with
// the others.
func TestPurged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const n, upTo = 3000, 2000
	s.send(n)
	reached, purged := make(chan struct{}), make(chan struct{})
	// The hot path holds, so the reader is on its own; its first pull brings more than is learned then.
	q := s.runPipeline(func(c *Pipeline) { c.Stage.Until = plugin.UntilHold }, func(q *testPipeline, l *training.Message) {
		if l.Origin.Seq == 100 {
			close(reached)
			<-purged
		}
	})
	<-reached
	s.purge(upTo + 1)
	close(purged)
	q.await(n)
	s.send(10)
	q.await(n + 10)
	for end := time.Now().Add(ample); q.status() == "" && time.Now().Before(end); {
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

// TestPurgedLearned: a purge of messages that were learned already is not reported.
func TestPurgedLearned(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.runPipeline(nil, nil)
	s.send(50)
	q.await(50)
	s.purge(0)
	time.Sleep(training.InspectAfter + training.InspectAfter/2)
	s.send(50)
	q.await(100)
	q.exactly(to(100))
	if q.status() != "" {
		t.Errorf("the status says %q, want nothing", q.status())
	}
}

// TestRenumbered restores an old copy of the server's store: the stream has the same name and creation time, and
// sequence numbers that were read are assigned again to other messages.
func TestRenumbered(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]int{"seen by its end": 20, "grown past what was read": 90} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			q := s.runPipeline(nil, nil)
			s.send(50)
			q.await(50)
			s.stop()
			backup := t.TempDir()
			if err := os.CopyFS(backup, os.DirFS(s.options.StoreDir)); err != nil {
				t.Fatal(err)
			}
			s.start()
			s.send(50)
			q.await(100)
			s.stop()
			s.options.StoreDir = backup
			s.start()
			s.send(more)
			q.await(100 + more)
			q.exactly(to(100 + more))
			q.says("renumbered")
		})
	}
}

// TestRenumberedUnseen: an older copy of the stream that has grown past the last message read before training looks
// again, while training only waited: no error and no message of the hot path reports it.
func TestRenumberedUnseen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.send(50)
	s.stop()
	backup := t.TempDir()
	if err := os.CopyFS(backup, os.DirFS(s.options.StoreDir)); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.send(50)
	js := s.dial()
	q := &testPipeline{t: t, registry: prometheus.NewRegistry()}
	e, err := New(Options{Conn: js.Conn(), Registerer: q.registry, Pipelines: []Pipeline{{Name: "p", Stream: "in",
		Subject: "in.x", Output: "out.x", Dead: "out.dead", Models: Models{None: true},
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Until: plugin.UntilSkip,
			Fit: fit.Config{Method: "lda"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	q.pipeline = s.open(e, js)
	defer q.close()
	q.training.OpenFeed()
	// another replica answers
	q.training.Feed.Bind(q.Created, &jetstream.ConsumerInfo{Delivered: jetstream.SequenceInfo{Consumer: 100, Stream: 100}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.training.Read(ctx, func(_ context.Context, l *training.Message) { q.note(l) })
	}()
	defer func() {
		cancel()
		<-ended
	}()
	q.await(100)
	s.until("learning only waits", func() bool { return s.state("in").Consumers == 1 })
	s.stop()
	s.options.StoreDir = backup
	s.start()
	s.send(60)
	q.training.Feed.Wake()
	q.await(150)
	q.exactly(to(len(q.got())))
	q.says("renumbered")
}

// TestReplicas: two replicas share a durable consumer, so each hot path gets a part; each training side gets all
// messages.
func TestReplicas(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.send(200)
	a := s.runPipeline(nil, nil)
	b := s.runPipeline(nil, nil)
	s.until("both answer", func() bool {
		s.send(100)
		return a.metric("embedd_read_messages_total", "answer") > 0 && b.metric("embedd_read_messages_total", "answer") > 0
	})
	for _, q := range []*testPipeline{a, b} {
		q.await(s.sent)
		q.exactly(to(s.sent))
	}
	a.end()
	s.until("the other is in step again", func() bool {
		before := b.metric("embedd_read_messages_total", "learn")
		time.Sleep(training.SharedFor / 10)
		s.send(100)
		b.await(s.sent)
		return b.metric("embedd_read_messages_total", "learn") == before
	})
	b.exactly(to(s.sent))
}

// TestOverflow: messages that the feed drops are read from the stream.
func TestOverflow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.calm = ample // all comes from the hot path, however slow that is
	answered, begun := make(chan struct{}), false
	q := s.runPipeline(func(c *Pipeline) { c.InFlight = 64 << 10 }, func(*testPipeline, *training.Message) {
		if !begun {
			<-answered
		}
		begun = true
	})
	const n = 1500
	s.send(n)
	s.acknowledged("p")
	close(answered)
	q.await(n)
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

// TestFilteredStream: sequence numbers of other subjects are neither gaps nor losses, nothing is read again because of
// them, and reading ends if only such messages are left.
func TestFilteredStream(t *testing.T) {
	t.Parallel()
	for name, calm := range map[string]time.Duration{"the hot path is waited for": ample, "learning looks for itself": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.calm = calm
			mixed := func(n int) {
				for range n {
					s.store("in.other", []byte("x"))
					s.send(1)
					s.store("in.other", []byte("y"))
				}
			}
			mixed(100)
			q := s.runPipeline(nil, nil)
			q.await(100)
			mixed(50)
			if calm == 0 {
				time.Sleep(training.InspectAfter + time.Second)
			}
			mixed(50)
			q.await(200)
			q.exactly(to(200))
			if lost := q.metric("embedd_dropped_messages_total", "learn"); lost != 0 || q.status() != "" {
				t.Errorf("%v messages are counted as lost, and the status says %q", lost, q.status())
			}
			if n := q.metric("embedd_reader_restarts_total", "behind"); n > 0 {
				t.Errorf("%v gaps are counted, want none", n)
			}
			// Where it looks for itself it may be before a hot path that has no processor.
			if n := q.metric("embedd_read_messages_total", "learn"); n > 10 && calm > 0 {
				t.Errorf("%v messages were read once more, want none", n)
			}
		})
	}
}

// TestServerRestarts restarts the server while training runs.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.runPipeline(nil, nil)
	for range 3 {
		s.send(200)
		s.stop()
		s.start()
		s.send(200)
	}
	q.await(1200)
	q.exactly(to(1200))
	if s := q.status(); s != "" {
		t.Errorf("the status says %q; a restart of the server is no change of the stream", s)
	}
}

// TestRestarts ends the pipeline at random points. Each time its successor gets every message from the start of the
// window on, in order.
func TestRestarts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	random := rand.New(rand.NewPCG(1, 2))
	times := testsize.Of(6, 12)
	if testsize.Soak() {
		times = 100
	}
	for i := range times {
		s.first = uint64(random.IntN(s.sent + 1))
		q := s.runPipeline(func(c *Pipeline) { c.AckWait = time.Second }, nil)
		s.send(50 + random.IntN(100))
		if i%3 > 0 { // or it ends with messages under way
			q.await(s.sent)
		}
		q.end()
		got := q.got()
		if len(got) > 0 {
			q.exactly(between(max(int(s.first), 1), got[len(got)-1]))
		}
	}
}

// TestStreamRecreatedBehind recreates the stream while training is behind, with a gap of sequence numbers for which the
// new stream has messages: none of them is taken for a message of the old stream.
func TestStreamRecreatedBehind(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	// The hot path is done while training is at the 100th message, so what it handed over has a gap, and learning
	// looks at the stream; with the 400th there is more to come when the stream ends.
	answered, recreated, lessons := make(chan struct{}), make(chan struct{}), 0
	q := s.runPipeline(func(c *Pipeline) { c.InFlight = 64 << 10 }, func(*testPipeline, *training.Message) {
		switch lessons++; lessons {
		case 100:
			<-answered
		case 400:
			<-recreated
		}
	})
	s.send(1000)
	s.acknowledged("p")
	close(answered)
	q.await(400)
	s.again(jetstream.StreamConfig{})
	s.send(1500)
	close(recreated)
	q.await(2500)
	got := q.got()
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Error("messages came twice or out of order")
	}
	of, _ := slices.BinarySearch(got, 1001)
	t.Logf("%d of 1000 messages of the old stream were learned", of)
	lost := 1000 - of
	// Messages that were not read before the stream was deleted cannot be counted.
	n := q.metric("embedd_dropped_messages_total", "learn")
	if n < 1 || n > float64(lost) {
		t.Errorf("%v messages are counted as lost, and %d are", n, lost)
	}
	q.says(fmt.Sprintf("at least %v messages of the previous one were not learned", n))
	if !slices.Equal(got[of:], between(1001, 2500)) {
		t.Errorf("%d messages of the new stream were learned, want 1500", len(got)-of)
	}
	for i, at := range q.at {
		if old := at.Created.Equal(q.at[0].Created); old != (i < of) {
			t.Fatalf("message %d has the position %v", got[i], at)
		}
	}
}

// TestRenumberedRestart: after an older copy of the stream was restored, and after a restart, the messages with the new
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
	teach := func(q *testPipeline, l *training.Message) { q.training.Learn(t.Context(), l) }
	rows := func(q *testPipeline, n int) {
		t.Helper()
		for end := time.Now().Add(ample); ; time.Sleep(20 * time.Millisecond) {
			status := q.Running.Status()
			if status.Rows == n && !status.Restoring && status.Backlog == 0 {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the window has %d rows, want %d; %+v; %s", status.Rows, n, status, q.status())
			}
		}
	}
	q := s.runPipeline(learning, teach)
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
	s.send(800) // more than were lost
	rows(q, 1800)
	q.says("renumbered")
	q.end()
	// The stream holds the first 400 messages and the 800 newest.
	q = s.runPipeline(learning, teach)
	s.send(100)
	rows(q, 1300)
}

// TestReadOnce: if training gets only the hot path's messages, redelivered ones, to this process or its successor, are
// learned once by each, and none is missed.
func TestReadOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.again(jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	all := map[int]bool{}
	random := rand.New(rand.NewPCG(5, 6))
	for i := range 6 {
		q := s.runPipeline(func(c *Pipeline) {
			c.AckWait = time.Second
			if i%2 == 0 {
				c.Stage.Until = plugin.UntilHold // everything that is pulled waits, and is left to the successor
			}
		}, nil)
		s.send(200)
		if i%2 == 0 {
			q.await(s.sent)
			time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond) // some are delivered again
		} else {
			for end := time.Now().Add(ample); len(q.got()) < 400 && time.Now().Before(end); {
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

// TestLearningReachesTheEnd: training reaches the end of a stream whose last message has another subject, also while
// nothing is answered.
func TestLearningReachesTheEnd(t *testing.T) {
	t.Parallel()
	for _, until := range []plugin.Until{plugin.UntilHold, plugin.UntilSkip} {
		s := newSite(t)
		s.send(5)
		s.store("in.y", numbered(1, 0))
		s.runPipeline(func(c *Pipeline) { c.Stage.Until = until }, func(q *testPipeline,
			l *training.Message) {
			q.training.Learn(context.Background(), l)
		})
		s.until("that is noted", func() bool {
			kv, err := s.js.KeyValue(t.Context(), statestore.Bucket)
			if err != nil {
				return false
			}
			entry, err := kv.Get(t.Context(), statestore.TrainingKey("p"))
			return err == nil && strings.HasPrefix(string(entry.Value()), `{"stream_created":`) &&
				strings.HasSuffix(string(entry.Value()), `,"starts":0}`)
		})
	}
}
