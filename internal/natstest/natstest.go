// Package natstest starts NATS servers for tests, in the process of the test, and waits for what happens on them.
package natstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/link"
)

// Timeout is how long a test waits for an answer, and ample for a condition, which may take several. Only a test that
// fails takes so long, however busy the machine is.
const (
	Timeout = 3 * time.Minute
	ample   = 10 * time.Minute
)

// Server is a NATS server with JetStream, and the test's own connection to it.
type Server struct {
	testing.TB
	Options server.Options
	JS      jetstream.JetStream // waits up to Timeout for each answer
	server  *server.Server
}

// New starts a server that ends with the test. Each change may alter its options first.
func New(t testing.TB, changes ...func(*server.Options)) *Server {
	t.Helper()
	s := &Server{TB: t, Options: server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: t.TempDir(), AuthTimeout: Timeout.Seconds()}}
	for _, change := range changes {
		change(&s.Options)
	}
	if s.Options.Port < 0 {
		s.Options.Port = link.FreePort(t) // a restart keeps the port
	}
	s.Start()
	t.Cleanup(s.Stop)
	js, err := jetstream.New(s.Connect(), jetstream.WithDefaultTimeout(Timeout))
	if err != nil {
		t.Fatal(err)
	}
	s.JS = js
	return s
}

// NewCluster starts three servers that form a cluster, and waits until one of them is its leader.
func NewCluster(t testing.TB) []*Server {
	t.Helper()
	var routes []*url.URL
	for range 3 {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", link.FreePort(t))})
	}
	var all []*Server
	for i, route := range routes {
		port, _ := strconv.Atoi(route.Port())
		all = append(all, New(t, func(o *server.Options) {
			o.ServerName, o.Routes = fmt.Sprint("s", i), routes
			o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}
		}))
	}
	Await(t, "the servers have found one another", func() bool {
		return slices.ContainsFunc(all, func(s *Server) bool { return len(s.server.JetStreamClusterPeers()) == len(all) })
	})
	return all
}

// For is the server for a subtest, which fails where it is used there.
func (s *Server) For(t testing.TB) *Server {
	sub := *s
	sub.TB = t
	return &sub
}

// Start starts the server again after Stop, on the same port and files.
func (s *Server) Start() {
	s.Helper()
	options := s.Options
	var err error
	if s.server, err = server.NewServer(&options); err != nil {
		s.Fatal(err)
	}
	go s.server.Start()
	if !s.server.ReadyForConnections(Timeout) {
		s.Fatal("the server does not start")
	}
}

// Stop stops the server and waits until it has ended.
func (s *Server) Stop() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

// URL is the address of the server.
func (s *Server) URL() string { return s.server.ClientURL() }

// Connect makes a connection that reconnects indefinitely and ends with the test.
func (s *Server) Connect(options ...nats.Option) *nats.Conn {
	s.Helper()
	options = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond),
		nats.Timeout(Timeout)}, options...)
	nc, err := nats.Connect(s.URL(), options...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(nc.Close)
	return nc
}

var pullTimes = regexp.MustCompile(`"(expires|idle_heartbeat)":\d+`)

// ConnectSlow makes a connection on which, while isSlow, the server reads each pull request when it has expired.
func (s *Server) ConnectSlow(isSlow *atomic.Bool) *nats.Conn {
	s.Helper()
	l, err := link.New(strings.TrimPrefix(s.URL(), "nats://"), func(piece []byte) error {
		for _, at := range pullTimes.FindAllIndex(piece, -1) {
			if value := piece[bytes.IndexByte(piece[at[0]:], ':')+at[0]+1 : at[1]]; isSlow.Load() {
				copy(value, bytes.Repeat([]byte(" "), len(value)))
				value[0] = '9'
				if piece[at[0]+1] == 'i' {
					value[0] = '1' // at most half of expires
				}
			}
		}
		return nil
	}, nil)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(l.Close)
	nc, err := nats.Connect("nats://"+l.Address(), nats.Timeout(Timeout))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(nc.Close)
	return nc
}

// AwaitSubscriber waits until a client subscribes to a subject. What is published before on core NATS is lost.
func (s *Server) AwaitSubscriber(subject string) {
	s.Helper()
	Await(s, "a client subscribes to "+subject, func() bool {
		found, err := s.server.Subsz(&server.SubszOptions{Subscriptions: true, Test: subject})
		return err == nil && found.Total > 0
	})
}

// Stream makes a stream; without subjects it takes NAME.>.
func (s *Server) Stream(c jetstream.StreamConfig) jetstream.Stream {
	s.Helper()
	if c.Subjects == nil && c.Mirror == nil && c.Sources == nil {
		c.Subjects = []string{c.Name + ".>"}
	}
	made, err := s.JS.CreateStream(s.Context(), c)
	if err != nil {
		s.Fatal(err)
	}
	return made
}

// Publish stores a message once. It tries again while the server is away.
func (s *Server) Publish(msg *nats.Msg) *jetstream.PubAck {
	s.Helper()
	id := nats.NewInbox()
	var err error
	for end := time.Now().Add(Timeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
		ack, failed := s.JS.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
		cancel()
		if failed == nil {
			return ack
		}
		err = failed
	}
	s.Fatal(err)
	return nil
}

// Messages are the messages that a stream holds, in order.
func (s *Server) Messages(stream string) []*jetstream.RawStreamMsg {
	s.Helper()
	made, err := s.JS.Stream(s.Context(), stream)
	if err != nil {
		s.Fatal(err)
	}
	state := made.CachedInfo().State
	var out []*jetstream.RawStreamMsg
	for seq := max(state.FirstSeq, 1); seq <= state.LastSeq && state.Msgs > 0; seq++ {
		msg, err := made.GetMsg(s.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			s.Fatal(err)
		}
		out = append(out, msg)
	}
	return out
}

// Count is how many messages a stream holds.
func (s *Server) Count(stream string) int {
	s.Helper()
	made, err := s.JS.Stream(s.Context(), stream)
	if err != nil {
		s.Fatal(err)
	}
	return int(made.CachedInfo().State.Msgs)
}

// Await waits until a condition holds.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(ample); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", ample, what)
		}
	}
}
