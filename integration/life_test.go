package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// value is a metric of the daemon as a number.
func (d *daemon) value(line string) float64 {
	d.t.Helper()
	var v float64
	_, _ = fmt.Sscan(d.metric(line), &v)
	return v
}

// TestInputMadeAnew deletes the input stream and makes it again, while the daemon runs and while it does not: every
// message of either stream has its one output, learning goes on with the new one, and readiness says what happened.
func TestInputMadeAnew(t *testing.T) {
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	config := configFile(t, s.ClientURL(), until("hold"))
	d := startDaemon(t, config)
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
		if err := c.js.DeleteStream(within(t, 10*time.Second), "FEATURES"); err != nil {
			t.Fatal(err)
		}
		c.stream("FEATURES", nil, "features.>")
	}
	send(0, 300)
	c.await("REDUCED", out, time.Minute)
	eventually(t, 20*time.Second, says("the first fit"), func() bool { return fits(d) == 1 })

	again()
	begin := time.Now()
	send(300, 700)
	eventually(t, 10*time.Second, says("a fit from the new stream's rows"), func() bool { return fits(d) >= 2 })
	t.Logf("a fit ended %v after the stream was made anew", time.Since(begin).Round(time.Millisecond))
	c.await("REDUCED", out, time.Minute)
	code, r := 0, readyz{}
	eventually(t, 10*time.Second, func() string { return fmt.Sprint("readiness says what happened: ", code, r) },
		func() bool {
			code, r = d.readyz()
			return code == 200 && strings.Contains(r.Pipelines[0].Learning, "the input stream was made anew at")
		})
	if n := d.value(`embedd_reader_restarts_total{cause="recreated",pipeline="digits"}`); n != 1 {
		t.Errorf("%v restarts are counted, want 1", n)
	}
	if !strings.Contains(d.log.String(), "the input stream was made anew at") {
		t.Error("the log does not say it")
	}
	d.stop()

	again()
	send(700, 750)
	d = startDaemon(t, config)
	c.await("REDUCED", out, 20*time.Second)
	send(750, 1100)
	eventually(t, 20*time.Second, says("a fit from the third stream's rows"), func() bool { return fits(d) >= 1 })
	c.await("REDUCED", out, time.Minute)
	c.settled("FEATURES", "digits", 20*time.Second)
	d.stop()
	ids := map[string]bool{}
	answers := c.read("REDUCED")
	for _, a := range answers {
		ids[a.header.Get("Nats-Msg-Id")] = true
	}
	if len(answers) != out || len(ids) != out {
		t.Errorf("%d answers with %d identities stand there, want %d", len(answers), len(ids), out)
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

// TestOneReader measures what learning costs the server: where the hot path is in step, a message is read once.
func TestOneReader(t *testing.T) {
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
		c.await("REDUCED", to/20, time.Minute)
		return bytes
	}
	read := func(path string) float64 {
		return d.value(fmt.Sprintf(`embedd_read_bytes_total{path=%q,pipeline="digits"}`, path))
	}
	send(0, 800)
	eventually(t, time.Minute, says("the first fit"), func() bool { return fits(d) >= 1 })
	time.Sleep(6 * time.Second) // the learning side's own pull, of the time before the model, has ended
	sentBefore := must(s.Varz(nil))(t).OutBytes
	answer, learn := read("answer"), read("learn")
	bytes := send(800, 16_000)
	eventually(t, time.Minute, says("fits"), func() bool { return fits(d) >= 3 })
	answer, learn = read("answer")-answer, read("learn")-learn
	t.Logf("of %d bytes of input, %.0f were read to be answered and %.0f to be learned: %.2f times in all; the server sent %d bytes",
		bytes, answer, learn, (answer+learn)/float64(bytes), must(s.Varz(nil))(t).OutBytes-sentBefore)
	if answer != float64(bytes) || learn > float64(bytes)/20 {
		t.Errorf("%.0f and %.0f bytes were read, want %d and none", answer, learn, bytes)
	}
	d.stop()
}

// TestHangingServer stops the server's process in its tracks for a while: everything goes on where it was.
func TestHangingServer(t *testing.T) {
	s := startServerProcess(t, "")
	c := dial(t, s.url)
	c.streams()
	d := startDaemon(t, configFile(t, s.url, until("hold")))
	g := digits(t)
	n := 0
	send := func(from, to int) {
		for ; from < to; from += 10 {
			c.send("features.digits", g.message(t, from, from+10, true))
			n++
		}
	}
	send(0, 300)
	c.await("REDUCED", n, time.Minute)
	eventually(t, 20*time.Second, says("the first fit"), func() bool { return fits(d) == 1 })
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(8 * time.Second)
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	send(300, 700)
	eventually(t, time.Minute, says("a fit after the server hung"), func() bool { return fits(d) >= 2 })
	c.await("REDUCED", n, time.Minute)
	once(t, "FEATURES", 1, n, c.read("REDUCED"))
	if _, r := d.readyz(); r.Pipelines[0].Learning != "" {
		t.Errorf("readiness says %q; a server that hangs is no change of the stream", r.Pipelines[0].Learning)
	}
	d.stop()
}
