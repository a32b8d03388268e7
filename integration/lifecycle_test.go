package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/registry"
)

// value returns a metric of the daemon as a number.
func (d *daemon) value(line string) float64 {
	d.t.Helper()
	var v float64
	_, _ = fmt.Sscan(d.metric(line), &v)
	return v
}

// window waits until the window of the only pipeline has a number of rows, and returns its status.
func (e *engine) window(rows int) (s stream.Status) {
	e.t.Helper()
	eventually(e.t, func() string { return fmt.Sprintf("%d rows are in the window: %+v", rows, s) },
		func() bool {
			if all := e.Status(); len(all) == 1 {
				s = all[0]
			}
			return s.Stage.Rows == rows
		})
	return s
}

// TestInputRecreated deletes and recreates the input stream, while the engine runs and while it does not: every message
// of each of the streams has one output, training continues with the new one, and the status reports the change.
func TestInputRecreated(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	p := digitsPipeline("digits", "lda")
	e := startEngine(t, dial(t, s.ClientURL()), p)
	g := digits(t)
	out := 0
	send := func(from, to int) {
		t.Helper()
		for ; from < to; from += 10 {
			c.send("features.digits", g.message(t, from, from+10, true))
			out++
		}
	}
	again := func() {
		t.Helper()
		if err := c.js.DeleteStream(within(t, ample), "FEATURES"); err != nil {
			t.Fatal(err)
		}
		// In memory: a server was observed to use the files of a stream that it had just deleted for a new one.
		c.stream("FEATURES", func(o *jetstream.StreamConfig) { o.Storage = jetstream.MemoryStorage }, "features.>")
	}
	send(0, 500)
	c.await("REDUCED", out)
	if learned := e.window(500).InputEvent; learned != "" {
		t.Errorf("the status says %q before anything happened", learned)
	}

	again()
	begin := time.Now()
	send(500, 900)
	e.window(900)
	t.Logf("learning was up to date %v after the stream was recreated", time.Since(begin).Round(time.Millisecond))
	c.await("REDUCED", out)
	eventually(t, says("the status reports it, and is ready"), func() bool {
		status := e.Status()[0]
		return strings.Contains(status.InputEvent, "the input stream was recreated at") && status.Ready
	})
	e.stop()

	again()
	send(900, 950)
	e = startEngine(t, dial(t, s.ClientURL()), p)
	e.window(50) // the window begins with the first message of the current stream
	send(950, 1000)
	e.window(100)
	c.await("REDUCED", out)
	c.settled("FEATURES", "digits")
	e.stop()

	// The same engine again: the window is filled from the stream.
	e = startEngine(t, dial(t, s.ClientURL()), p)
	e.window(100)
	e.stop()
	ids := map[string]bool{}
	answers := c.read("REDUCED")
	for _, a := range answers {
		ids[a.header.Get("Nats-Msg-Id")] = true
	}
	if len(answers) != out || len(ids) != out {
		t.Errorf("%d answers with %d identities are stored, want %d", len(answers), len(ids), out)
	}
	var rows reduced
	for _, a := range answers {
		rows.add(t, a.data)
	}
	for i, id := range rows.id {
		if int(id) != i {
			t.Fatalf("row %d came out as %d", i, id)
		}
	}
}

// TestOneReader measures the traffic of training: if the hot path keeps up, a message is read once.
func TestOneReader(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	d := startDaemon(t, configFile(t, s.ClientURL(), until("hold")))
	g := digits(t)
	send := func(from, to int) (bytes int) {
		for ; from < to; from += 20 {
			body := g.message(t, from, from+20, from%40 == 0)
			bytes += len(body)
			c.send("features.digits", body)
		}
		c.await("REDUCED", to/20)
		return bytes
	}
	read := func(path string) float64 {
		return d.value(fmt.Sprintf(`embedd_read_bytes_total{path=%q,pipeline="digits"}`, path))
	}
	send(0, 800)
	eventually(t, says("the first fit"), func() bool { return fits(d) >= 1 })
	time.Sleep(6 * time.Second) // the training reader from the time before the model has ended
	sentBefore := must(s.Varz(nil))(t).OutBytes
	all, answer, learn := 0, read("answer"), read("learn")
	var again []float64 // of each phase, the share that was read a second time
	for from := 800; from < 16_000; from += 800 {
		before := read("learn")
		bytes := send(from, from+800)
		all, again = all+bytes, append(again, (read("learn")-before)/float64(bytes))
	}
	answer, learn = read("answer")-answer, read("learn")-learn
	t.Logf("of %d bytes of input, %.0f were read to be answered and %.0f to be learned: %.2f times in all; the server "+
		"sent %d bytes",
		all, answer, learn, (answer+learn)/float64(all), must(s.Varz(nil))(t).OutBytes-sentBefore)
	// If the hot path gets no processor for three seconds, training reads separately.
	if slices.Sort(again); answer != float64(all) || again[len(again)/2] > 0.05 {
		t.Errorf("%.0f bytes were read to be answered, want %d, and once more %.2f of a stretch in the median, want none",
			answer, all,
			again[len(again)/2])
	}
	d.stop()
}

// TestHangingServer suspends the server's process for a while: everything continues.
func TestHangingServer(t *testing.T) {
	t.Parallel()
	s := startServerProcess(t, "")
	c := dial(t, s.url)
	c.streams()
	e := startEngine(t, dial(t, s.url), digitsPipeline("digits", "lda"))
	g := digits(t)
	n := 0
	send := func(from, to int) {
		for ; from < to; from += 10 {
			c.send("features.digits", g.message(t, from, from+10, true))
			n++
		}
	}
	send(0, 500)
	c.await("REDUCED", n)
	e.window(500)
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(8 * time.Second)
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	send(500, 900)
	status := e.window(900)
	c.await("REDUCED", n)
	once(t, "FEATURES", 1, n, c.read("REDUCED"))
	if status.InputEvent != "" {
		t.Errorf("the status says %q; a server that hangs is no change of the stream", status.InputEvent)
	}
	e.stop()
}

// TestHangLongerThanTheWindow suspends the server repeatedly for longer than the duplicate window of the output and the
// timeout of a confirmation, under load and with daemons that crash: nothing is lost or duplicated.
func TestHangLongerThanTheWindow(t *testing.T) {
	t.Parallel()
	if !testsize.Soak() {
		t.Skip("takes two minutes; EMBEDD_SOAK=1 runs it, and stream.TestOutageLongerThanTheWindow is its short form")
	}
	s := startServerProcess(t, "")
	c := dial(t, s.url)
	c.stream("FEATURES", nil, "features.>")
	five := func(o *jetstream.StreamConfig) { o.Duplicates = 5 * time.Second }
	c.stream("REDUCED", five, "reduced.>")
	c.stream("DEAD", five, "dead.>")
	config := configFile(t, s.url, learning)
	d := startDaemon(t, config)
	const n = 20_000
	_, done := feed(t, c, n)
	for hang := range 6 {
		c.await("REDUCED", 100+hang*(n/20))
		_ = s.cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(11 * time.Second)
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		if hang%2 == 1 {
			d.kill()
			d = startDaemon(t, config)
		}
	}
	<-done
	c.await("REDUCED", n)
	c.settled("FEATURES", "digits")
	once(t, "FEATURES", 1, n, c.read("REDUCED"))
	d.stop()
}

// TestRestartsDecideAlike runs two pipelines on one stream with drift in the middle, and restarts one of them
// repeatedly at random points: both promote the same models, digest for digest. With EMBEDD_SOAK=1 also with landmarks.
func TestRestartsDecideAlike(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	g := digits(t)
	const rows, step = 6000, 10
	for from := 0; from < rows; from += step {
		if from == rows/2 {
			g = g.reversed()
		}
		c.send("features.digits", g.message(t, from, from+step, true))
	}
	random := rand.New(rand.NewPCG(3, 4))
	run := func(name string, landmarks, restarts int) (models []string) {
		for i := range restarts + 1 {
			one := digitsPipeline(name, "lda")
			one.Stage.Fit.Landmarks = landmarks
			e := startEngine(t, dial(t, s.ClientURL()), one)
			if i == restarts {
				c.settled("FEATURES", name)
				newest := must(c.js.Stream(within(t, ample), "FEATURES"))(t).CachedInfo().State.LastTime
				eventually(t, says("everything is learned"), func() bool {
					all := e.Status()
					if len(all) == 0 {
						return false // it is being opened
					}
					status := all[0].Stage // between two messages lag can be 0 too
					return !status.Newest.Before(newest) && status.Backlog == 0 && !status.Fitting && !status.Restoring
				})
			} else {
				time.Sleep(time.Duration(random.IntN(25*(i+1))) * time.Millisecond)
				if all := e.Status(); len(all) > 0 {
					t.Logf("ended with %d rows in the window", all[0].Stage.Rows)
				}
			}
			e.stop()
		}
		store := must(registry.JetStream(within(t, ample), c.js))(t)
		p := must(registry.New(store, name, registry.Options{}).Pointer(within(t, ample)))(t)
		for _, v := range p.Versions {
			models = append(models, fmt.Sprint(v.Digest[:8], " ", v.Epoch, " ", v.First, " ", v.Last, " ", v.Rows))
		}
		return models
	}
	alike := func(name string, landmarks int) {
		a, b := run(name, landmarks, 0), run(name+"-again", landmarks, 12)
		t.Logf("%d models:\n%s", len(a), strings.Join(a, "\n"))
		if !slices.Equal(a, b) || len(a) < 2 {
			t.Errorf("without restarts\n%s\nwith\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
	}
	alike("a", 0)
	if testsize.Soak() {
		alike("marks", 60)
	}
}

// reversed returns the table with its features in the opposite order.
func (d *table) reversed() *table {
	r := *d
	r.x = slices.Clone(d.x)
	for i := range r.n {
		slices.Reverse(r.x[i*r.m : (i+1)*r.m])
	}
	return &r
}
