package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestThroughputOfReplicas: what one, two and four replicas take of processor time for a message of a stream that is
// filled. Four take at most 1.1 times what one takes.
func TestThroughputOfReplicas(t *testing.T) {
	if !soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it")
	}
	const messages, rounds = 20_000, 3
	s := startServerProcess(t, "")
	c := dial(t, s.url)
	c.streams()
	c.stream("EMPTY", nil, "empty.>")
	g := digits(t)
	for n := range messages {
		from := n * 64 % (g.n - 64)
		if err := c.nc.Publish("features.p", g.message(t, from, from+64, false)); err != nil {
			t.Fatal(err)
		}
		if n%500 == 0 {
			c.await("FEATURES", n-500)
		}
	}
	c.await("FEATURES", messages)
	model := packedModel(t, "lda", 8)
	path := func(name, stream, subject string) string {
		path := filepath.Join(t.TempDir(), "embedd.yaml")
		write(t, path, fmt.Sprintf("nats: {url: %q, wait: 30s}\nhttp: {listen: 127.0.0.1:0}\ndaemon: {role: transform}\npipelines:\n", s.url)+
			indent(fmt.Sprintf(`
%s:
  input: {stream: %s, subject: %s}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.%s, dead: dead.p}
  model: {file: %s}`, name, stream, subject, name, model)))
		return path
	}
	// began is what a daemon takes to begin.
	idle := startDaemon(t, path("idle", "EMPTY", "empty.p"))
	time.Sleep(3 * time.Second)
	began := processorTime(t, idle.cmd.Process.Pid)
	idle.stop()
	least := map[int]time.Duration{}
	shares := map[int][]string{}
	for round := range rounds {
		for _, n := range []int{1, 2, 4} {
			name := fmt.Sprintf("p%d-%d", n, round)
			config := path(name, "FEATURES", "features.p")
			var daemons []*daemon
			for range n {
				daemons = append(daemons, launch(t, config))
			}
			c.settled("FEATURES", name)
			var took time.Duration
			shares[n] = nil
			for _, d := range daemons {
				one := max(processorTime(t, d.cmd.Process.Pid)-began, 0)
				took += one
				shares[n] = append(shares[n], fmt.Sprintf("%.1f s", one.Seconds()))
				d.kill()
			}
			if least[n] == 0 || took < least[n] {
				least[n] = took
			}
		}
	}
	each := func(n int) float64 { return least[n].Seconds() / messages * 1e6 }
	for _, n := range []int{1, 2, 4} {
		t.Logf("%d replicas: %.1f us of processor time a message of 64 rows, %.3f of one's; shares of the last round %s", n, each(n),
			each(n)/each(1), strings.Join(shares[n], ", "))
	}
	if ratio := each(4) / each(1); ratio > 1.1 {
		t.Errorf("four replicas take %.3f of the processor time of one", ratio)
	}
}
