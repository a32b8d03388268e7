package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/testsize"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"gonum.org/v1/gonum/stat"
)

// answering returns the configuration of a replica that answers with a model from a file.
func answering(t testing.TB, url, name, stream, subject, model string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "embedd.yaml")
	write(t, path, fmt.Sprintf("nats: {url: %q, wait: 30s}\nhttp: {listen: 127.0.0.1:0}\ndaemon: {role: "+
		"transform}\npipelines:\n", url)+
		indent(fmt.Sprintf(`
%s:
  input: {stream: %s, subject: %s}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.%s, dead: dead.p}
  model: {file: %s}`, name, stream, subject, name, model)))
	return path
}

// TestThroughputOfReplicas compares the processor time of two and four replicas for a message of a filled stream with
// that of one replica. It also reports the time of as many relays, which do not process messages, and the time of all
// of them at a rate that one replica can answer.
func TestThroughputOfReplicas(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it wants a machine that does nothing else; EMBEDD_SOAK=1 runs it")
	}
	for _, of := range []struct{ rows, messages, rate int }{{16, 100_000, 3000}, {256, 24_000, 600}} {
		t.Run(fmt.Sprintf("rows=%d", of.rows), func(t *testing.T) { throughput(t, of.rows, of.messages, of.rate) })
	}
}

// maxGrowth is the maximum of the processor time for a message of two or four replicas, relative to one.
const maxGrowth = 1.1

func throughput(t *testing.T, rows, messages, rate int) {
	w := worksOf(t, startServerProcess(t, ""), rows)
	t.Run("filled", func(t *testing.T) { w.at(t).filled(messages) })
	t.Run("paced", func(t *testing.T) { w.at(t).paced(rate) })
}

// works is the environment in which contestants answer the same messages.
type works struct {
	*client
	server *serverProcess
	model  string
	bodies [][]byte
}

// worksOf has messages of a number of rows.
func worksOf(t testing.TB, s *serverProcess, rows int) *works {
	c := dial(t, s.url)
	c.streams()
	g := digits(t)
	var bodies [][]byte
	for from := 0; from+rows <= g.n; from += rows {
		bodies = append(bodies, g.message(t, from, from+rows, false))
	}
	return &works{c, s, packedModel(t, "lda", 8), bodies}
}

func (w works) at(t *testing.T) *works {
	c := *w.client
	c.t, w.client = t, &c
	return &w
}

// begin starts a number of contestants on a paused consumer, and waits until all of them wait for messages.
func (w *works) begin(of contestant, subject string, n, round int) *crew {
	t := w.t
	name := fmt.Sprintf("%s-%s-%d-%d", of, subject, n, round)
	until := time.Now().Add(time.Hour)
	c := &crew{works: w, subject: "features." + subject}
	c.consumer = must(w.js.CreateConsumer(within(t, ample), "FEATURES", jetstream.ConsumerConfig{Durable: "embedd_" + name,
		AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: c.subject, MaxAckPending: 16384, MaxDeliver: -1,
		PauseUntil: &until}))(t)
	for range n {
		if of == relays {
			c.pids = append(c.pids, launchRelay(t, w.server.url, name, len(w.bodies[0])/8))
			continue
		}
		config := answering(t, w.server.url, name, "FEATURES", c.subject, w.model)
		c.pids = append(c.pids, launch(t, config).cmd.Process.Pid)
	}
	eventually(t, says("all of them wait for messages"), func() bool {
		return must(c.consumer.Info(within(t, ample)))(t).NumWaiting >= n
	})
	return c
}

// fill stores messages.
func (w *works) fill(messages int) {
	for n := range messages {
		if err := w.nc.Publish("features.filled", w.bodies[n%len(w.bodies)]); err != nil {
			w.t.Fatal(err)
		}
		if n%1000 == 999 {
			w.await("FEATURES", n-999)
		}
	}
	w.await("FEATURES", messages)
}

// BenchmarkReplicas: processor time and page faults for a message of four replicas, and how much the time varies
// between rounds.
func BenchmarkReplicas(b *testing.B) {
	const rows, messages = 256, 48_000
	w := worksOf(b, startServerProcess(b, ""), rows)
	w.fill(messages)
	var took, faults []float64
	for round := 0; b.Loop(); round++ {
		t := w.begin(replicas, "filled", 4, round).drain(messages)
		took, faults = append(took, t.replicas), append(faults, t.faults)
	}
	mean, spread := stat.MeanStdDev(took, nil)
	b.ReportMetric(median(took), "cpu-us/msg")
	b.ReportMetric(median(faults), "faults/msg")
	b.ReportMetric(100*spread/mean, "variation-%")
	b.ReportMetric(0, "ns/op")
}

// filled measures one, two and four contestants on stored messages.
func (w *works) filled(messages int) {
	t := w.t
	w.fill(messages)
	least := map[contestant]map[int]taken{}
	for round := range 2 {
		for _, n := range []int{1, 2, 4} {
			for _, of := range contestants {
				took := w.begin(of, "filled", n, round).drain(messages)
				if round == 0 && n == 1 {
					least[of] = map[int]taken{}
				}
				if was := least[of][n]; was.replicas == 0 || took.replicas < was.replicas {
					least[of][n] = took
				}
			}
		}
	}
	for _, of := range contestants {
		for _, n := range []int{1, 2, 4} {
			growth := least[of][n].replicas / least[of][1].replicas
			t.Logf("%d %s: %.1f us of processor time a message, %.2f of what one takes, and %.1f us of the server", n,
				of, least[of][n].replicas, growth, least[of][n].server)
			if of == replicas && growth > maxGrowth {
				t.Errorf("%d replicas take %.2f of what one takes for a message, goal at most %g", n, growth, maxGrowth)
			}
		}
	}
}

// paced sends messages to one and to four contestants, at a rate that one can answer.
func (w *works) paced(rate int) {
	for _, of := range contestants {
		for _, n := range []int{1, 4} {
			took := w.begin(of, "paced", n, 0).keepUp(rate)
			w.t.Logf("%d %s at %d messages a second: %.1f us of processor time a message, and %.1f us of the server", n, of,
				rate, took.replicas, took.server)
		}
	}
}

// contestant is a kind of process that answers messages.
type contestant string

const (
	relays   contestant = "relays"
	replicas contestant = "replicas"
)

var contestants = []contestant{relays, replicas}

// crew is a number of processes that share a consumer.
type crew struct {
	*works
	subject  string
	consumer jetstream.Consumer
	pids     []int
}

// taken is processor time for a message, in microseconds, and the page faults of the replicas for one.
type taken struct{ replicas, server, faults float64 }

func (w *crew) spent() (t taken) {
	for _, pid := range w.pids {
		t.replicas += float64(processorTime(w.t, pid).Microseconds())
		t.faults += pageFaults(w.t, pid)
	}
	t.server = float64(processorTime(w.t, w.server.cmd.Process.Pid).Microseconds())
	return t
}

// answered returns how many messages are acknowledged.
func (w *crew) answered() int {
	info := must(w.consumer.Info(within(w.t, ample)))(w.t)
	return int(info.Delivered.Consumer) - info.NumAckPending
}

// over stops the crew and returns its costs since it had answered a number of messages.
func (w *crew) over(was taken, from int) taken {
	is, n := w.spent(), float64(w.answered()-from)
	for _, pid := range w.pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return taken{(is.replicas - was.replicas) / n, (is.server - was.server) / n, (is.faults - was.faults) / n}
}

// drain lets the crew answer all stored messages. Only the second half counts: before it, the heaps of all processes
// grow.
func (w *crew) drain(messages int) taken {
	t := w.t
	must(w.js.ResumeConsumer(within(t, ample), "FEATURES", w.consumer.CachedInfo().Name))(t)
	eventually(t, says("half is answered"), func() bool { return w.answered() >= messages/2 })
	was, from := w.spent(), w.answered()
	eventually(t, says("all is answered"), func() bool { return w.answered() >= messages })
	return w.over(was, from)
}

// keepUp sends messages at a rate, each of which the crew answers as it arrives.
func (w *crew) keepUp(rate int) taken {
	t := w.t
	must(w.js.ResumeConsumer(within(t, ample), "FEATURES", w.consumer.CachedInfo().Name))(t)
	var was taken
	from := 0
	const lead, whole = 2, 7 // seconds
	begin := time.Now()
	for n := 0; n < whole*rate; {
		for ; n < min(int(time.Since(begin).Seconds()*float64(rate)), whole*rate); n++ {
			if n == lead*rate {
				was, from = w.spent(), w.answered()
			}
			if err := w.nc.Publish(w.subject, w.bodies[n%len(w.bodies)]); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(200 * time.Microsecond)
	}
	eventually(t, says("all is answered"), func() bool { return w.answered() >= whole*rate })
	return w.over(was, from)
}

// launchRelay starts a relay in a separate process.
func launchRelay(t testing.TB, url, name string, bytes int) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestRelay$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("EMBEDD_RELAY=%s %s %d", url, name, bytes), "GOGC=400")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// TestRelay is that process; it is not a test.
func TestRelay(t *testing.T) {
	var url, name string
	var bytes int
	if n, _ := fmt.Sscan(os.Getenv("EMBEDD_RELAY"), &url, &name, &bytes); n < 3 {
		t.Skip("it is a process that another test starts")
	}
	js := must(jetstream.New(must(nats.Connect(url))(t), jetstream.WithPublishAsyncMaxPending(2*pending)))(t)
	consumer := must(js.Consumer(t.Context(), "FEATURES", "embedd_"+name))(t)
	if err := relay(t.Context(), js, consumer, "reduced."+name, make([]byte, bytes)); err != nil {
		t.Fatal(err)
	}
}

// TestIdleReplicas measures the cost of idle replicas for the server: 12 that share the consumer, and 60 that share 64
// partitions.
func TestIdleReplicas(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it wants a machine that does nothing else; EMBEDD_SOAK=1 runs it")
	}
	t.Run("Shared", func(t *testing.T) {
		idle(t, nil, 12, "input: {stream: FEATURES, subject: features.*}")
	})
	t.Run("Partitions", func(t *testing.T) {
		idle(t, func(s *jetstream.StreamConfig) {
			s.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "features.*",
				Destination: "features.{{wildcard(1)}}.64.{{partition(64,1)}}"}
		}, 60, "input: {stream: FEATURES, subject: features.*, partitions: 64}")
	})
}

// idle measures replicas of a pipeline that have nothing to do.
func idle(t *testing.T, change func(*jetstream.StreamConfig), replicas int, input string) {
	monitor := carrier.FreePort(t)
	s := startServerProcess(t, fmt.Sprintf("http: 127.0.0.1:%d", monitor))
	c := dial(t, s.url)
	c.stream("FEATURES", change, "features.>")
	c.stream("REDUCED", nil, "reduced.>")
	c.stream("DEAD", nil, "dead.>")
	messages := func() int64 {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/varz", monitor))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var varz struct {
			InMsgs  int64 `json:"in_msgs"`
			OutMsgs int64 `json:"out_msgs"`
		}
		if err := json.NewDecoder(answer.Body).Decode(&varz); err != nil {
			t.Fatal(err)
		}
		return varz.InMsgs + varz.OutMsgs
	}
	config := configFile(t, s.url, `
p:
  `+input+`
  schema: {features: [pixels], label: label}
  output: {subject: reduced.p, dead: dead.p}
  model: {method: lda, dim: 4}
  training: {until_ready: pca, every: {rows: 600, period: none}}`)
	first := startDaemon(t, config)
	for from := 0; from < 800; from += 8 {
		c.send(fmt.Sprint("features.k", from), digits(t).message(t, from, from+8, true))
	}
	c.await("REDUCED", 100)
	eventually(t, says("a model is live"), func() bool { code, _ := first.get("/readyz"); return code == 200 })
	all := []*daemon{first}
	for len(all) < replicas {
		all = append(all, startDaemon(t, config))
	}
	if change != nil {
		state := func() string { return "each has its share of the partitions" + explain(c, "p", all) }
		eventually(t, state, func() bool {
			sum := 0
			for _, d := range all {
				n, err := strconv.Atoi(d.metric(`embedd_partitions_held{pipeline="p"}`))
				if sum += n; err != nil || n > 3 {
					return false
				}
			}
			return sum == 65
		})
	}
	const window = 30 * time.Second
	measure := func() (server, own time.Duration, n int64) {
		for _, d := range all {
			own += processorTime(t, d.cmd.Process.Pid)
		}
		return processorTime(t, s.cmd.Process.Pid), own, messages()
	}
	time.Sleep(10 * time.Second)
	server, own, n := measure()
	time.Sleep(window)
	serverEnd, ownEnd, nEnd := measure()
	t.Logf("%d replicas without work send and receive %.1f messages a second each, use %.3f cores together, and %.3f "+
		"of the server", replicas, float64(nEnd-n)/window.Seconds()/float64(replicas),
		(ownEnd-own).Seconds()/window.Seconds(),
		(serverEnd-server).Seconds()/window.Seconds())
}
