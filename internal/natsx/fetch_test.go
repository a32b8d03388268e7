package natsx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
)

// TestPullFromReplicas: a pull request that ends at its limit of messages or bytes hands on all that the server
// delivered for it, although a consumer with replicas sends the status of the end before most of the messages.
func TestPullFromReplicas(t *testing.T) {
	t.Parallel()
	s := natstest.NewCluster(t)[0]
	s.Stream(jetstream.StreamConfig{Name: "IN", Replicas: 3})
	for i := range 250 {
		s.Publish(&nats.Msg{Subject: "IN.a", Data: fmt.Append(nil, i)})
	}
	for _, maxBytes := range []int{0, 1 << 20, 6000} {
		c, err := s.JS.CreateConsumer(s.Context(), "IN", jetstream.ConsumerConfig{Durable: fmt.Sprint("c", maxBytes),
			AckPolicy: jetstream.AckExplicitPolicy, Replicas: 3})
		if err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		for range 2 {
			var n int
			natstest.Await(t, "the servers know the leader of the consumer", func() bool {
				n, err = natsx.Pull(s.Context(), s.JS, c, 100, maxBytes, func(m *natsx.Message) {
					meta, err := m.Metadata()
					if err != nil || meta.Sequence.Consumer != last+1 {
						t.Errorf("at most %d bytes: delivery %+v (error %v) came after %d", maxBytes, meta, err, last)
					}
					last = meta.Sequence.Consumer
				})
				return !errors.Is(err, nats.ErrNoResponders)
			})
			if err != nil || n == 0 || n < 100 && maxBytes != 6000 {
				t.Errorf("at most %d bytes: a pull of 100 messages has %d, error %v", maxBytes, n, err)
			}
		}
		info, err := c.Info(s.Context())
		if err != nil || info.Delivered.Consumer != last {
			t.Errorf("at most %d bytes: %d of %+v deliveries were handed on, error %v", maxBytes, last, info.Delivered, err)
		}
	}
}

// TestPullOfExactBytes: a pull request that ends with a message that reaches its limit of bytes exactly ends with that
// message. The server sends no status then.
func TestPullOfExactBytes(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "IN"})
	for range 9 {
		s.Publish(&nats.Msg{Subject: "IN.a", Header: nats.Header{"A": {"b"}}, Data: make([]byte, 1000)})
	}
	consumer := func(name string) jetstream.Consumer {
		c, err := s.JS.CreateConsumer(s.Context(), "IN", jetstream.ConsumerConfig{Durable: name,
			AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	nc := s.JS.Conn()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	consumer("a")
	if err := nc.PublishRequest(natsx.PullSubject(s.JS, "IN", "a"), sub.Subject, []byte(`{"batch": 3}`)); err != nil {
		t.Fatal(err)
	}
	maxBytes := 0
	for range 3 {
		msg, err := sub.NextMsg(natstest.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		maxBytes += msg.Size()
	}
	c := consumer("b")
	for range 2 {
		n, err := natsx.Pull(s.Context(), s.JS, c, 9, maxBytes, func(*natsx.Message) {})
		if n != 3 || err != nil {
			t.Errorf("a pull of %d bytes, which are three messages, has %d, error %v", maxBytes, n, err)
		}
	}
}

// TestPullLimitWithoutAByte: a pull is halved where the connection breaks twice before anything of it has arrived.
func TestPullLimitWithoutAByte(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "IN"})
	for range 20 { // each is lost with its connection
		s.Publish(&nats.Msg{Subject: "IN.a", Data: []byte("large")})
	}
	var cuts atomic.Bool
	l, err := link.New(strings.TrimPrefix(s.URL(), "nats://"), nil, func(piece []byte) error {
		if cuts.Load() && bytes.Contains(piece, []byte("large")) {
			return errors.New("cut")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	nc, err := nats.Connect("nats://"+l.Address(), nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond),
		nats.Timeout(natstest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(natstest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(t.Context(), "IN", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		t.Fatal(err)
	}
	cuts.Store(true)
	p := natsx.NewPullLimit(nc, slog.New(slog.DiscardHandler))
	natstest.Await(t, "less is pulled at a time", func() bool {
		_, _ = p.Fetch(t.Context(), js, c, 1, natsx.MaxFetchBytes, func(*natsx.Message) {})
		return p.Bytes() < natsx.MaxFetchBytes
	})
}

// TestPullLimitOfRestartedServers: a pull is as large as before where the servers were restarted, however often.
func TestPullLimitOfRestartedServers(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "IN"})
	nc := s.Connect(nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond))
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(natstest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(t.Context(), "IN", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		t.Fatal(err)
	}
	p := natsx.NewPullLimit(nc, slog.New(slog.DiscardHandler))
	over, cancel := context.WithCancel(t.Context())
	cancel() // a pull only sees that the connection broke
	for i := range uint64(4) {
		s.Stop()
		s.Start()
		natstest.Await(t, "the connection is restored", func() bool { return nc.Stats().Reconnects > i && nc.IsConnected() })
		_, _ = p.Fetch(over, js, c, 1, natsx.MaxFetchBytes, func(*natsx.Message) {})
	}
	if got := p.Bytes(); got != natsx.MaxFetchBytes {
		t.Errorf("after four restarts a pull has %d bytes", got)
	}
}

// TestPullEndsWithTheConnection: a pull ends when its connection is replaced, before the server is silent for too long.
func TestPullEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "IN"})
	c, err := s.JS.CreateConsumer(s.Context(), "IN", jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	waits := func(isWaiting bool) func() bool {
		return func() bool {
			info, err := c.Info(s.Context())
			return err == nil && info.NumWaiting > 0 == isWaiting
		}
	}
	nc := s.Connect(nats.ReconnectWait(time.Millisecond))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		natstest.Await(t, "a pull ends before the server is silent for too long", func() bool { // a busy machine may be late
			ended, begin := make(chan error, 1), time.Now()
			go func() {
				_, err := natsx.Pull(s.Context(), js, c, 1, 0, func(*natsx.Message) {})
				ended <- err
			}()
			natstest.Await(t, "the pull request is there", waits(true))
			if err := nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, jetstream.ErrNoHeartbeat) {
				t.Errorf("the pull ended with %v", err)
			}
			took := time.Since(begin)
			natstest.Await(t, "the request of the former connection is gone", waits(false))
			return took < 3*time.Second
		})
	}
}
