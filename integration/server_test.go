package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	carrier "github.com/embedd/embedd/internal/link"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
)

// startServer starts a real server in this process, with JetStream and file storage, on a free port. change, if not
// nil, changes its options.
func startServer(t testing.TB, change func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{ServerName: "test", Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: t.TempDir(), AuthTimeout: ample.Seconds()}
	if change != nil {
		change(o)
	}
	s := must(server.NewServer(o))(t)
	go s.Start()
	if !s.ReadyForConnections(ample) {
		t.Fatal("the server does not start")
	}
	t.Cleanup(func() { stopServer(s) })
	return s
}

func stopServer(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// serverProcess is a server in a separate process, which can be killed and restarts on the same port with the same
// store.
type serverProcess struct {
	t    testing.TB
	path string
	conf string
	url  string
	cmd  *exec.Cmd
}

// startServerProcess starts the nats-server program. settings are additional lines of its configuration.
func startServerProcess(t testing.TB, settings string) *serverProcess {
	t.Helper()
	path := must(natsServer())(t)
	port := carrier.FreePort(t)
	dir := t.TempDir()
	s := &serverProcess{t: t, path: path, conf: filepath.Join(dir, "nats.conf"),
		url: fmt.Sprintf("nats://127.0.0.1:%d", port)}
	conf := fmt.Sprintf("listen: 127.0.0.1:%d\njetstream {store_dir: %q}\nlog_file: %q\n%s\n", port,
		filepath.Join(dir, "store"), filepath.Join(dir, "log"), settings)
	if err := os.WriteFile(s.conf, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("server log:\n%s", tailOf(string(log), 40))
		}
	})
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	s.start()
	return s
}

func (s *serverProcess) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.path, "-c", s.conf)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, says("the server process listens"), func() bool {
		nc, err := nats.Connect(s.url, nats.Timeout(time.Second))
		if errors.Is(err, nats.ErrAuthorization) {
			return true // it asks who we are
		}
		if err != nil {
			return false
		}
		defer nc.Close()
		js, _ := jetstream.New(nc)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = js.AccountInfo(ctx)
		return err == nil
	})
}

func (s *serverProcess) end(signal syscall.Signal) {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(signal)
	_ = s.cmd.Wait()
}

// restart ends the process by a signal and starts it again after a pause.
func (s *serverProcess) restart(signal syscall.Signal, pause time.Duration) {
	s.t.Helper()
	s.end(signal)
	time.Sleep(pause)
	s.start()
}

// client returns a connection for the test.
type client struct {
	t  testing.TB
	nc *nats.Conn
	js jetstream.JetStream
}

func dial(t testing.TB, url string, options ...nats.Option) *client {
	t.Helper()
	options = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond)}, options...)
	var nc *nats.Conn
	eventually(t, says("the server takes a connection"), func() (connected bool) { // the client gives it two seconds
		var err error
		nc, err = nats.Connect(url, options...)
		return err == nil
	})
	t.Cleanup(nc.Close)
	return &client{t: t, nc: nc, js: must(jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute)))(t)}
}

// stream creates a stream with file storage for subjects. change, if not nil, changes its configuration.
func (c *client) stream(name string, change func(*jetstream.StreamConfig), subjects ...string) jetstream.Stream {
	c.t.Helper()
	config := jetstream.StreamConfig{Name: name, Subjects: subjects, Storage: jetstream.FileStorage,
		Duplicates: 2 * time.Minute}
	if change != nil {
		change(&config)
	}
	return must(c.js.CreateStream(within(c.t, ample), config))(c.t)
}

// streams creates the three streams of the tests' pipelines.
func (c *client) streams() {
	c.t.Helper()
	c.stream("FEATURES", nil, "features.>")
	c.stream("REDUCED", nil, "reduced.>")
	c.stream("DEAD", nil, "dead.>")
}

// count returns how many messages a stream has; -1 while the server does not respond.
func (c *client) count(stream string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return -1
	}
	return int(s.CachedInfo().State.Msgs)
}

// await waits until a stream has a number of messages.
func (c *client) await(stream string, n int) {
	c.t.Helper()
	eventually(c.t, func() string {
		return fmt.Sprintf("stream %s holds %d of %d messages", stream,
			c.count(stream), n)
	},
		func() bool { return c.count(stream) >= n })
}

// settled waits until a pipeline has acknowledged everything.
func (c *client) settled(stream, pipeline string) {
	c.t.Helper()
	state := "no consumer"
	eventually(c.t, func() string { return "the input of " + pipeline + " is acknowledged: " + state },
		func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			consumer, err := c.js.Consumer(ctx, stream, "embedd_"+pipeline)
			if err != nil {
				return false
			}
			info := consumer.CachedInfo()
			state = fmt.Sprintf("%d pending, %d not acknowledged, acknowledged up to %d", info.NumPending,
				info.NumAckPending, info.AckFloor.Stream)
			if info.NumPending > 0 || info.NumAckPending > 0 {
				return false
			}
			// A stored message may not be counted as pending yet, so the last one is looked up.
			s, err := c.js.Stream(ctx, stream)
			if err != nil {
				return false
			}
			last, err := s.GetLastMsgForSubject(ctx, info.Config.FilterSubject)
			return errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && info.AckFloor.Stream >= last.Sequence
		})
}

// stored is one message of a stream.
type stored struct {
	subject string
	header  nats.Header
	data    []byte
	seq     uint64
}

// letters joins the parts of dead letters.
func letters(t testing.TB, msgs []stored) (out []stored) {
	t.Helper()
	at := map[string]int{}
	for _, m := range msgs {
		part, parts, ok := wire.ParsePart(m.header.Get(wire.HeaderPart))
		id := m.header.Get(wire.HeaderLetter)
		i, begun := at[id]
		switch {
		case !ok || parts > 1 && begun != (part > 0):
			t.Fatalf("part %q of dead letter %q is not expected", m.header.Get(wire.HeaderPart), id)
		case part > 0:
			out[i].data = append(out[i].data, m.data...)
		default:
			if parts > 1 {
				at[id] = len(out)
			}
			m.data = bytes.Clone(m.data)
			out = append(out, m)
		}
	}
	return out
}

// read returns all messages of a stream, in order.
func (c *client) read(stream string) []stored {
	c.t.Helper()
	ctx := within(c.t, ample)
	var n int
	eventually(c.t, says("the server says what "+stream+" holds"), func() bool { n = c.count(stream); return n >= 0 })
	if n == 0 {
		return nil
	}
	consumer := must(c.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{}))(c.t)
	msgs := must(consumer.Messages(jetstream.PullMaxMessages(200)))(c.t)
	defer msgs.Stop()
	defer context.AfterFunc(ctx, msgs.Stop)()
	var out []stored
	for len(out) < n {
		msg := must(msgs.Next())(c.t)
		meta := must(msg.Metadata())(c.t)
		out = append(out, stored{msg.Subject(), msg.Headers(), msg.Data(), meta.Sequence.Stream})
	}
	return out
}

// send stores a message and waits for the confirmation. It retries while the server is away, with the same message id,
// so that the input has it once.
func (c *client) send(subject string, data []byte, headers ...string) uint64 {
	c.t.Helper()
	msg := nats.NewMsg(subject)
	msg.Data = data
	for i := 0; i+1 < len(headers); i += 2 {
		msg.Header.Add(headers[i], headers[i+1])
	}
	id := nats.NewInbox()
	var last error
	for end := time.Now().Add(ample); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		ack, err := c.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
		cancel()
		if err == nil {
			return ack.Sequence
		}
		last = err
	}
	c.t.Fatalf("publishing to %s: %v", subject, last)
	return 0
}

// once checks that every source of an input stream has exactly one answer, from first to last. An answer in parts
// counts as one if its parts are complete.
func once(t testing.TB, stream string, first, last int, answers []stored) {
	t.Helper()
	parts := map[string]map[string]int{}
	for _, a := range answers {
		source := a.header.Get(wire.HeaderSource)
		if parts[source] == nil {
			parts[source] = map[string]int{}
		}
		parts[source][a.header.Get(wire.HeaderPart)]++
	}
	missing, twice, incomplete := 0, 0, 0
	var example string
	for seq := first; seq <= last; seq++ {
		source := fmt.Sprintf("%s:%d", stream, seq)
		have := parts[source]
		delete(parts, source)
		if len(have) == 0 {
			missing++
			example = source
		}
		for part, n := range have {
			if n > 1 {
				twice++
				example = source + " part " + part
			}
			var i, of int
			if part != "" {
				if _, err := fmt.Sscanf(part, "%d/%d", &i, &of); err != nil || i < 1 || i > of || len(have) != of {
					incomplete++
					example = source + " part " + part
				}
			} else if len(have) > 1 {
				incomplete++
				example = source
			}
		}
	}
	if missing+twice+incomplete+len(parts) > 0 {
		t.Errorf("of inputs %d to %d: %d have no answer, %d answers are stored twice, %d are incomplete, %d answers are "+
			"to something else; as %s",
			first, last, missing, twice, incomplete, len(parts), example)
	}
}

func hostOf(t testing.TB, server string) string {
	t.Helper()
	return must(url.Parse(server))(t).Host
}

// tailOf returns the last lines of a log.
func tailOf(log string, lines int) string {
	all := strings.Split(strings.TrimSpace(log), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
