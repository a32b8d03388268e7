package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// answering is the configuration of a replica that answers with a model from a file.
func answering(t testing.TB, url, name, stream, subject, model string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "embedd.yaml")
	write(t, path, fmt.Sprintf("nats: {url: %q, wait: 30s}\nhttp: {listen: 127.0.0.1:0}\ndaemon: {role: transform}\npipelines:\n", url)+
		indent(fmt.Sprintf(`
%s:
  input: {stream: %s, subject: %s}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.%s, dead: dead.p}
  model: {file: %s}`, name, stream, subject, name, model)))
	return path
}

// TestThroughputOfReplicas tells what one, two and four replicas take of processor time for a message of a stream that is
// filled, once they have begun, and what the server takes, whose work is the same: what that takes more beside four is the
// machine's.
func TestThroughputOfReplicas(t *testing.T) {
	if !soak() {
		t.Skip("it wants a machine that does nothing else; EMBEDD_SOAK=1 runs it")
	}
	s := startServerProcess(t, "")
	c := dial(t, s.url)
	c.streams()
	c.stream("EMPTY", nil, "empty.>")
	model := packedModel(t, "lda", 8)
	idle := startDaemon(t, answering(t, s.url, "idle", "EMPTY", "empty.p", model))
	time.Sleep(time.Second)
	began := processorTime(t, idle.cmd.Process.Pid)
	idle.stop()
	for _, of := range []struct {
		rows, messages int
	}{{16, 60_000}, {256, 12_000}} {
		c.throughput(s, model, of.rows, of.messages, began)
	}
}

func (c *client) throughput(s *serverProcess, model string, rows, messages int, began time.Duration) {
	t := c.t
	g := digits(t)
	var bodies [][]byte
	for from := 0; from+rows <= g.n; from += rows {
		bodies = append(bodies, g.message(t, from, from+rows, false))
	}
	subject := fmt.Sprintf("features.rows%d", rows)
	before := c.count("FEATURES")
	for n := range messages {
		if err := c.nc.Publish(subject, bodies[n%len(bodies)]); err != nil {
			t.Fatal(err)
		}
		if n%1000 == 999 {
			c.await("FEATURES", before+n-999)
		}
	}
	c.await("FEATURES", before+messages)
	least, server := map[int]time.Duration{}, map[int]time.Duration{}
	for round := range 2 {
		for _, n := range []int{1, 2, 4} {
			name := fmt.Sprintf("p%d-%d-%d", rows, n, round)
			config := answering(t, s.url, name, "FEATURES", subject, model)
			before := processorTime(t, s.cmd.Process.Pid)
			var daemons []*daemon
			for range n {
				daemons = append(daemons, launch(t, config))
			}
			c.settled("FEATURES", name)
			var took time.Duration
			for _, d := range daemons {
				took += processorTime(t, d.cmd.Process.Pid) - began
				d.kill()
			}
			if least[n] == 0 || took < least[n] {
				least[n], server[n] = took, processorTime(t, s.cmd.Process.Pid)-before
			}
		}
	}
	for _, n := range []int{1, 2, 4} {
		t.Logf("%d replicas: %.1f us of processor time a message of %d rows, %.3f of one's, and %.1f us of the server", n,
			least[n].Seconds()/float64(messages)*1e6, rows, least[n].Seconds()/least[1].Seconds(),
			server[n].Seconds()/float64(messages)*1e6)
	}
}

// TestIdleReplicas tells what a replica costs the server that has nothing to answer: the more replicas, the more that is.
func TestIdleReplicas(t *testing.T) {
	if !soak() {
		t.Skip("it wants a machine that does nothing else; EMBEDD_SOAK=1 runs it")
	}
	monitor := freePort(t)
	s := startServerProcess(t, fmt.Sprintf("http: 127.0.0.1:%d", monitor))
	c := dial(t, s.url)
	c.streams()
	received := func() (n int64) {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/varz", monitor))
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
	const replicas, window = 12, 20 * time.Second
	learner := startDaemon(t, at(t, s.url, "", "all"))
	for from := 0; from < 800; from += 8 {
		c.send("features.p", digits(t).message(t, from, from+8, true))
	}
	c.settled("FEATURES", "p")
	eventually(t, says("a model is live"), func() bool { code, _ := learner.get("/readyz"); return code == 200 })
	var pids []int
	measure := func() (server, own time.Duration, asked int64) {
		time.Sleep(3 * time.Second)
		server, asked = -processorTime(t, s.cmd.Process.Pid), -received()
		for _, pid := range pids {
			own -= processorTime(t, pid)
		}
		time.Sleep(window)
		for _, pid := range pids {
			own += processorTime(t, pid)
		}
		return server + processorTime(t, s.cmd.Process.Pid), own, asked + received()
	}
	server0, _, asked0 := measure()
	for range replicas {
		pids = append(pids, startDaemon(t, at(t, s.url, "", "transform")).cmd.Process.Pid)
	}
	server, own, asked := measure()
	each := replicas * window.Seconds()
	t.Logf("a replica without work sends %.1f messages a second, which cost the server %.2f ms, and takes %.2f ms itself",
		float64(asked-asked0)/each, float64((server-server0).Milliseconds())/each, float64(own.Milliseconds())/each)
}
