package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestThroughputOfReplicas: what one, two and four replicas take of processor time for a message of a stream that is
// filled. Four take at most 1.1 times what one takes. It tells too what the server takes for a message, and for a replica
// that has nothing to do: the constants of docs/scale.md.
func TestThroughputOfReplicas(t *testing.T) {
	if !soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it")
	}
	const messages, rounds = 20_000, 3
	monitor := freePort(t)
	s := startServerProcess(t, fmt.Sprintf("http: 127.0.0.1:%d", monitor))
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
	const quiet = 30 * time.Second
	rest := func() time.Duration {
		before := processorTime(t, s.cmd.Process.Pid)
		time.Sleep(quiet)
		return processorTime(t, s.cmd.Process.Pid) - before
	}
	one := rest()
	var others []*daemon
	for range 8 {
		others = append(others, startDaemon(t, path("idle", "EMPTY", "empty.p")))
	}
	time.Sleep(3 * time.Second)
	nine := rest()
	asked := received(t, monitor)
	time.Sleep(10 * time.Second)
	asked = received(t, monitor) - asked
	for _, d := range append(others, idle) {
		d.kill()
	}
	t.Logf("a replica begins in %.2f s of processor time; idle, it costs the server %.2f ms of each second, and sends it %.1f messages a second",
		began.Seconds(), float64((nine-one).Milliseconds())/8/quiet.Seconds(), float64(asked)/9/10)
	least, server := map[int]time.Duration{}, map[int]time.Duration{}
	shares := map[int][]string{}
	for round := range rounds {
		for _, n := range []int{1, 2, 4} {
			name := fmt.Sprintf("p%d-%d", n, round)
			config := path(name, "FEATURES", "features.p")
			var daemons []*daemon
			before := processorTime(t, s.cmd.Process.Pid)
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
				least[n], server[n] = took, processorTime(t, s.cmd.Process.Pid)-before
			}
		}
	}
	each := func(n int) float64 { return least[n].Seconds() / messages * 1e6 }
	for _, n := range []int{1, 2, 4} {
		t.Logf("%d replicas: %.1f us of processor time a message of 64 rows, %.3f of one's, and %.1f us of the server; shares of the last round %s",
			n, each(n), each(n)/each(1), server[n].Seconds()/messages*1e6, strings.Join(shares[n], ", "))
	}
	if ratio := each(4) / each(1); ratio > 1.1 {
		t.Errorf("four replicas take %.3f of the processor time of one", ratio)
	}
}

// received is how many messages the server has got.
func received(t testing.TB, port int) (n int64) {
	t.Helper()
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/varz", port))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var varz struct {
		InMsgs int64 `json:"in_msgs"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&varz); err != nil {
		t.Fatal(err)
	}
	return varz.InMsgs
}
