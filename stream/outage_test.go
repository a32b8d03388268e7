package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/needs"
)

// link carries connections to the site's server. It can delay the server's data and cut all connections.
type link struct {
	*carrier.Link
	hush atomic.Bool
	eat  atomic.Pointer[string] // cut, once, where the client says this

	away, most atomic.Int64 // outputs that were sent and not yet confirmed, now and at most
}

func (s *site) link() *link {
	s.Helper()
	l := &link{}
	var err error
	l.Link, err = carrier.New(fmt.Sprintf("127.0.0.1:%d", s.options.Port), func(piece []byte) error {
		if n := l.away.Add(int64(bytes.Count(piece, []byte("HPUB out.x")))); n > l.most.Load() {
			l.most.Store(n)
		}
		word := l.eat.Load()
		if word != nil && bytes.Contains(piece, []byte(*word)) && l.eat.CompareAndSwap(word, nil) {
			l.Cut()
			return errors.New("cut")
		}
		return nil
	}, func(piece []byte) error {
		for l.hush.Load() {
			time.Sleep(5 * time.Millisecond)
		}
		l.away.Add(-int64(bytes.Count(piece, []byte(`"stream":"out"`))))
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		l.hush.Store(false)
		l.Close()
	})
	return l
}

func (l *link) url() string { return "nats://" + l.Address() }

// fixed is a model of the numbered messages.
func fixed(t *testing.T) *model.Model {
	t.Helper()
	m, err := pair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// answerer is a pipeline of a fixed model over the site's streams.
func answerer(t *testing.T) Pipeline {
	return Pipeline{Name: "p", Stream: "in", Subject: "in.x", Output: "out.x", Dead: "out.dead",
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Fixed: fixed(t)}}
}

// engine runs pipelines on a separate connection until the end of the test or of the returned function.
func (s *site) engine(url string, pipelines ...Pipeline) (end func()) {
	s.Helper()
	nc := connect(s.T, url)
	e, err := New(Options{Conn: nc, Pipelines: pipelines, Wait: ample})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("the engine ended with: %v", err)
		}
		nc.Close()
	})
	s.Cleanup(end)
	s.eventually(func() any { return "the engine serves" }, func() bool { return len(e.Status()) > 0 })
	return end
}

func (s *site) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.options.Port) }

// state is the state of a stream.
func (s *site) state(name string) jetstream.StreamState {
	s.Helper()
	var info *jetstream.StreamInfo
	made, err := s.js.Stream(s.Context(), name)
	if err == nil {
		info, err = made.Info(s.Context())
	}
	if err != nil {
		s.Fatal(err)
	}
	return info.State
}

// ample is the timeout of tests for an event that has to happen, generous for a loaded machine.
const ample = 10 * time.Minute

// until waits for a condition.
func (s *site) until(what string, holds func() bool) {
	s.Helper()
	natstest.Await(s, what, holds)
}

// acknowledged waits until a pipeline has acknowledged everything.
func (s *site) acknowledged(name string) {
	s.Helper()
	s.until("the input of "+name+" is acknowledged", func() bool {
		c, err := s.js.Consumer(s.Context(), "in", needs.ConsumerName(name, ""))
		return err == nil && c.CachedInfo().NumPending == 0 && c.CachedInfo().NumAckPending == 0 &&
			c.CachedInfo().AckFloor.Stream >= s.state("in").LastSeq
	})
}

// sources counts the answers of the output by their source.
func (s *site) sources() map[string]int {
	s.Helper()
	out := map[string]int{}
	s.each("out", func(msg jetstream.Msg) { out[msg.Headers().Get(wire.HeaderSource)]++ })
	return out
}

// bodies compares each answer of the fixed model with that of a separate stage for the same input, by message number:
// it differs if memory was reused too early.
func (s *site) bodies() {
	s.Helper()
	stage, err := stage.New(answerer(s.T).Stage)
	if err != nil {
		s.Fatal(err)
	}
	defer stage.Close()
	compared, wrong := 0, 0
	s.each("out", func(msg jetstream.Msg) {
		seq := inputSeq(msg)
		m, err := stage.Decode(s.message(int(seq)))
		if err != nil {
			s.Fatal(err)
		}
		result, err := stage.Transform(s.Context(), m)
		if err != nil {
			s.Fatal(err)
		}
		want, err := stage.Encode(result)
		if err != nil {
			s.Fatal(err)
		}
		compared++
		if have := content(msg.Data()); have == "" || have != content(want) {
			wrong++
		}
	})
	if wrong > 0 || compared == 0 {
		s.Errorf("of %d outputs %d are not what comes of their inputs", compared, wrong)
	}
}

// content is the content of the rows of a message; "" if it cannot be read.
func content(body []byte) string {
	reader, err := ipc.NewReader(bytes.NewReader(body))
	if err != nil {
		return ""
	}
	defer reader.Release()
	if !reader.Next() {
		return ""
	}
	return fmt.Sprint(reader.Record().Columns())
}

// once checks that each of n inputs has one answer.
func (s *site) once(n int) {
	s.Helper()
	lost, twice := 0, 0
	have := s.sources()
	for i := range n {
		switch k := have[fmt.Sprintf("in:%d", i+1)]; {
		case k == 0:
			lost++
		case k > 1:
			twice += k - 1
		}
	}
	if lost+twice > 0 || len(have) != n {
		s.Errorf("of %d inputs %d have no answer and %d answers are stored once more than they should; %d sources", n,
			lost, twice, len(have))
	}
}

// window is the site with an output that has the given duplicate window.
func (s *site) window(d time.Duration) {
	s.Helper()
	_, err := s.js.UpdateStream(s.Context(), jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"},
		Duplicates: d})
	if err != nil {
		s.Fatal(err)
	}
}

// TestOutageLongerThanTheWindow suppresses the server's confirmations while answers are being published, for longer
// than the duplicate window: stored answers are not sent again, the others are.
func TestOutageLongerThanTheWindow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mixed = true
	const window = 200 * time.Millisecond
	s.window(window)
	l := s.link()
	p := answerer(t)
	p.AckWait = 2 * time.Second
	s.engine(l.url(), p)
	const n = 1500
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.send(n)
	}()
	for outage := range uint64(3) {
		s.until("answers flow", func() bool { return s.state("out").Msgs >= 100+400*outage })
		l.hush.Store(true)
		time.Sleep(3 * window)
		l.Cut()
		l.hush.Store(false)
	}
	<-sent
	s.acknowledged("p")
	s.once(n)
	s.bodies()
}

// TestRetriesGoTogether removes the output before answers are made: once it is back, all of them are sent again
// together, not one after the other with a delay before each.
func TestRetriesGoTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mixed = true
	l := s.link()
	s.engine(l.url(), answerer(t))
	s.send(1)
	s.acknowledged("p")
	if err := s.js.DeleteStream(t.Context(), "out"); err != nil {
		t.Fatal(err)
	}
	const n = 900
	l.hush.Store(true) // all come at once, before it is known how fast this machine is
	s.send(n)
	l.hush.Store(false)
	held := func() int {
		c, err := s.js.Consumer(t.Context(), "in", needs.ConsumerName("p", ""))
		if err != nil {
			return 0
		}
		return c.CachedInfo().NumAckPending
	}
	// All wait for the output, or those that were taken before the first one failed.
	s.until("inputs wait for the output", func() bool { return held() >= 400 })
	time.Sleep(2 * time.Second) // a second attempt has failed too
	waited := held()
	l.away.Store(0)
	l.most.Store(0)
	s.make(jetstream.StreamConfig{Name: "out", Storage: jetstream.MemoryStorage})
	s.acknowledged("p")
	t.Logf("%d of %d answers waited for the output; %d were on their way at a time", waited, n, l.most.Load())
	if l.most.Load() < 10 {
		t.Error("they were sent one after the other")
	}
	s.bodies()
}

// TestDoubleAck loses an acknowledgement with its connection: if acknowledgements are confirmed, it is sent again at
// once, and the input is not redelivered.
func TestDoubleAck(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l := s.link()
	p := answerer(t)
	p.AckWait, p.DoubleAck = time.Minute, true
	s.engine(l.url(), p)
	s.send(10)
	s.acknowledged("p")
	word := "+ACK"
	l.eat.Store(&word)
	s.send(1) // no more: a message that is on its way when the connection ends comes again only a minute later
	s.acknowledged("p")
	if l.eat.Load() != nil {
		t.Error("no acknowledgement was taken away")
	}
	s.once(11)
}
