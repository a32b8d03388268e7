package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
)

// TestPublishToPipeline: --pipeline takes subject, label, key and the subject of late labels from the configuration; a
// flag that is set wins.
func TestPublishToPipeline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serveNATS(t, server.Options{JetStream: true, StoreDir: dir})
	config := writeFile(t, dir, "embedd.yaml", fmt.Sprintf(`
nats: {url: '%s'}
pipelines:
  plain: {input: {subject: features.plain}, schema: {features: [x, y]}, model: {store: none}}
  packed: {input: {subject: features.packed}, schema: {features: [p]}, model: {store: none}}
  late:
    input: {subject: features.late, labels: labels.late}
    schema: {features: [x, y], key: id}
    model: {store: none}
  keyed: {input: {stream: KEYED, subject: keyed.*, partitions: 2}, schema: {features: [x, y]}}
  absent: {input: {stream: ABSENT, subject: features.absent}, schema: {features: [x, y]}}
  stored: {input: {stream: STORED, subject: features.stored}, schema: {features: [x, y]}}
`, s.ClientURL()))
	labelled := writeFile(t, dir, "labelled.csv", labelledRows(4))
	rows := writeFile(t, dir, "rows.csv", "x,y\n1,2\n3,4\n")
	text := writeFile(t, dir, "text.csv", "x;y\n1;2,5\n")
	parts := t.TempDir()
	writeFile(t, parts, "a.csv", "x,y\n1,2\n")
	writeFile(t, parts, "b.csv", "y,x\n0.5,4\n")
	nc := sure(nats.Connect(s.ClientURL(), nats.Timeout(ample)))
	t.Cleanup(nc.Close)
	js := sure(jetstream.New(nc, jetstream.WithDefaultTimeout(ample)))
	sure(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KEYED", Subjects: []string{"keyed.*"}}))
	sure(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"features.stored"}}))
	got := make(chan *nats.Msg, 10)
	for _, subject := range []string{"features.*", "labels.*", "keyed.*"} {
		sure(nc.ChanSubscribe(subject, got))
	}
	if err := nc.FlushTimeout(ample); err != nil {
		t.Fatal(err)
	}
	columns := func() string {
		t.Helper()
		var m *nats.Msg
		select {
		case m = <-got:
		case <-time.After(ample):
			t.Fatal("no message comes")
		}
		r := sure(ipc.NewReader(bytes.NewReader(m.Data)))
		defer r.Release()
		var names []string
		for _, f := range r.Schema().Fields() {
			names = append(names, f.Name)
		}
		return m.Subject + ": " + strings.Join(names, " ")
	}
	for _, c := range []struct {
		flags []string
		want  []string // subject and columns of each message
	}{
		{[]string{"--data", labelled, "--pipeline", "plain"}, []string{"features.plain: id x y label"}},
		{[]string{"--data", labelled, "--pipeline", "packed", "--pack", "p"}, []string{"features.packed: p id label"}},
		{[]string{"--data", rows, "--pipeline", "plain"}, []string{"features.plain: x y"}},
		{[]string{"--data", parts, "--pipeline", "plain"}, []string{"features.plain: x y", "features.plain: x y"}},
		{[]string{"--data", labelled, "--pipeline", "late"}, []string{"features.late: id x y", "labels.late: id label"}},
		{[]string{"--data", rows, "--pipeline", "late"}, []string{"features.late: x y"}},
		{[]string{"--data", rows, "--pipeline", "keyed", "--subject", "keyed.a"}, []string{"keyed.a: x y"}},
	} {
		verb(t, 0, append([]string{"publish", "-c", config}, c.flags...)...)
		for _, want := range c.want {
			if got := columns(); got != want {
				t.Errorf("%v publishes %q, want %q", c.flags, got, want)
			}
		}
	}
	for data, want := range map[string]string{
		rows: `rows.csv: the rows are published without labels, since it has no column "label"`,
		text: `column "y" is text: line 2 holds "2,5"; --decimal , reads it as a number`,
	} {
		if _, _, errs := call(t.Context(), "publish", "-c", config, "--data", data, "--pipeline", "plain"); !strings.Contains(
			errs, want) {
			t.Errorf("publish of %s: %s, want %s", data, errs, want)
		}
	}
	columns()
	if err := nc.FlushTimeout(ample); err != nil || len(got) > 0 {
		t.Errorf("%d more messages: %v", len(got), err)
	}
	for says, flags := range map[string][]string{
		// A message that nothing would receive is an error.
		`it has no subscriber (did you mean "features.plain"?)`:    {"--subject", "feature.plain"},
		"no stream stores features.absent, and pipeline absent":    {"--pipeline", "absent"},
		"stream OTHER stores features.stored, and pipeline stored": {"--pipeline", "stored"},
		"pipeline plain reads features.plain":                      {"--pipeline", "plain", "--subject", "features.packed"},
		"has wildcards (keyed.*): set --subject":                   {"--pipeline", "keyed"},
		`has no pipeline "plane" (did you mean "plain"?)`:          {"--pipeline", "plane"},
		"--subject or --pipeline is required":                      {},
		`column "kind"`:                                            {"--pipeline", "plain", "--label", "kind"},
		"would answer with dead letters (missing_column)":          {"--pipeline", "plain", "--pack", "p"},
		"--rate NaN: want 0":                                       {"--pipeline", "plain", "--rate", "NaN"},
		"--rate +Inf: want 0":                                      {"--pipeline", "plain", "--rate", "inf"},
		"--rate 1e-09: want 0, which is as fast as possible, or 0.001 to 1e+09 rows a second": {"--pipeline", "plain",
			"--rate", "1e-9"},
	} {
		code, _, errs := call(t.Context(), append([]string{"publish", "-c", config, "--data", rows}, flags...)...)
		if code == 0 || !strings.Contains(errs, says) {
			t.Errorf("%v: exit %d, %s; want %s", flags, code, errs, says)
		}
	}
}

// TestPublishLoopEnds: a signal ends a publisher that repeats a file as fast as it can, also where no stream confirms
// its messages, and a file without rows is not repeated.
func TestPublishLoopEnds(t *testing.T) {
	t.Parallel()
	s := serveNATS(t, server.Options{})
	nc := sure(nats.Connect(s.ClientURL(), nats.Timeout(ample)))
	t.Cleanup(nc.Close)
	got := make(chan struct{}, 1)
	sure(nc.Subscribe("features.x", func(*nats.Msg) {
		select {
		case got <- struct{}{}:
		default:
		}
	}))
	if err := nc.FlushTimeout(ample); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"rows.csv": labelledRows(4), "none.csv": "x,y\n"} {
		data := writeFile(t, dir, name, text)
		for _, shuffle := range []string{"--shuffle=false", "--shuffle"} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan string, 1)
			go func() {
				code, stdout, stderr := call(ctx, "publish", "--loop", shuffle, "--server", s.ClientURL(), "--subject",
					"features.x", "--data", data)
				ended <- fmt.Sprint(code, " ", stdout, stderr)
			}()
			if name == "rows.csv" {
				select {
				case <-got:
				case <-time.After(ample):
					t.Fatal("no message comes")
				}
				cancel()
			}
			select {
			case says := <-ended:
				isEmpty := strings.HasPrefix(says, "0 0 messages") &&
					strings.Contains(says, "note: none.csv has no rows, so nothing was published")
				if isEmpty != (name == "none.csv") {
					t.Errorf("%s %s: %s", name, shuffle, says)
				}
			case <-time.After(ample):
				t.Fatalf("%s %s: the publisher does not end", name, shuffle)
			}
			cancel()
		}
	}
}

// TestPublishWithoutConfirmation: a stream that does not confirm messages ends the publisher, which would wait
// indefinitely.
func TestPublishWithoutConfirmation(t *testing.T) {
	t.Parallel()
	s := serveNATS(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	nc := sure(connection.Dial(t.Context(), config.NATS{URL: s.ClientURL()}, connection.Options{Wait: ample}))
	t.Cleanup(nc.Close)
	js := sure(nc.JetStream())
	sure(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "SILENT", Subjects: []string{"features.x"},
		NoAck: true}))
	p := sure(newPublisher(t.Context(), nc, "features.x", wire.FormatArrow))
	p.wait = 100 * time.Millisecond
	var err error
	for n := 0; err == nil && n < maxUnconfirmed; n++ {
		err = p.send(t.Context(), []byte("rows"), 1)
	}
	if err == nil || !strings.Contains(err.Error(), "stream SILENT did not confirm a message within 100ms") {
		t.Errorf("after %d messages: %v", p.messages, err)
	}
	p = sure(newPublisher(t.Context(), nc, "features.x", wire.FormatArrow))
	p.wait = 100 * time.Millisecond
	err = errors.Join(p.send(t.Context(), []byte("rows"), 1), p.flush(t.Context()))
	if err == nil || !strings.Contains(err.Error(), "the last 1 of 1 messages are not confirmed: stream SILENT did not "+
		"confirm a message within 100ms") {
		t.Errorf("after one message: %v", err)
	}
}
