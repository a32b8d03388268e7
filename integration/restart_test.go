package integration

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/testsize"
)

const learning = `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {method: lda, dim: 5}
  training: {window: {rows: 3000}, every: {rows: 1000, period: none}}`

// feed publishes n small labelled batches in the background, as fast as the server confirms them.
func feed(t testing.TB, c *client, n int) (sent *atomic.Int64, done chan struct{}) {
	g := digits(t)
	const rows = 3
	var bodies [][]byte
	for from := 0; from < g.n; from += rows {
		bodies = append(bodies, g.message(t, from, from+rows, true))
	}
	sent, done = &atomic.Int64{}, make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			c.send("features.digits", bodies[i%len(bodies)])
			sent.Add(1)
		}
	}()
	return sent, done
}

// batches is how many batches the tests of restarts send.
func batches() int {
	if testsize.Soak() {
		return 10_000
	}
	return testsize.Of(400, 2_000)
}

// TestKilledDaemon kills the daemon four times in the middle of the stream and starts it again at once. Every input
// has exactly one output.
func TestKilledDaemon(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	config := configFile(t, s.ClientURL(), learning)
	setAckWait(t, config, "3s") // messages that it held are redelivered after it
	n := batches()
	d := startDaemon(t, config)
	_, done := feed(t, c, n)
	for kill := 1; kill <= 4; kill++ {
		c.await("REDUCED", n*kill/6)
		before := c.count("REDUCED")
		d.kill()
		at := c.count("REDUCED")
		d = startDaemon(t, config)
		t.Logf("kill %d: %d inputs, %d outputs then, %d when killed", kill, c.count("FEATURES"), before, at)
	}
	<-done
	last := time.Now()
	c.await("REDUCED", n)
	c.settled("FEATURES", "digits")
	t.Logf("all answered %.1f s after the last input", time.Since(last).Seconds())
	once(t, "FEATURES", 1, n, c.read("REDUCED"))
	if dead := c.count("DEAD"); dead != 0 {
		t.Errorf("%d dead letters, want none", dead)
	}
	d.stop()
}

// TestDrainedDaemon stops the daemon with SIGTERM in the middle: it exits with 0, what it pulled is answered and
// acknowledged, and the next one continues from there.
func TestDrainedDaemon(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	config := configFile(t, s.ClientURL(), learning)
	n := max(batches()/2, 400) // enough rows for a model
	d := startDaemon(t, config)
	_, done := feed(t, c, n)
	for stop := 1; stop <= 2; stop++ {
		c.await("REDUCED", n*stop/4)
		d.stop()
		out, acknowledged := 0, -1
		eventually(t, func() string {
			return fmt.Sprintf("stop %d: drained: %d outputs are stored and %d inputs are acknowledged", stop, out, acknowledged)
		}, func() bool { // the server counts acknowledgements later
			info := must(c.js.Consumer(within(t, ample), "FEATURES", "embedd_digits"))(t).CachedInfo()
			out, acknowledged = c.count("REDUCED"), int(info.Delivered.Stream)-info.NumAckPending
			return out == acknowledged
		})
		t.Logf("stop %d: %d outputs, %d inputs acknowledged", stop, out, acknowledged)
		d = startDaemon(t, config)
	}
	<-done
	c.await("REDUCED", n)
	c.settled("FEATURES", "digits")
	once(t, "FEATURES", 1, n, c.read("REDUCED"))
	d.stop()
}

// TestKilledServer restarts the server in the middle, once normally and once with kill -9, with its store on disk.
// Nothing is lost or duplicated.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := startServerProcess(t, "")
	c := dial(t, s.url)
	c.streams()
	n := batches()
	d := startDaemon(t, configFile(t, s.url, learning))
	_, done := feed(t, c, n)
	for i, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		c.await("REDUCED", n*(i+1)/4)
		s.restart(signal, time.Second)
	}
	<-done
	// The client looks for the server again after two seconds at most.
	c.await("REDUCED", n)
	c.settled("FEATURES", "digits")
	inputs := c.count("FEATURES")
	if inputs != n {
		t.Errorf("the input holds %d messages, %d were sent", inputs, n)
	}
	once(t, "FEATURES", 1, inputs, c.read("REDUCED"))
	d.stop()
}

var promoted = regexp.MustCompile(`msg="a model goes live" .*version=(\S+) .*epoch=(\d+) rows=(\d+)`)

// TestModelSurvives checks that a restart continues with the live model, in its coordinates, and with the window that
// it was fitted on.
func TestModelSurvives(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	config := configFile(t, s.ClientURL(), strings.Replace(learning, "every: {rows: 1000", "every: {rows: 600", 1))
	g := digits(t)
	send := func(from, to int, labelled bool) {
		t.Helper()
		have := c.count("REDUCED")
		for ; from < to; from += 50 {
			c.send("features.digits", g.message(t, from, min(from+50, to), labelled))
			have++
		}
		c.await("REDUCED", have)
	}
	d := startDaemon(t, config)
	send(0, 600, true)
	eventually(t, says("the first model is live"),
		func() bool {
			return promotions(d) >= 1 && strings.Contains(
				d.metric(`embedd_window_rows{class="all",pipeline="digits"}`), "600")
		})
	send(600, 610, false)
	before := c.last("REDUCED")
	d.kill()

	d = startDaemon(t, config)
	eventually(t, says("ready after the restart"),
		func() bool { code, _ := d.get("/readyz"); return code == 200 })
	send(600, 610, false)
	after := c.last("REDUCED")
	for _, k := range []string{wire.HeaderModel, wire.HeaderEpoch, wire.HeaderMethod} {
		if before.header.Get(k) != after.header.Get(k) {
			t.Errorf("%s is %q before the restart and %q after it", k, before.header.Get(k), after.header.Get(k))
		}
	}
	d.awaitMetric(fmt.Sprintf(`embedd_model_info{epoch=%q,method="lda",pipeline="digits",version=%q}`,
		before.header.Get(wire.HeaderEpoch), before.header.Get(wire.HeaderModel)), "1")
	if n := promotions(d); n != 0 {
		t.Errorf("%d promotions after the restart without a new labelled row, want none", n)
	}
	// The window has the old rows and the new ones.
	send(600, 1200, true)
	eventually(t, says("1200 rows in the window"), func() bool {
		return d.metric(`embedd_window_rows{class="all",pipeline="digits"}`) == "1200"
	})
	if m := promoted.FindStringSubmatch(d.log.String()); m != nil {
		epoch := must(strconv.Atoi(m[2]))(t)
		old := must(strconv.Atoi(before.header.Get(wire.HeaderEpoch)))(t)
		if epoch < old || m[1] == before.header.Get(wire.HeaderModel) {
			t.Errorf("model %s of epoch %d went live after %s of epoch %d", m[1], epoch,
				before.header.Get(wire.HeaderModel), old)
		}
	}
	d.stop()
}

// last is the newest message of a stream.
func (c *client) last(stream string) stored {
	c.t.Helper()
	ctx := within(c.t, ample)
	s := must(c.js.Stream(ctx, stream))(c.t)
	msg := must(s.GetMsg(ctx, s.CachedInfo().State.LastSeq))(c.t)
	return stored{msg.Subject, msg.Header, msg.Data, msg.Sequence}
}
