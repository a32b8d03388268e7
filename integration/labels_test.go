package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
)

const lateLabels = `
digits:
  input: {stream: FEATURES, subject: features.digits, labels: labels.digits}
  schema: {features: [pixels], label: label, key: id}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {method: lda, dim: 5}
  training: {window: {rows: 3000}, every: {rows: 600, period: none}}`

// labelOf is a label to be published: the number of its row and its text; "" is null.
type labelOf struct {
	id   int
	text string
}

// labelMessage returns labels as one message.
func labelMessage(t testing.TB, labels []labelOf) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, // rows have int32: keys are compared as text
		{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, l := range labels {
		b.Field(0).(*array.Int64Builder).Append(int64(l.id))
		if l.text == "" {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.StringBuilder).Append(l.text)
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	return encode(t, rec)
}

// sendLabels publishes labels of the digits, size in each message.
func (c *client) sendLabels(labels []labelOf) (messages int) {
	c.t.Helper()
	for from := 0; from < len(labels); from += 20 {
		c.send("labels.digits", labelMessage(c.t, labels[from:min(from+20, len(labels))]))
		messages++
	}
	return messages
}

// labels returns the counts of labels by result.
func (d *daemon) labels(result string) int {
	d.t.Helper()
	n, _ := strconv.Atoi(d.metric(fmt.Sprintf(`embedd_labels_total{pipeline="digits",result=%q}`, result)))
	return n
}

func (d *daemon) labelled() string {
	var out []string
	for _, r := range []string{"joined", "corrected", "duplicate", "late", "expired", "skip"} {
		out = append(out, fmt.Sprint(r, " ", d.labels(r)))
	}
	return strings.Join(out, ", ")
}

// TestLateLabels learns rows without labels, and labels that arrive before their rows, after them, out of order, twice,
// corrected, never, and for rows that do not exist; the daemon is killed in the middle.
func TestLateLabels(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	c.stream("LABELS", nil, "labels.>")
	config := configFile(t, s.ClientURL(), lateLabels)
	g := digits(t)
	rng := rand.New(rand.NewPCG(1, 2))
	d := startDaemon(t, config)
	sent := 0
	rows := func(from, to int) {
		for ; from < to; from += 50 {
			c.send("features.digits", g.message(t, from, min(from+50, to), false))
			sent++
		}
	}

	// Of 600 rows 12 are labelled early, 6 never, 6 twice, 6 are corrected.
	var early, late, again []labelOf
	for i := range 600 {
		l := labelOf{i, g.label[i]}
		switch i % 100 {
		case 0, 1:
			early = append(early, l)
		case 2:
		case 3:
			late, again = append(late, l), append(again, l)
		case 4:
			late, again = append(late, labelOf{i, string('0' + (g.label[i][0]-'0'+1)%10)}), append(again, l)
		default:
			late = append(late, l)
		}
	}
	rng.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
	c.sendLabels(early)
	eventually(t, says("early labels wait"), func() bool {
		return d.metric(`embedd_labels_waiting{kind="labels",pipeline="digits"}`) == "12"
	})
	rows(0, 600)
	eventually(t, func() string { return "rows wait for labels: " + d.labelled() }, func() bool {
		_, body := d.get("/readyz")
		return d.labels("joined") == 12 && strings.Contains(body, "588 rows wait for labels on labels.digits")
	})
	c.sendLabels(late[:300])
	eventually(t, says("half is joined"), func() bool { return d.labels("joined") == 312 })

	// Messages that are not Arrow, or not labels.
	notArrow := c.send("labels.digits", []byte("no Arrow"))
	c.send("labels.digits", g.message(t, 0, 2, true)) // a batch with features is valid too
	column := c.send("labels.digits", lineMessage(t, "key", "label"))
	c.sendLabels([]labelOf{{5, ""}}) // a null label has no effect
	c.sendLabels([]labelOf{{1_000_000, "1"}})
	c.await("DEAD", 2)
	letters := c.read("DEAD")
	for i, want := range []struct {
		seq  uint64
		code wire.Code
	}{{notArrow, wire.NotArrow}, {column, wire.MissingColumn}} {
		h := letters[i].header
		if h.Get(wire.HeaderSource) != fmt.Sprintf("LABELS:%d", want.seq) ||
			h.Get(wire.HeaderCode) != string(want.code) ||
			h.Get(wire.HeaderKind) != string(wire.KindMessage) {
			t.Errorf("dead letter %v, want %s of LABELS:%d", h, want.code, want.seq)
		}
		t.Log(h.Get(wire.HeaderError))
	}
	d.kill()

	// The others arrive while the daemon is down, and after that.
	c.sendLabels(late[300:450])
	d = startDaemon(t, config)
	c.sendLabels(late[450:])
	c.sendLabels(again)
	joined := len(early) + len(late)
	eventually(t, func() string { return "all is joined: " + d.labelled() }, func() bool {
		// Six are corrected, six are sent twice, and two were also in a message with features. A label that was
		// corrected before its row was read counts as a duplicate.
		return d.labels("joined") == joined && d.labels("corrected")+d.labels("duplicate") == 14
	})
	if d.labels("late") != 0 || d.labels("expired") != 0 || d.labels("skip") != 1 {
		t.Errorf("%s; want none late, none expired, one skipped", d.labelled())
	}
	// Bad messages that are read again do not become dead letters again.
	if n := c.count("DEAD"); n != 2 {
		t.Errorf("%d dead letters after the restart, want the two of before", n)
	}
	// Six more rows, and a restart with a live model: it reads again from the oldest row that waits.
	rows(600, 606)
	c.sendLabels([]labelOf{{600, g.label[600]}, {601, g.label[601]}, {602, g.label[602]}, {603, g.label[603]},
		{604, g.label[604]}, {605, g.label[605]}})
	eventually(t, says("a model is live"), func() bool { return promotions(d) > 0 })
	eventually(t, says("the last six are joined"),
		func() bool { return d.labels("joined") == joined+6 })
	c.await("REDUCED", sent)
	d.kill()
	d = startDaemon(t, config)
	eventually(t, func() string { return "all is joined again: " + d.labelled() }, func() bool {
		return d.labels("joined") == joined+6 && d.labels("corrected")+d.labels("duplicate") == 14
	})
	d.awaitMetric(`embedd_labels_waiting{kind="rows",pipeline="digits"}`, "6") // rows that never got a label
	var report stream.Report
	if err := json.Unmarshal([]byte(succeed(t, "status", "--server", s.ClientURL(), "--format", "json")),
		&report); err != nil {
		t.Fatal(err)
	}
	if l := report.Labels; l == nil || int(l.Joined) != joined+6 || l.RowsWaiting != 6 || l.Skipped != 1 || l.Note != "" {
		t.Errorf("status of the labels: %+v", l)
	}
	if text := succeed(t, "status", "--server", s.ClientURL()); report.DeadLabels != 2 || !strings.Contains(text,
		"2 label messages became dead letters") {
		t.Errorf("%v label messages became dead letters:\n%s", report.DeadLabels, text)
	}
	if n := c.count("DEAD"); n != 2 {
		t.Errorf("%d dead letters after the second restart, want the two of before", n)
	}
	d.stop()
}

// lineMessage returns one row with a text and a number.
func lineMessage(t testing.TB, key, label string) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: key, Type: arrow.BinaryTypes.String},
		{Name: label, Type: arrow.BinaryTypes.String}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.StringBuilder).Append("a")
	b.Field(1).(*array.StringBuilder).Append("b")
	rec := b.NewRecord()
	defer rec.Release()
	return encode(t, rec)
}

// TestLabelRestarts stops an engine at random points of a stream with late labels, and starts another. After each
// start, and at the end, the window has the rows that have a label by then, and the others wait.
func TestLabelRestarts(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	c.stream("LABELS", nil, "labels.>")
	g := digits(t)
	rng := rand.New(rand.NewPCG(3, 4))
	pipeline := digitsPipeline("digits", "lda")
	pipeline.Labels, pipeline.Stage.Spec.Key = "labels.digits", "id"
	pipeline.Stage.Labels = &plugin.Labels{}
	const rows, delay = 3000, 400
	due := make([][]labelOf, rows/20+1)
	labelled := 0
	for i := range rows {
		if rng.IntN(100) == 0 {
			continue // never
		}
		at := min(i+rng.IntN(delay), rows)
		due[at/20] = append(due[at/20], labelOf{i, g.label[i%g.n]})
	}
	for start, sent := 1, 0; sent < len(due); start++ {
		e := must(stream.New(stream.Options{Conn: c.nc, Pipelines: []stream.Pipeline{pipeline}}))(t)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		for n := 10 + rng.IntN(40); n > 0 && sent < len(due); n, sent = n-1, sent+1 {
			if from := 20 * sent; from < rows {
				c.send("features.digits", g.message(t, from, from+20, false))
			}
			if len(due[sent]) > 0 {
				c.send("labels.digits", labelMessage(t, due[sent]))
				labelled += len(due[sent])
			}
		}
		if rng.IntN(2) == 0 || sent == len(due) { // else it ends in the middle
			var now stream.Status
			eventually(t, func() string {
				return fmt.Sprintf("start %d: %d rows are in the window and %d wait; want %d and %d", start,
					now.Stage.Rows,
					now.Labels.RowsWaiting, labelled, min(20*sent, rows)-labelled)
			}, func() bool {
				if all := e.Status(); len(all) == 1 {
					now = all[0]
				}
				return now.Stage.Rows == labelled && now.Labels.RowsWaiting == min(20*sent, rows)-labelled &&
					now.Stage.Backlog == 0
			})
			t.Logf("start %d: %d rows in the window, %d wait; %+v", start, now.Stage.Rows, now.Labels.RowsWaiting,
				now.Labels)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

// TestLabelRestartsDecideAlike stops engines at random points of a stored history of rows and late labels, and starts
// others: they end with the model, and the evidence, of an engine that read all of it at once.
func TestLabelRestartsDecideAlike(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	c.stream("LABELS", nil, "labels.>")
	g := digits(t)
	rng := rand.New(rand.NewPCG(5, 6))
	const rows, delay = 4000, 400
	due := make([][]labelOf, rows/20+1)
	never := 0
	for i := range rows {
		if i == 5 || rng.IntN(100) == 0 {
			never++
			continue
		}
		at := min(i+rng.IntN(delay), rows)
		due[at/20] = append(due[at/20], labelOf{i, g.label[i%g.n]})
	}
	for sent := range due {
		if from := 20 * sent; from < rows {
			c.send("features.digits", g.message(t, from, from+20, false))
		}
		if len(due[sent]) > 0 {
			c.send("labels.digits", labelMessage(t, due[sent]))
		}
	}
	// run reads for a while, or to the end if stop is 0 rows.
	run := func(name string, stop int) (out string) {
		p := digitsPipeline(name, "lda")
		p.Labels, p.Stage.Spec.Key, p.Stage.Labels = "labels.digits", "id", &plugin.Labels{}
		p.Stage.Training.Window.Rows, p.Stage.Training.Every.Rows = 1000, 700
		e := must(stream.New(stream.Options{Conn: c.nc, Pipelines: []stream.Pipeline{p}}))(t)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		var st stream.Status
		eventually(t, func() string {
			return fmt.Sprintf("%s reads all: %s; labels %+v, stage %+v", name, out, st.Labels, st.Stage)
		}, func() bool {
			all := e.Status()
			if len(all) == 0 {
				return false
			}
			st = all[0]
			if stop > 0 && int(st.Labels.Joined) >= stop {
				return true
			}
			// A restart reads again from the oldest row that waits, so all rows without a label are read again.
			if st.Stage.Live == nil || st.Labels.RowsWaiting != never || st.Stage.Backlog > 0 || st.Stage.Fitting {
				return false
			}
			before := out
			out = fmt.Sprintf("%.12s of epoch %d; window %d, accuracy %v, %d alarms, evidence %v",
				st.Stage.Live.Model.Digest(),
				st.Stage.Live.Epoch, st.Stage.Rows, st.Stage.Accuracy, st.Stage.Alarms, st.Stage.Evidence)
			return out == before // it was the end, not a random point
		})
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := run("whole", 0)
	for i := range 5 {
		name := fmt.Sprint("part", i)
		for range 3 {
			run(name, 400+rng.IntN(1200))
		}
		if got := run(name, 0); got != want {
			t.Errorf("with restarts: %s\nwithout: %s", got, want)
		}
	}
	t.Log(want)
}

// TestLabelStream: a missing stream of labels is an error with its fix, a work queue is refused, and a stream that is
// deleted and recreated while the daemon runs is read from its first message.
func TestLabelStream(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	// With a fixed schema rows are joined at once; else they wait until schemas are counted.
	config := configFile(t, s.ClientURL(), strings.Replace(lateLabels, "[pixels]", "[{column: pixels, size: 64}]", 1))
	_, stderr, code := run(t, "run", "-c", config)
	if code != 1 || !strings.Contains(stderr,
		"no stream takes subject labels.digits; create it: 'embedd setup --apply'") {
		t.Errorf("without a stream of labels: exit %d, %s", code, stderr)
	}
	c.stream("LABELS", func(s *jetstream.StreamConfig) { s.Retention = jetstream.WorkQueuePolicy }, "labels.>")
	_, stderr, code = run(t, "run", "-c", config)
	if code != 1 || !strings.Contains(stderr, "it needs limits retention; send labels to a separate stream") {
		t.Errorf("with a work queue of labels: exit %d, %s", code, stderr)
	}
	remake := func() {
		if err := c.js.DeleteStream(within(t, ample), "LABELS"); err != nil {
			t.Fatal(err)
		}
		c.stream("LABELS", nil, "labels.>")
	}
	remake()
	d := startDaemon(t, config)
	g := digits(t)
	c.send("features.digits", g.message(t, 0, 100, false))
	c.sendLabels([]labelOf{{0, "a"}, {1, "a"}, {2, "a"}})
	eventually(t, func() string { return "three are joined: " + d.labelled() },
		func() bool { return d.labels("joined") == 3 })
	remake()
	c.sendLabels([]labelOf{{2, "b"}, {3, "b"}})
	eventually(t, func() string { return "labels of the new stream are read: " + d.labelled() },
		func() bool { return d.labels("joined") == 4 && d.labels("corrected") == 1 })
	d.awaitLog("the stream of labels was recreated")
	d.stop()
}

// TestLateLabelsCore: without streams labels are joined as they arrive.
func TestLateLabelsCore(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	dead := must(c.nc.SubscribeSync("dead.digits"))(t)
	d := startDaemon(t, configFile(t, s.ClientURL(), strings.Replace(lateLabels, "stream: FEATURES, ", "", 1)))
	eventually(t, says("the daemon listens to both subjects"), func() bool {
		for _, subject := range []string{"features.digits", "labels.digits"} {
			z, err := s.Subsz(&server.SubszOptions{Subscriptions: true, Test: subject})
			if err != nil || len(z.Subs) == 0 {
				return false
			}
		}
		return true
	})
	g := digits(t)
	var labels []labelOf
	for from := 0; from < 650; from += 50 {
		if err := c.nc.Publish("features.digits", g.message(t, from, from+50, false)); err != nil {
			t.Fatal(err)
		}
		for i := from; i < from+50; i++ {
			labels = append(labels, labelOf{i, g.label[i]})
		}
	}
	if err := c.nc.Publish("labels.digits", labelMessage(t, labels)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string { return "the first model is live: " + d.labelled() }, func() bool {
		return promotions(d) >= 1
	})
	// The first model may be fitted before the last row is joined.
	eventually(t, func() string { return "650 labels are joined: " + d.labelled() }, func() bool {
		return d.labels("joined") == 650
	})
	if err := c.nc.Publish("labels.digits", []byte("no Arrow")); err != nil {
		t.Fatal(err)
	}
	letter := must(dead.NextMsg(ample))(t)
	if letter.Header.Get(wire.HeaderCode) != string(wire.NotArrow) || string(letter.Data) != "no Arrow" {
		t.Errorf("the dead letter has code %q and says %q", letter.Header.Get(wire.HeaderCode), letter.Data)
	}
	d.stop()
}

// TestLabelsFromThePast starts a daemon on a long history, with a buffer for a small part of it: neither reader is
// ahead of the other by more than that, so every label finds its row.
func TestLabelsFromThePast(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	c.stream("LABELS", nil, "labels.>")
	g := digits(t)
	const rows = 20_000
	for from := 0; from < rows; from += 100 {
		var labels []labelOf
		for i := from; i < from+100; i++ {
			labels = append(labels, labelOf{i, g.label[i%g.n]})
		}
		c.send("features.digits", g.message(t, from, from+100, false))
		c.send("labels.digits", labelMessage(t, labels))
	}
	d := startDaemon(t, configFile(t, s.ClientURL(), lateLabels+"\n  limits: {labels: 1MiB}"))
	eventually(t, func() string { return "all labels are read: " + d.labelled() }, func() bool {
		return d.labels("joined")+d.labels("late") >= rows
	})
	if d.labels("joined") != rows || d.labels("late") != 0 || d.labels("expired") != 0 {
		t.Errorf("%s; want %d joined, none late and none expired", d.labelled(), rows)
	}
	if n := must(strconv.ParseFloat(d.metric(`embedd_labels_bytes{pipeline="digits"}`), 64))(t); n > 1<<20 {
		t.Errorf("%.0f bytes are held, and 1 MiB is allowed", n)
	}
	d.stop()
}

// TestPublishLabels follows the documentation: setup creates the stream of the labels, and publish sends them
// separately from their rows.
func TestPublishLabels(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	config := configFile(t, s.ClientURL(), lateLabels)
	succeed(t, "setup", "--apply", "-c", config)
	c := dial(t, s.ClientURL())
	d := startDaemon(t, config)
	g := digits(t)
	report := succeed(t, "publish", "--server", s.ClientURL(), "--data", digitsFile(t), "--label", "label", "--subject",
		"features.digits", "--pack", "pixels", "--batch", "100", "--labels", "labels.digits", "--key", "id",
		"--delay", "700")
	t.Log(report)
	eventually(t, func() string { return "all is joined: " + d.labelled() }, func() bool {
		return d.labels("joined") == g.n
	})
	eventually(t, says("a model is live"), func() bool { return promotions(d) > 0 })
	c.await("REDUCED", (g.n+99)/100)
	if n := c.count("LABELS"); n != (g.n+99)/100 {
		t.Errorf("%d messages of labels, want %d", n, (g.n+99)/100)
	}
	d.stop()
	_, stderr, code := run(t, "publish", "--server", s.ClientURL(), "--data", digitsFile(t), "--subject", "x",
		"--labels", "y")
	if code != 2 || !strings.Contains(stderr, "--labels needs --label and --key") {
		t.Errorf("publish --labels without a key: exit %d, %s", code, stderr)
	}
}
