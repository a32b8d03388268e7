package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/testsize"
)

// TestFailures injects one fault after another into three servers with three replicas, under load. No input is lost or
// answered twice, no gap in the outputs is longer than 12 s, and a replica that is connected to a faulty server is not
// ready within 10 s and works through another server within 15 s.
func TestFailures(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it, as root: each server has a separate network")
	}
	c := newCluster(t)
	test := c.dial()
	three := func(s *jetstream.StreamConfig) { s.Replicas = 3 }
	eventually(t, says("the servers find one another"), func() bool {
		_, err := test.js.AccountInfo(within(t, 2*time.Second))
		return err == nil
	})
	test.stream("FEATURES", three, "features.>")
	test.stream("REDUCED", three, "reduced.>")
	test.stream("DEAD", three, "dead.>")
	var replicas []*daemon
	var looks []func() []look
	for _, m := range c.members {
		d := startDaemon(t, configFile(t, m.url(), `
p:
  input: {stream: FEATURES, subject: features.p}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.p, dead: dead.p}
  model: {method: lda, dim: 4}
  training: {until_ready: pca, every: {rows: 600, period: none}}`))
		replicas, looks = append(replicas, d), append(looks, witness(t, d))
	}
	paused := pauses(t)
	streams := []string{"FEATURES", "REDUCED", "DEAD", "KV_EMBEDD_MODELS", "OBJ_EMBEDD_MODELS", "KV_EMBEDD_LEASES"}
	c.whole(test.js, streams...)
	l := c.load(4, 15*time.Millisecond, func(int, int) string { return "features.p" })
	eventually(t, says("all are ready"), func() bool {
		for _, see := range looks {
			if s := see(); len(s) == 0 || !s[len(s)-1].ready {
				return false
			}
		}
		return true
	})
	type span struct {
		name     string
		from, to time.Time
		most     time.Duration
	}
	var spans []span
	// during injects a fault for a time, and waits until everything has recovered.
	during := func(name string, d, most time.Duration, fail, mend func()) (begin time.Time) {
		t.Helper()
		begin = time.Now()
		fail()
		time.Sleep(d)
		mend()
		c.whole(test.js, streams...)
		time.Sleep(3 * time.Second)
		spans = append(spans, span{name, begin, time.Now(), most})
		return begin
	}
	// leaves checks that the replica that was connected to a faulty server has left it.
	leaves := func(name string, n int, begin time.Time) {
		t.Helper()
		not := after(looks[n](), begin, false)
		again := after(looks[n](), begin.Add(not), true)
		t.Logf("%s, replica %d at %s: not ready after %.1f s, ready through another after %.1f s", name, n,
			begin.UTC().Format("15:04:05"), not.Seconds(), (not + again).Seconds())
		if d := paused(begin, begin.Add(not+again)); d > 0 {
			t.Logf("%s: the machine paused for %.1f s meanwhile", name, d.Seconds())
			return
		}
		if not == 0 || not > 10*time.Second || again == 0 || not+again > 15*time.Second {
			t.Errorf("%s: not ready after %v, ready again %v later", name, not, again)
		}
	}
	const silence = 12 * time.Second
	// a random one, and one that is certainly a leader
	for round, stream := range []string{"", "FEATURES", "KV_EMBEDD_MODELS"} {
		m := c.members[round]
		if stream != "" {
			m = c.leader(test.js, stream)
		}
		name := fmt.Sprintf("server %d partitioned from the others, leader of %q", m.n, stream)
		n := c.at(replicas, m)
		begin := during(name, 20*time.Second, silence, func() { m.cut("k") }, func() { m.mend("k") })
		if n >= 0 {
			leaves(name, n, begin)
		}
	}
	for _, kind := range []string{"gone without a word", "stopped and continued"} {
		m := c.leader(test.js, "REDUCED")
		name := fmt.Sprintf("server %d %s", m.n, kind)
		fail, mend := func() { m.cut("k"); m.cut("c") }, func() { m.mend("k"); m.mend("c") }
		if kind == "stopped and continued" {
			fail = func() { _ = m.cmd.Process.Signal(syscall.SIGSTOP) }
			mend = func() { _ = m.cmd.Process.Signal(syscall.SIGCONT) }
		}
		n := c.at(replicas, m)
		begin := during(name, 20*time.Second, silence, fail, mend)
		if n >= 0 {
			leaves(name, n, begin)
		}
	}
	for _, stream := range streams {
		m := c.leader(test.js, stream)
		during(fmt.Sprintf("server %d killed, leader of %s", m.n, stream), 10*time.Second, silence,
			func() { m.end(syscall.SIGKILL) }, m.start)
	}
	during("rolling restart", 0, time.Second, func() {
		for _, m := range c.members {
			m.end(syscall.SIGUSR2) // lame duck mode: it transfers its leaderships and its clients
			m.start()
			c.whole(test.js, streams...)
		}
	}, func() {})
	for i, d := range replicas {
		how := "replica killed"
		if d.holds("p") {
			how = "the replica that learns killed"
		}
		during(how, 5*time.Second, silence, d.kill, func() {})
		if i == 1 {
			break // one has to answer
		}
	}
	eventually(t, says("50,000 messages are sent"), func() bool { return l.sent.Load() >= 50_000 })
	sent := l.stop()
	test.settled("FEATURES", "p")
	a := test.answers("REDUCED")
	twice, letters := 0, test.count("DEAD")
	for _, n := range a.bySource {
		twice += n - 1
	}
	t.Logf("%d inputs, %d lost, %d answered twice, %d dead letters", sent, sent-len(a.bySource), twice, letters)
	if stored := test.count("FEATURES"); stored != sent || len(a.bySource) != stored || twice > 0 || letters > 0 {
		t.Errorf("%d inputs sent, %d stored, %d answered, %d answered twice, %d dead letters", sent, stored, len(a.bySource),
			twice, letters)
	}
	in := test.answers("FEATURES")
	for _, s := range spans {
		most, none := a.silence(s.from, s.to), in.silence(s.from, s.to)
		t.Logf("%-70s no output for %.1f s, no input for %.1f s", s.name, most.Seconds(), none.Seconds())
		if d := paused(s.from, s.to); d > 0 {
			t.Logf("%s: the machine paused for %.1f s meanwhile", s.name, d.Seconds())
		} else if most > s.most && most > none+2*time.Second { // while the input's stream elects a leader, nothing arrives
			t.Errorf("%s: no output for %v", s.name, most)
		}
	}
}
