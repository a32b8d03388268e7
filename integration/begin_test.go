package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
)

// readyz is the reply of /readyz.
type readyz struct {
	Ready     bool
	Pipelines []struct {
		Pipeline string
		Ready    bool
		Reason   string
		Learning string
	}
}

func (d *daemon) readyz() (code int, r readyz) {
	d.t.Helper()
	code, body := d.get("/readyz")
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		d.t.Fatalf("/readyz says %q: %v", body, err)
	}
	return code, r
}

func until(policy string) string {
	return `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {method: lda, dim: 5}
  training: {window: {rows: 3000}, every: {rows: 300, period: none}, until_ready: ` + policy + `}`
}

// TestHold: before the first model no message is answered or lost, no delivery is counted as an attempt, and /readyz
// reports the progress.
func TestHold(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	d := startDaemon(t, configFile(t, s.ClientURL(), until("hold")))
	g := digits(t)
	if code, body := d.get("/healthz"); code != 200 {
		t.Errorf("/healthz is %d: %s", code, body)
	}
	c.send("features.digits", g.message(t, 0, 100, true))
	c.send("features.digits", g.message(t, 100, 200, false)) // not labelled: it does not count
	c.send("features.digits", g.message(t, 200, 300, true))
	code, r := 0, readyz{}
	eventually(t, func() string {
		return fmt.Sprintf("/readyz says 200 of 300 labelled rows: %d %v",
			code, r)
	}, func() bool {
		code, r = d.readyz()
		return code == 503 && !r.Ready && len(r.Pipelines) == 1 &&
			strings.Contains(r.Pipelines[0].Reason, "200 of 300 labelled rows")
	})
	time.Sleep(time.Second)
	if n := c.count("REDUCED"); n != 0 {
		t.Errorf("%d outputs before the first model, want none", n)
	}
	if consumer, err := c.js.Consumer(within(t, ample), "FEATURES", "embedd_digits"); err == nil {
		if info := consumer.CachedInfo(); info.Delivered.Consumer != 0 {
			t.Errorf("%d deliveries while the pipeline holds, want none", info.Delivered.Consumer)
		}
	}
	c.send("features.digits", g.message(t, 300, 400, true))
	c.await("REDUCED", 4)
	once(t, "FEATURES", 1, 4, c.read("REDUCED"))
	eventually(t, func() string { return fmt.Sprintf("ready with a live model: %d %v", code, r) }, func() bool {
		code, r = d.readyz()
		return code == 200 && r.Ready
	})
	d.stop()
}

// TestPCA: a PCA of the first rows without a label serves until the first model exists, and the first model begins
// a new epoch.
func TestPCA(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	d := startDaemon(t, configFile(t, s.ClientURL(), until("pca")))
	g := digits(t)
	n := 0
	send := func(from, to int, labelled bool) {
		for ; from < to; from += 50 {
			c.send("features.digits", g.message(t, from, from+50, labelled))
			n++
		}
	}
	send(0, 350, false)
	c.await("REDUCED", n)
	first := c.last("REDUCED")
	if m := first.header.Get(wire.HeaderMethod); m != "pca" {
		t.Errorf("before the first model %s answers, want pca", m)
	}
	send(350, 700, true)
	eventually(t, says("the first model"), func() bool { return promotions(d) >= 2 })
	send(0, 50, false)
	c.await("REDUCED", n)
	c.settled("FEATURES", "digits")
	last := c.last("REDUCED")
	if last.header.Get(wire.HeaderMethod) != "lda" ||
		last.header.Get(wire.HeaderEpoch) == first.header.Get(wire.HeaderEpoch) {
		t.Errorf("after the first model %s of epoch %s answers, want lda of an epoch after %s",
			last.header.Get(wire.HeaderMethod), last.header.Get(wire.HeaderEpoch), first.header.Get(wire.HeaderEpoch))
	}
	once(t, "FEATURES", 1, n, c.read("REDUCED"))
	d.stop()
}

// TestSkip: before the first model messages are acknowledged without output, and counted
// (Invariant 10).
func TestSkip(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	d := startDaemon(t, configFile(t, s.ClientURL(), until("skip")))
	g := digits(t)
	for from := 0; from < 200; from += 50 {
		c.send("features.digits", g.message(t, from, from+50, true))
	}
	c.settled("FEATURES", "digits")
	if n := c.count("REDUCED"); n != 0 {
		t.Errorf("%d outputs before the first model, want none", n)
	}
	for line, want := range map[string]string{
		`embedd_messages_total{pipeline="digits",result="skip"}`: "4",
		`embedd_rows_total{pipeline="digits",result="skip"}`:     "200",
	} {
		d.awaitMetric(line, want)
	}
	c.send("features.digits", g.message(t, 200, 350, true))
	eventually(t, says("the first model"), func() bool { return promotions(d) >= 1 })
	seq := c.send("features.digits", g.message(t, 350, 360, false))
	c.settled("FEATURES", "digits")
	out := c.read("REDUCED")
	if n := len(out); n != 1 && n != 2 { // a model may be learned from the message before sooner than that is answered
		t.Errorf("%d outputs, want that of FEATURES:%d", n, seq)
	}
	once(t, "FEATURES", int(seq)+1-len(out), int(seq), out)
	d.stop()
}

// TestWorkQueue: a stream with work-queue retention has one reader, for both paths.
func TestWorkQueue(t *testing.T) {
	t.Parallel()
	for _, retention := range []jetstream.RetentionPolicy{jetstream.WorkQueuePolicy, jetstream.InterestPolicy} {
		t.Run(retention.String(), func(t *testing.T) {
			t.Parallel()
			s := startServer(t, nil)
			c := dial(t, s.ClientURL())
			c.stream("FEATURES", func(o *jetstream.StreamConfig) { o.Retention = retention }, "features.>")
			c.stream("REDUCED", nil, "reduced.>")
			c.stream("DEAD", nil, "dead.>")
			d := startDaemon(t, configFile(t, s.ClientURL(), until("pca")))
			// Interest begins with the consumer.
			eventually(t, says("the consumer is there"), func() bool {
				_, err := c.js.Consumer(within(t, ample), "FEATURES", "embedd_digits")
				return err == nil
			})
			g := digits(t)
			n := 0
			for from := 0; from < 1000; from += 50 {
				c.send("features.digits", g.message(t, from, from+50, true))
				n++
			}
			c.await("REDUCED", n)
			eventually(t, says("a model is learned"), func() bool { return promotions(d) >= 1 })
			c.settled("FEATURES", "digits")
			if left := c.count("FEATURES"); left != 0 {
				t.Errorf("the queue holds %d messages, want none", left)
			}
			once(t, "FEATURES", 1, n, c.read("REDUCED"))
			d.stop()
		})
	}
}

// TestWorkQueueHold: with one reader for both paths, messages that wait must still be learned.
func TestWorkQueueHold(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.stream("FEATURES", func(o *jetstream.StreamConfig) { o.Retention = jetstream.WorkQueuePolicy }, "features.>")
	c.stream("REDUCED", nil, "reduced.>")
	c.stream("DEAD", nil, "dead.>")
	d := startDaemon(t, configFile(t, s.ClientURL(), until("hold")))
	g := digits(t)
	n := 0
	for from := 0; from < 1000; from += 50 {
		c.send("features.digits", g.message(t, from, from+50, true))
		n++
	}
	c.await("REDUCED", n)
	c.settled("FEATURES", "digits")
	once(t, "FEATURES", 1, n, c.read("REDUCED"))
	d.stop()
}
