package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
)

// member is a server of a cluster: a process in a separate network namespace, with one link to clients and one to the
// other servers.
type member struct {
	*cluster
	n      int
	path   string
	conf   string
	client string // address for clients
	cmd    *exec.Cmd
}

// cluster is three servers.
type cluster struct {
	t       testing.TB
	name    string // prefix of the names of namespaces and links
	members []*member
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// newCluster starts the servers. The test is skipped if the machine does not allow network namespaces.
func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t, name: fmt.Sprintf("e%d", os.Getpid()%10000)}
	net := fmt.Sprintf("10.%d.%d", 200+os.Getpid()%50, 4*(os.Getpid()/50%60))
	clients, routes := c.name+"c", c.name+"k"
	t.Cleanup(func() {
		_ = ip("link", "del", clients)
		_ = ip("link", "del", routes)
	})
	for _, args := range [][]string{{"link", "add", clients, "type", "bridge"}, {"link", "set", clients, "up"},
		{"addr", "add", net + ".254/24", "dev", clients}, {"link", "add", routes, "type", "bridge"},
		{"link", "set", routes, "up"}} {
		if err := ip(args...); err != nil {
			t.Skipf("this machine gives no network namespace: %v", err)
		}
	}
	paths := strings.Split(must(natsServer())(t), ",")
	var all []string
	for i := range 3 {
		all = append(all, fmt.Sprintf("nats://10.%d.250.%d:6222", 200+os.Getpid()%50, i+1))
	}
	for i := range 3 {
		m := &member{cluster: c, n: i, path: paths[i%len(paths)], client: fmt.Sprintf("%s.%d:4222", net, i+1)}
		dir := t.TempDir()
		m.conf = filepath.Join(dir, "nats.conf")
		own := strings.TrimSuffix(strings.TrimPrefix(all[i], "nats://"), ":6222")
		text := fmt.Sprintf("server_name: s%d\nlisten: %q\njetstream {store_dir: %q}\nlog_file: %q\ncluster {name: c, "+
			"listen: \"%s:6222\", routes: [%s]}\n",
			i, m.client, filepath.Join(dir, "store"), filepath.Join(dir, "log"), own, strings.Join(all, ", "))
		if err := os.WriteFile(m.conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ip("netns", "del", m.space()) })
		steps := [][]string{{"netns", "add", m.space()}, {"-n", m.space(), "link", "set", "lo", "up"}}
		for _, l := range [][3]string{{"c", clients, net + fmt.Sprintf(".%d", i+1)}, {"k", routes, own}} {
			inside := m.link(l[0]) + "i"
			steps = append(steps, []string{"link", "add", m.link(l[0]), "type", "veth", "peer", "name", inside},
				[]string{"link", "set", inside, "netns", m.space()},
				[]string{"-n", m.space(), "addr", "add", l[2] + "/24", "dev", inside},
				[]string{"-n", m.space(), "link", "set", inside, "up"},
				[]string{"link", "set", m.link(l[0]), "master", l[1], "up"})
		}
		for _, s := range steps {
			if err := ip(s...); err != nil {
				t.Skipf("this machine gives no network namespace: %v", err)
			}
		}
		t.Cleanup(func() { m.end(syscall.SIGKILL) })
		m.start()
		c.members = append(c.members, m)
	}
	return c
}

func (m *member) space() string           { return fmt.Sprintf("%ss%d", m.name, m.n) }
func (m *member) link(kind string) string { return fmt.Sprintf("%s%s%d", m.name, kind, m.n) }
func (m *member) url() string             { return "nats://" + m.client }

func (m *member) start() {
	m.t.Helper()
	m.cmd = exec.Command("ip", "netns", "exec", m.space(), m.path, "-c", m.conf)
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
}

// end ends the process by a signal; `ip netns exec` has become the server.
func (m *member) end(s syscall.Signal) {
	if m.cmd != nil {
		_ = m.cmd.Process.Signal(syscall.SIGCONT)
		_ = m.cmd.Process.Signal(s)
		_ = m.cmd.Wait()
		m.cmd = nil
	}
}

// cut disables a link silently; mend enables it again.
func (m *member) cut(kind string) {
	m.t.Helper()
	if err := ip("link", "set", m.link(kind), "nomaster"); err != nil {
		m.t.Fatal(err)
	}
}

func (m *member) mend(kind string) {
	m.t.Helper()
	if err := ip("link", "set", m.link(kind), "master", m.name+kind); err != nil {
		m.t.Fatal(err)
	}
}

func (c *cluster) urls() string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.url())
	}
	return strings.Join(all, ",")
}

// dial returns a connection for the test, which leaves a server that does not respond.
func (c *cluster) dial() *client {
	c.t.Helper()
	return dial(c.t, c.urls(), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2))
}

// whole waits until all servers are in one cluster and all streams have their replicas.
func (c *cluster) whole(js jetstream.JetStream, streams ...string) {
	c.t.Helper()
	eventually(c.t, says("the cluster is whole"), func() bool {
		for _, name := range streams {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			s, err := js.Stream(ctx, name)
			cancel()
			if err != nil || s.CachedInfo().Cluster == nil {
				return false
			}
			for _, r := range s.CachedInfo().Cluster.Replicas {
				if !r.Current || r.Offline {
					return false
				}
			}
		}
		return true
	})
}

// leader returns the member that leads a stream.
func (c *cluster) leader(js jetstream.JetStream, stream string) *member {
	c.t.Helper()
	var m *member
	eventually(c.t, says(stream+" has a leader"), func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return false
		}
		for _, one := range c.members {
			if fmt.Sprint("s", one.n) == s.CachedInfo().Cluster.Leader {
				m = one
			}
		}
		return m != nil
	})
	return m
}

// look is one observation of a replica's readiness.
type look struct {
	at    time.Time
	ready bool
}

// witness polls whether a daemon is ready.
func witness(t testing.TB, d *daemon) (seen func() []look) {
	var mu sync.Mutex
	var looks []look
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	asks := http.Client{Timeout: 2 * time.Second}
	wg.Go(func() {
		for ctx.Err() == nil {
			at := time.Now()
			answer, err := asks.Get(d.http + "/readyz")
			ready := err == nil && answer.StatusCode == http.StatusOK
			if err == nil {
				answer.Body.Close()
			}
			mu.Lock()
			looks = append(looks, look{at, ready})
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
	})
	return func() []look {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(looks)
	}
}

// pauses returns how long this machine paused between two times, as a virtual machine may: measurements of such a
// time are not valid.
func pauses(t testing.TB) func(from, to time.Time) time.Duration {
	type gap struct {
		at   time.Time
		long time.Duration
	}
	var mu sync.Mutex
	var gaps []gap
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		for last := time.Now(); ctx.Err() == nil; {
			time.Sleep(100 * time.Millisecond)
			now := time.Now()
			if d := now.Sub(last); d > time.Second {
				mu.Lock()
				gaps = append(gaps, gap{last, d})
				mu.Unlock()
			}
			last = now
		}
	})
	return func(from, to time.Time) (all time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		for _, g := range gaps {
			if g.at.Add(g.long).After(from) && g.at.Before(to) {
				all += g.long
			}
		}
		return all
	}
}

// after returns how long after a time a replica was first seen to be ready, or not ready; 0: it was not.
func after(looks []look, from time.Time, ready bool) time.Duration {
	for _, l := range looks {
		if l.at.After(from) && l.ready == ready {
			return l.at.Sub(from)
		}
	}
	return 0
}

// load sends messages of eight digits, each once, until it is stopped. Each sender sends at a fixed interval, to a
// subject that is a function of the sender and the number of the message.
type load struct {
	sent atomic.Int64
	stop func() int // returns how many were stored
}

func (c *cluster) load(senders int, every time.Duration, subject func(sender, n int) string) *load {
	g := digits(c.t)
	var bodies [][]byte
	for at := 0; at+8 <= g.n; at += 8 {
		bodies = append(bodies, g.message(c.t, at, at+8, true))
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{}
	var wg sync.WaitGroup
	for k := range senders {
		from := c.dial()
		wg.Go(func() { l.send(ctx, from, k, senders, every, bodies, subject) })
	}
	l.stop = sync.OnceValue(func() int { cancel(); wg.Wait(); return int(l.sent.Load()) })
	return l
}

func (l *load) send(ctx context.Context, from *client, k, of int, every time.Duration, bodies [][]byte,
	subject func(sender, n int) string) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprint("m", k, "-", n)
		for {
			wait, end := context.WithTimeout(context.Background(), 2*time.Second)
			_, err := from.js.Publish(wait, subject(k, n), bodies[(n*of+k)%len(bodies)], jetstream.WithMsgID(id))
			end()
			if err == nil {
				break
			}
			if errors.Is(err, nats.ErrConnectionClosed) {
				return
			}
			// The sender is not under test: it leaves a server that does not store its message, such as one that is
			// partitioned, which would report indefinitely that it is storing it.
			_ = from.nc.ForceReconnect()
			time.Sleep(200 * time.Millisecond)
		}
		l.sent.Add(1)
		<-tick.C
	}
}

// answers are the outputs of a stream.
type answers struct {
	bySource map[string]int
	times    []time.Time
	epochs   []string
	sources  []string
	subjects []string
	numbers  []uint64
	again    []bool // was delivered before
}

func (c *client) answers(stream string) *answers {
	c.t.Helper()
	a := &answers{bySource: map[string]int{}}
	reader := must(c.js.OrderedConsumer(within(c.t, 3*time.Minute), stream,
		jetstream.OrderedConsumerConfig{HeadersOnly: true}))(c.t)
	messages := must(reader.Messages())(c.t)
	defer messages.Stop()
	for left := c.count(stream); left > 0; {
		msg, err := messages.Next(jetstream.NextMaxWait(time.Minute))
		if err != nil {
			c.t.Fatalf("reading %s with %d messages left: %v", stream, left, err)
		}
		meta := must(msg.Metadata())(c.t)
		left = int(meta.NumPending)
		a.bySource[msg.Headers().Get(wire.HeaderSource)]++
		a.sources = append(a.sources, msg.Headers().Get(wire.HeaderSource))
		a.subjects, a.numbers = append(a.subjects, msg.Subject()), append(a.numbers, meta.Sequence.Stream)
		a.again = append(a.again, msg.Headers().Get(wire.HeaderRedelivered) != "")
		a.times = append(a.times, meta.Timestamp)
		a.epochs = append(a.epochs, msg.Headers().Get(wire.HeaderEpoch))
	}
	return a
}

// silence is the longest time without an output between two times.
func (a *answers) silence(from, to time.Time) (most time.Duration) {
	last := from
	for _, t := range a.times {
		if t.After(from) && t.Before(to) {
			most = max(most, t.Sub(last))
			last = t
		}
	}
	return max(most, to.Sub(last))
}

// at returns the index of a daemon that is connected to a server; -1: none.
func (c *cluster) at(daemons []*daemon, m *member) int {
	c.t.Helper()
	for i, d := range daemons {
		where := ""
		for _, line := range strings.Split(d.log.String(), "\n") {
			if at := connectedTo.FindStringSubmatch(line); at != nil {
				where = at[1]
			}
		}
		if strings.Contains(where, m.client) {
			return i
		}
	}
	return -1
}

// connectedTo returns the server of the connection, by the log.
var connectedTo = regexp.MustCompile(`msg=(?:serving|reconnected) server=(\S+)`)

// holds reports whether a daemon is the trainer of a pipeline.
func (d *daemon) holds(pipeline string) bool {
	return d.metric(fmt.Sprintf(`embedd_role{pipeline=%q,role="train"}`, pipeline)) == "1"
}
