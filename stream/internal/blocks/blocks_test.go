package blocks

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/internal/training"
	"github.com/embedd/embedd/stream/spec"
)

const blockSize = 10

// open opens the blocks of a pipeline whose schema is known and whose input is the stream "in". Nothing runs.
func open(t *testing.T, server *natstest.Server, input jetstream.Stream) *Blocks {
	t.Helper()
	contract, err := arrowio.NewContract([]string{"x"}, "label", "")
	if err != nil {
		t.Fatal(err)
	}
	c := plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Contract: contract,
		Fit: fit.Config{Method: "lda"}, Training: plugin.Training{Block: blockSize}}
	running, err := stage.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Close)
	metrics, err := health.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &scope.Scope{Pipeline: spec.Pipeline{Name: "p", Stream: "in", Subject: "in.x", Stage: c}, JS: server.JS,
		Conn: server.Connect(), Streams: natsx.NewStreamCache(), Instance: "test", Input: input,
		Created: input.CachedInfo().Created, Running: running, Log: slog.New(slog.DiscardHandler),
		Series: metrics.Series("p", false, true)}
	r := replica.New(s, replica.Hooks{})
	b := New(s, r, training.New(s, r, training.Hooks{}))
	if b.bucket, err = summaries.Open(t.Context(), server.JS, 1); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWaiting: the status says which block learning waits for, until it comes or is skipped.
func TestWaiting(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	input := server.Stream(jetstream.StreamConfig{Name: "in"})
	for n := range 3*blockSize + 3 {
		server.Publish(&nats.Msg{Subject: "in.x", Data: fmt.Append(nil, n)})
	}
	b := open(t, server, input)
	l := newLearner(b)
	step := func(want bool, waiting string) {
		t.Helper()
		progressed, err := l.step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if text := b.Waiting(); progressed != want || (text == "") != (waiting == "") || !strings.Contains(text, waiting) {
			t.Errorf("progressed: %t, waiting: %q; want %t, %q", progressed, text, want, waiting)
		}
	}
	store := func(n uint64) {
		t.Helper()
		sum, err := b.Running.SummaryBuilder(l.block(n), b.Running.Features())
		if err != nil {
			t.Fatal(err)
		}
		text, err := sum.Bytes(t.Context())
		if err == nil {
			_, err = l.collection.Put(t.Context(), n, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	step(false, "the summary of messages 1 to 10,")
	store(0)
	step(true, "")
	if err := input.Purge(t.Context(), jetstream.WithPurgeSequence(2*blockSize+1)); err != nil {
		t.Fatal(err)
	}
	b.Streams = natsx.NewStreamCache() // as after a while
	step(true, "")
	step(false, "the summary of messages 21 to 30,")
	store(2)
	step(true, "")
	step(false, "learning waits until message 40 is stored, the last of the next block (training.block is 10)")
}

// TestJoinsTheWindow: a replica that becomes the trainer begins with the first block of the window of the one before,
// not with the first block that the live model is fitted on. A former trainer keeps the blocks of its own window too.
func TestJoinsTheWindow(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	input := server.Stream(jetstream.StreamConfig{Name: "in"})
	for range 6 * blockSize {
		server.Publish(&nats.Msg{Subject: "in.x"})
	}
	b := open(t, server, input)
	for resumes, want := range map[bool]uint64{false: 2, true: 1} {
		l := newLearner(b)
		if _, err := l.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.resumes, l.next = resumes, 1
		if err := l.collection.SetProgress(t.Context(), summaries.Progress{From: 2, Next: 5}); err != nil {
			t.Fatal(err)
		}
		if l.SkipTo(nil); l.storeProgress(t.Context()) != nil || l.next != want {
			t.Errorf("it resumes: %t; it begins with block %d, want %d", resumes, l.next, want)
		}
	}
}

// TestRestoredHub: after an older copy of the hub's stream was restored and the bucket of the summaries deleted, a hub
// learns the whole stream and later messages, whatever the start position of the live model's fit.
func TestRestoredHub(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	b := open(t, server, server.Stream(jetstream.StreamConfig{Name: "in"}))
	var err error
	if b.receiver, err = summaries.OpenReceiver(t.Context(), server.JS, "p", nil, 1<<20, 1); err != nil {
		t.Fatal(err)
	}
	b.Input, b.Created = b.receiver.Stream(), b.receiver.Info().Created
	b.Stage.Source = map[string]string{"created": b.Created.UTC().Format(time.RFC3339Nano)}
	file, err := os.Open("../../../model/testdata/geodesic-version1.embedd")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := model.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	source := map[string]string{"created": b.Stage.Source["created"], "first": "60", "last": "100"}
	live := &plugin.Live{Model: m.WithNote(model.Note{Source: source}), State: []byte("of the newer copy")}
	b.training.Resume(live)
	h := newHubLearner(b)
	if h.SkipTo(live); h.refresh(t.Context()) != nil || h.from != 0 || h.next != 0 {
		t.Errorf("the hub reads from message %d, and learns from message %d on", h.next, h.from)
	}
}

// TestHostileEdge: messages of an edge that no replica would send are rejected, and those behind them are read. Counts
// that cannot be read do not keep the hub from learning.
func TestHostileEdge(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	b := open(t, server, server.Stream(jetstream.StreamConfig{Name: "in"}))
	b.Edges = []string{"berlin"}
	server.Stream(jetstream.StreamConfig{Name: summaries.HubStream, Subjects: []string{"$KV.EMBEDD_EDGES.>"}})
	var err error
	if b.receiver, err = summaries.OpenReceiver(t.Context(), server.JS, "p", nil, 1<<20, 1); err != nil {
		t.Fatal(err)
	}
	b.Input, b.Created = b.receiver.Stream(), b.receiver.Info().Created
	const subject = "$KV.EMBEDD_EDGES.berlin.p"
	digest := strings.Repeat("0", 64)
	hostile := []string{"", "null", "7", "{}", "[]", `{"first":-1,"last":5}`, `{"first":1,"last":1e30}`,
		`{"created":1,"first":1,"last":10,"digest":"*","bytes":5}`,
		`{"created":1,"first":1,"last":10,"digest":"` + digest + `"}`}
	for _, sizes := range []string{"1,2,-5", "9,2,5", "0,9,5", "1,18446744073709551615,5", "1,10,5",
		"1,10,9223372036854775807"} {
		n := strings.Split(sizes, ",")
		hostile = append(hostile, fmt.Sprintf(`{"created":-1,"first":%s,"last":%s,"settings":%q,"digest":%q,"bytes":%s}`,
			n[0], n[1], b.Running.Settings(), digest, n[2]))
	}
	for _, text := range hostile {
		server.Publish(&nats.Msg{Subject: subject, Data: []byte(text)})
	}
	server.Publish(&nats.Msg{Subject: subject + ".counted", Data: []byte(`[{"messages":-1`)})
	c := b.Stage
	c.Contract = nil
	if b.Running, err = stage.New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Running.Close)
	h := newHubLearner(b)
	for steps := 0; h.next <= uint64(len(hostile)); steps++ {
		if _, err := h.step(t.Context()); err != nil || steps > maxReads*len(hostile) {
			t.Fatalf("after %d steps it is at message %d: %v", steps, h.next, err)
		}
	}
	if len(h.ledger.Edges) > 0 || !strings.Contains(b.training.Event(), "of edge berlin") {
		t.Errorf("the ledger has %+v, and the status says %q", h.ledger, b.training.Event())
	}
	if _, err := h.step(t.Context()); err != nil || b.Waiting() != "learning waits for summaries of the edges" {
		t.Errorf("it waits for %q: %v", b.Waiting(), err)
	}
}

// TestSentIsSwept: the summary of a block that another replica stored after it was sent is deleted.
func TestSentIsSwept(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	b := open(t, server, server.Stream(jetstream.StreamConfig{Name: "in"}))
	r := &reader{input: input{Blocks: b}}
	if _, err := r.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for r.next = maxAhead - 2; r.next <= maxAhead; r.next++ {
		if err := r.setProgress(t.Context(), r.next); err != nil {
			t.Fatal(err)
		}
		if r.next == maxAhead-1 {
			if _, err := r.collection.Put(t.Context(), 3, []byte("late")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if has, err := r.collection.Has(t.Context(), 3); has || err != nil {
		t.Errorf("the late summary is still stored: %t, %v", has, err)
	}
}

// TestSendingFailsOnce: while the input stream is missing, the status says why nothing is sent, and not now and then
// that summaries are sent again.
func TestSendingFailsOnce(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	b := open(t, server, server.Stream(jetstream.StreamConfig{Name: "in"}))
	b.Edges = []string{""} // the server has no domain
	f := newForwarder(&producer{input: input{Blocks: b}})
	for range 2 {
		if _, err := f.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.JS.DeleteStream(t.Context(), "in"); err != nil {
		t.Fatal(err)
	}
	b.Streams = natsx.NewStreamCache() // as after a while
	for range 3 {
		_, _ = f.step(t.Context())
		if text := b.training.Event(); !strings.Contains(text, "no summary of the input is sent") {
			t.Errorf("the status says %q", text)
		}
		if err := f.reopen(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
