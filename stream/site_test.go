package stream

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
	carrier "github.com/embedd/embedd/internal/link"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// site is a real server that can be stopped and started again, and the test's own connection.
type site struct {
	*testing.T
	options server.Options
	server  *server.Server
	js      jetstream.JetStream
	log     *slog.Logger  // of the next pipeline; nil: no logs
	sent    int           // messages of input so far; each has its number in it
	first   uint64        // where the window of the next pipeline's model begins
	calm    time.Duration // how long training of the next pipeline waits for the hot path; 0: as long as in an engine
	mixed   bool          // messages of input have from one to some hundred rows, else one
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := newBareSite(t)
	s.make(jetstream.StreamConfig{Name: "in"})
	s.make(jetstream.StreamConfig{Name: "out"})
	return s
}

// newBareSite is a site without streams. Do not delete the last stream of another site instead: the server removes the
// directory of all streams some time later, and with it a stream that was created meanwhile.
func newBareSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, options: server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: t.TempDir()}}
	s.begin()
	return s
}

// begin starts the server and connects to it.
func (s *site) begin() {
	s.Helper()
	s.start()
	s.Cleanup(s.stop)
	s.js = slowJetStream(s.T, s.dial().Conn())
}

func (s *site) start() {
	s.Helper()
	if s.options.Port < 0 {
		s.options.Port = carrier.FreePort(s.T) // it comes back on the same one
	}
	var err error
	options := s.options
	if s.server, err = server.NewServer(&options); err != nil {
		s.Fatal(err)
	}
	go s.server.Start()
	if !s.server.ReadyForConnections(ample) {
		s.Fatal("the server does not start")
	}
}

func (s *site) stop() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

func (s *site) dial() jetstream.JetStream {
	s.Helper()
	nc := connect(s.T, s.url())
	s.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		s.Fatal(err)
	}
	return js
}

// connect connects with a long timeout: by default the client waits two seconds for the server's INFO.
func connect(t *testing.T, urls string, options ...nats.Option) *nats.Conn {
	t.Helper()
	options = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond)}, options...)
	for end := time.Now().Add(ample); ; time.Sleep(50 * time.Millisecond) {
		nc, err := nats.Connect(urls, options...)
		if err == nil {
			return nc
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// slowJetStream is a JetStream context with a long timeout for the requests of the test itself: by default the client
// waits five seconds. The code under test has the default.
func slowJetStream(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ample))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func (s *site) make(c jetstream.StreamConfig) {
	s.Helper()
	if c.Subjects == nil {
		c.Subjects = []string{c.Name + ".>"}
	}
	made, err := s.js.CreateStream(s.Context(), c)
	if err != nil {
		s.Fatal(err)
	}
	if n := made.CachedInfo().State.Msgs; n > 0 {
		s.Fatalf("a new stream holds %d messages: the server has taken up the files of the one that was deleted", n)
	}
}

// again deletes the input and recreates it in memory: a server may load the files of a file stream that it has just
// deleted into a new stream of the same name.
func (s *site) again(c jetstream.StreamConfig) {
	s.Helper()
	if err := s.js.DeleteStream(s.Context(), "in"); err != nil {
		s.Fatal(err)
	}
	c.Name, c.Storage = "in", jetstream.MemoryStorage
	s.make(c)
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

// send stores n messages, each with the next number in it.
func (s *site) send(n int) {
	s.Helper()
	for range n {
		s.sent++
		s.store("in.x", s.message(s.sent))
	}
}

// message is the message of a number.
func (s *site) message(n int) []byte {
	if !s.mixed {
		return numbered(n, 0)
	}
	return numbered(n, n*n*37%131)
}

// store publishes a message until it is stored, also while the server restarts, with one message id, so that the stream
// has it once.
func (s *site) store(subject string, body []byte) {
	s.Helper()
	id := nats.NewInbox()
	var err error
	for end := time.Now().Add(ample); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(s.Context(), 2*time.Second)
		_, err = s.js.Publish(ctx, subject, body, jetstream.WithMsgID(id))
		cancel()
		if err == nil {
			return
		}
	}
	s.Fatal(err)
}

// numbered is a message of one labelled row whose first feature is a number. More rows make it larger.
func numbered(n, more int) []byte { return arrowRows(n, more, 4) }

// arrowRows is numbered with another number of features, at most four.
func arrowRows(n, more, features int) []byte {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "label", Type: arrow.BinaryTypes.String},
		{Name: "x", Type: arrow.FixedSizeListOf(int32(features), arrow.PrimitiveTypes.Float32)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	x := b.Field(1).(*array.FixedSizeListBuilder)
	for i := range 1 + more {
		b.Field(0).(*array.StringBuilder).Append([]string{"even", "odd"}[n%2])
		x.Append(true)
		x.ValueBuilder().(*array.Float32Builder).AppendValues(
			[]float32{float32(n), float32(n % 2 * 100), float32(n * 31 % 17), float32(i * 7 % 5)}[:features], nil)
	}
	rec := b.NewRecord()
	defer rec.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	_ = w.Write(rec)
	_ = w.Close()
	return out.Bytes()
}

// each reads a stream from its first to its last message.
func (s *site) each(name string, take func(jetstream.Msg)) {
	s.Helper()
	n := s.state(name).Msgs
	c, err := s.js.OrderedConsumer(s.Context(), name, jetstream.OrderedConsumerConfig{})
	if err != nil {
		s.Fatal(err)
	}
	msgs, err := c.Messages()
	if err != nil {
		s.Fatal(err)
	}
	defer msgs.Stop()
	for range n {
		msg, err := msgs.Next()
		if err != nil {
			s.Fatal(err)
		}
		take(msg)
	}
}

func to(n int) []int { return between(1, n) }

func between(first, last int) (out []int) {
	for i := first; i <= last; i++ {
		out = append(out, i)
	}
	return out
}

// inputSeq is the sequence number of the input that a message answers, by its Embedd-Source.
func inputSeq(msg jetstream.Msg) uint64 {
	_, number, _ := strings.Cut(msg.Headers().Get(wire.HeaderSource), ":")
	seq, _ := strconv.ParseUint(number, 10, 64)
	return seq
}
