package integration

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestDigits is the whole path: labelled digits are published to JetStream, a projection is learned from them, and
// reduced digits are published.
func TestDigits(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	d := startDaemon(t, configFile(t, s.ClientURL(), `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {method: lda, dim: 9}
  training: {window: {rows: 2000}, every: {rows: 600, period: none}}`))
	g := digits(t)

	const rows = 32
	sent := 0
	for from := 0; from < g.n; from += rows {
		c.send("features.digits", g.message(t, from, min(from+rows, g.n), true))
		sent++
	}
	c.await("REDUCED", sent)
	// The second pass has no labels: one model answers all of it.
	eventually(t, says("all rows are learned"), func() bool {
		return d.metric(`embedd_window_rows{class="all",pipeline="digits"}`) == fmt.Sprint(g.n)
	})
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for from := 0; from < g.n; from += rows {
		c.send("features.digits", g.message(t, from, min(from+rows, g.n), false), "traceparent", traceparent, "X-Two",
			"a", "X-Two", "b", "Nats-Rollup-Not", "x")
	}
	c.await("REDUCED", 2*sent)
	c.settled("FEATURES", "digits")

	out := c.read("REDUCED")
	once(t, "FEATURES", 1, 2*sent, out)
	if n := c.count("DEAD"); n != 0 {
		t.Errorf("%d dead letters, want none", n)
	}
	var first, second reduced
	for i, msg := range out {
		if i < sent {
			first.add(t, msg.data)
			continue
		}
		second.add(t, msg.data)
	}
	if first.d != 9 || len(first.id) != g.n || len(second.id) != g.n {
		t.Fatalf("%d and %d rows of %d columns, want twice %d of 9", len(first.id), len(second.id), first.d, g.n)
	}
	for i := range first.id {
		if first.id[i] != int32(i) || second.id[i] != int32(i) || first.label[i] != g.label[i] ||
			second.label[i] != "" {
			t.Fatalf("row %d came out as id %d label %q and id %d label %q", i, first.id[i], first.label[i],
				second.id[i], second.label[i])
		}
	}
	last := out[len(out)-1]
	for _, msg := range out[sent:] {
		if msg.header.Get(wire.HeaderModel) != last.header.Get(wire.HeaderModel) {
			t.Fatalf("two models answered while nothing was learned: %s and %s", msg.header.Get(wire.HeaderModel),
				last.header.Get(wire.HeaderModel))
		}
	}
	accuracy := second.nearest(g.label)
	t.Logf("1-NN accuracy %.4f at 9 dimensions; model %s, epoch %s", accuracy, last.header.Get(wire.HeaderModel),
		last.header.Get(wire.HeaderEpoch))
	if accuracy < 0.94 {
		t.Errorf("1-NN accuracy of the reduced digits is %.4f, want at least 0.94", accuracy)
	}

	// The headers of the wire.
	want := map[string][]string{
		wire.HeaderMethod: {"lda"}, wire.HeaderWire: {wire.Version},
		wire.HeaderSource:      {fmt.Sprintf("FEATURES:%d", 2*sent)},
		wire.HeaderContentType: {wire.ContentType}, "traceparent": {traceparent}, "X-Two": {"a", "b"},
	}
	for k, v := range want {
		if got := last.header[k]; !slices.Equal(got, v) {
			t.Errorf("header %s is %q, want %q", k, got, v)
		}
	}
	for _, k := range []string{wire.HeaderModel, wire.HeaderEpoch, "Nats-Msg-Id"} {
		if last.header.Get(k) == "" {
			t.Errorf("header %s is missing", k)
		}
	}
	for _, k := range []string{wire.HeaderPart, "Nats-Rollup-Not", wire.HeaderError} {
		if v := last.header[k]; v != nil {
			t.Errorf("header %s is %q, want none", k, v)
		}
	}
	schema, _ := decode(t, last.data)
	meta := schema.Metadata()
	for _, k := range []string{wire.HeaderModel, wire.HeaderMethod, wire.HeaderEpoch, wire.HeaderSource,
		wire.HeaderWire} {
		if v, _ := meta.GetValue(k); v != last.header.Get(k) {
			t.Errorf("schema metadata %s is %q and the header %q", k, v, last.header.Get(k))
		}
	}
	if f := schema.Field(2); f.Name != "embedding" ||
		!arrow.TypeEqual(f.Type.(*arrow.FixedSizeListType).Elem(), arrow.PrimitiveTypes.Float32) ||
		schema.NumFields() != 3 {
		t.Errorf("the output's schema is %v, want id, label and embedding: fixed_size_list<float32>[9]", schema)
	}

	// Everything is counted.
	for line, want := range map[string]int{
		`embedd_messages_total{pipeline="digits",result="out"}`: 2 * sent,
		`embedd_rows_total{pipeline="digits",result="out"}`:     2 * g.n,
		`embedd_rows_total{pipeline="digits",result="dead"}`:    0,
		`embedd_rows_total{pipeline="digits",result="skip"}`:    0,
	} {
		d.awaitMetric(line, fmt.Sprint(want))
	}
	d.stop()
}

// fits returns how many fits of the only pipeline have ended.
func fits(d *daemon) int {
	var v float64
	_, _ = fmt.Sscan(d.metric(`embedd_fits_total{pipeline="digits"}`), &v)
	return int(v)
}

// promotions returns how many models a daemon has promoted.
func promotions(d *daemon) int {
	var v float64
	_, _ = fmt.Sscan(d.metric(`embedd_candidates_total{pipeline="digits",result="promoted"}`), &v)
	return int(v)
}
