package integration

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
)

// columns builds a message of n rows column by column: pixels (if m > 0), label and more.
func columnsOf(t testing.TB, n, m int, more ...column) []byte {
	t.Helper()
	if m > 0 {
		g := digits(t)
		b := array.NewFixedSizeListBuilder(memory.DefaultAllocator, int32(m), arrow.PrimitiveTypes.Float32)
		for i := range n {
			b.Append(true)
			b.ValueBuilder().(*array.Float32Builder).AppendValues(g.x[i*g.m:i*g.m+m], nil)
		}
		more = append([]column{{"pixels", b.NewArray()}}, more...)
	}
	var fields []arrow.Field
	var arrays []arrow.Array
	for _, c := range more {
		fields = append(fields, arrow.Field{Name: c.name, Type: c.array.DataType(), Nullable: true})
		arrays = append(arrays, c.array)
	}
	return encode(t, array.NewRecord(arrow.NewSchema(fields, nil), arrays, int64(n)))
}

type column struct {
	name  string
	array arrow.Array
}

func texts(name string, values ...string) column {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	return column{name, b.NewArray()}
}

func doubles(name string, values ...float64) column {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	return column{name, b.NewArray()}
}

// pixelsWith returns a message of n rows with one value of row at replaced.
func pixelsWith(t testing.TB, n, at int, value float32) []byte {
	g := digits(t)
	changed := &table{n: n, m: g.m, x: slices.Clone(g.x[:n*g.m]), label: g.label[:n]}
	changed.x[at*g.m+7] = value
	return changed.message(t, 0, n, true)
}

// growing returns a message whose second batch extends the dictionary of the first.
func growing(t testing.TB) []byte {
	g := digits(t)
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "pixels", Type: arrow.FixedSizeListOf(int32(g.m), arrow.PrimitiveTypes.Float32)},
		{Name: "colour", Type: dictionary},
	}, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema), ipc.WithDictionaryDeltas(true))
	words := []string{"red", "green", "blue", "white"}
	for _, known := range []int{2, 4} {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		pixels := b.Field(0).(*array.FixedSizeListBuilder)
		values := array.NewStringBuilder(memory.DefaultAllocator)
		values.AppendValues(words[:known], nil)
		indices := array.NewInt8Builder(memory.DefaultAllocator)
		for i := range known {
			pixels.Append(true)
			pixels.ValueBuilder().(*array.Float32Builder).AppendValues(g.x[i*g.m:(i+1)*g.m], nil)
			indices.Append(int8(i))
		}
		colour := array.NewDictionaryArray(dictionary, indices.NewArray(), values.NewArray())
		rec := array.NewRecord(schema, []arrow.Array{pixels.NewArray(), colour}, int64(known))
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sharing returns a compressed message of 55 KB whose rows all refer to one dictionary entry of nearly a megabyte:
// split for the server, it would be published a hundred times.
func sharing(t testing.TB) []byte {
	g := digits(t)
	words := texts("word", strings.Repeat("w", 1_038_000))
	indices := array.NewInt32Builder(memory.DefaultAllocator)
	pixels := array.NewFixedSizeListBuilder(memory.DefaultAllocator, int32(g.m), arrow.PrimitiveTypes.Float32)
	for i := range 8000 {
		indices.Append(0)
		pixels.Append(true)
		at := i % 200 * g.m
		pixels.ValueBuilder().(*array.Float32Builder).AppendValues(g.x[at:at+g.m], nil)
	}
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "pixels", Type: arrow.FixedSizeListOf(int32(g.m), arrow.PrimitiveTypes.Float32)},
		{Name: "word", Type: dictionary},
	}, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema), ipc.WithZstd())
	rec := array.NewRecord(schema, []arrow.Array{pixels.NewArray(),
		array.NewDictionaryArray(dictionary, indices.NewArray(), words.array)}, 8000)
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestBadInput checks that every bad message becomes a dead letter that names the cause, and that the messages around
// it are answered (Invariants 10 and 11).
func TestBadInput(t *testing.T) {
	t.Parallel()
	g := digits(t)
	good := g.message(t, 0, 4, true)
	huge := strings.Repeat("w", 1_044_000)
	cases := []struct {
		name  string
		body  []byte
		code  wire.Code
		words []string // part of the error
		rows  string   // the rejected rows if the others are answered; "" if the whole message is dead
	}{
		{"not Arrow", []byte("this is not an Arrow message, it is a sentence"), wire.NotArrow, []string{"Arrow"}, ""},
		{"nothing", nil, wire.NotArrow, []string{"empty"}, ""},
		{"truncated in the body", good[:len(good)*2/3], wire.Truncated, []string{"bytes"}, ""},
		{"truncated after the schema", good[:len(good)/4/8*8], wire.Truncated, nil, ""},
		{"wrong feature count", columnsOf(t, 2, 63, texts("label", "1", "2")), wire.FeatureCount,
			[]string{"pixels", "63", "64"}, ""},
		{"missing column", columnsOf(t, 2, 0, texts("label", "1", "2"), doubles("other", 1, 2)), wire.MissingColumn,
			[]string{"pixels"}, ""},
		{"text where numbers belong", columnsOf(t, 2, 0, texts("label", "1", "2"), texts("pixels", "a", "b")),
			wire.NotNumeric, []string{"pixels"}, ""},
		{"a label that is a float", columnsOf(t, 2, 64, doubles("label", 1, 2)), wire.LabelType, []string{"label"}, ""},
		{"name taken", columnsOf(t, 2, 64, texts("label", "1", "2"), doubles("embedding", 1, 2)), wire.NameTaken,
			[]string{"embedding"}, ""},
		{"a dictionary that grows", growing(t), wire.Dictionary, []string{"dictionar"}, ""},
		{"a kept text that is not UTF-8", columnsOf(t, 2, 64, texts("label", "1", "2"), texts("note", "a", "\xff")),
			wire.Malformed, []string{`column "note", row 1`, "UTF-8"}, ""},
		{"over limits.message", columnsOf(t, 1, 64, texts("label", "1"), texts("text", strings.Repeat("x", 900<<10))),
			wire.TooLarge, []string{"message"}, ""},
		{"NaN", pixelsWith(t, 5, 3, float32(math.NaN())), wire.NonFinite, []string{"pixels[7]", "NaN", "1 of 5"}, "3"},
		{"infinity", pixelsWith(t, 5, 0, float32(math.Inf(-1))), wire.NonFinite, []string{"pixels[7]", "-Inf"}, "0"},
		{"one entry that all rows share", sharing(t), wire.TooLarge, []string{"parts", "max_payload"}, ""},
	}

	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	model := packedModel(t, "lda", 3)
	d := startDaemon(t, configFile(t, s.ClientURL(), `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label, nulls: reject}
  output: {subject: reduced.digits, dead: dead.digits}
  limits: {message: 800KiB}
  model: {file: `+model+`}
wide:
  input: {stream: FEATURES, subject: features.wide}
  schema: {features: [pixels], label: label, nulls: reject}
  output: {subject: reduced.wide, dead: dead.wide}
  model: {file: `+model+`}`))

	source := map[string]int{} // index of the case, by Embedd-Source
	sent := 1
	c.send("features.digits", good)
	for i, one := range cases {
		source[fmt.Sprintf("FEATURES:%d", c.send("features.digits", one.body, "X-Case", one.name))] = i
		c.send("features.digits", good)
		sent += 2
	}
	c.settled("FEATURES", "digits")
	partly := 0
	for _, one := range cases {
		if one.rows != "" {
			partly++
		}
	}
	out, dead := c.read("REDUCED"), c.read("DEAD")
	if want := sent - len(cases) + partly; len(out) != want {
		t.Errorf("%d outputs, want %d: the good messages and those with some good rows", len(out), want)
	}
	if len(dead) != len(cases) {
		t.Errorf("%d dead letters, want %d", len(dead), len(cases))
	}
	answered := slices.Clone(out)
	for _, letter := range dead {
		i, ok := source[letter.header.Get(wire.HeaderSource)]
		if !ok {
			t.Errorf("a dead letter of %s, which was good: %s", letter.header.Get(wire.HeaderSource),
				letter.header.Get(wire.HeaderError))
			continue
		}
		one := cases[i]
		t.Logf("%-28s %-15s %s", one.name, letter.header.Get(wire.HeaderCode), letter.header.Get(wire.HeaderError))
		if one.rows == "" {
			answered = append(answered, letter)
		}
		checkLetter(t, one.name, letter, one.code, one.words, one.rows)
		if letter.header.Get("X-Case") != one.name {
			t.Errorf("%s: the client's own header is %q", one.name, letter.header.Get("X-Case"))
		}
		if one.rows == "" && !bytes.Equal(letter.data, one.body) {
			t.Errorf("%s: the dead letter holds %d bytes, not the %d that came", one.name, len(letter.data),
				len(one.body))
		}
		if one.rows != "" {
			in, _ := decode(t, one.body)
			schema, recs := decode(t, letter.data)
			if !slices.EqualFunc(in.Fields(), schema.Fields(), func(a, b arrow.Field) bool { return a.Equal(b) }) ||
				recs[0].NumRows() != 1 {
				t.Errorf("%s: the dead letter has schema %v and %d rows, want the original schema and 1", one.name,
					schema, recs[0].NumRows())
			}
			if id := recs[0].Column(0).ValueStr(0); id != one.rows {
				t.Errorf("%s: the dead letter has row %s, want %s", one.name, id, one.rows)
			}
		}
	}
	once(t, "FEATURES", 1, sent, answered)

	// One row is too wide for the server; the other rows are published.
	seq := c.send("features.wide", columnsOf(t, 3, 64, texts("label", "1", "2", "3"),
		texts("text", "short", huge, "short")))
	c.settled("FEATURES", "wide")
	dead = letters(t, c.read("DEAD"))
	letter := dead[len(dead)-1]
	t.Logf("%-28s %-15s %s", "a row too wide", letter.header.Get(wire.HeaderCode), letter.header.Get(wire.HeaderError))
	checkLetter(t, "a row too wide", letter, wire.TooWide, []string{"row 1", "max_payload"}, "1")
	if _, recs := decode(t, letter.data); recs[0].Column(2).ValueStr(0) != huge {
		t.Error("a row too wide: the dead letter has not the whole row")
	}
	var r reduced
	for _, msg := range c.read("REDUCED") {
		if msg.header.Get(wire.HeaderSource) == fmt.Sprintf("FEATURES:%d", seq) {
			r.add(t, msg.data)
		}
	}
	if !slices.Equal(r.label, []string{"1", "3"}) {
		t.Errorf("next to the row that is too wide rows %q left, want 1 and 3", r.label)
	}
	for line, want := range map[string]int{
		`embedd_messages_total{pipeline="digits",result="dead"}`: len(cases) - partly,
		`embedd_messages_total{pipeline="digits",result="out"}`:  sent - len(cases) + partly,
		`embedd_rows_total{pipeline="digits",result="dead"}`:     2,
		`embedd_rows_total{pipeline="wide",result="dead"}`:       1,
		`embedd_rows_total{pipeline="wide",result="out"}`:        2,
	} {
		d.awaitMetric(line, fmt.Sprint(want))
	}
	d.stop()
}

// checkLetter checks a dead letter against the wire format.
func checkLetter(t *testing.T, name string, letter stored, code wire.Code, words []string, rows string) {
	t.Helper()
	h := letter.header
	kind := wire.KindMessage
	if rows != "" {
		kind = wire.KindRows
	}
	for k, want := range map[string]string{
		wire.HeaderCode: string(code), wire.HeaderKind: string(kind), wire.HeaderRows: rows, wire.HeaderAttempts: "1",
	} {
		if got := h.Get(k); got != want {
			t.Errorf("%s: %s is %q, want %q (%s)", name, k, got, want, h.Get(wire.HeaderError))
		}
	}
	for _, word := range words {
		if !strings.Contains(h.Get(wire.HeaderError), word) {
			t.Errorf("%s: the sentence does not name %q: %s", name, word, h.Get(wire.HeaderError))
		}
	}
	if h.Get(wire.HeaderError) == "" || strings.ContainsAny(h.Get(wire.HeaderError), "\n\r") {
		t.Errorf("%s: Embedd-Error is %q, want one sentence", name, h.Get(wire.HeaderError))
	}
}

// TestNulls checks that a row with a missing feature is handled as schema.nulls says.
func TestNulls(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	model := packedModel(t, "lda", 3)
	var pipelines strings.Builder
	for _, nulls := range []string{"reject", "impute", "skip"} {
		fmt.Fprintf(&pipelines, `%[1]s:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label, nulls: %[1]s}
  output: {subject: reduced.%[1]s, dead: dead.%[1]s}
  model: {file: %[2]s}
`, nulls, model)
	}
	d := startDaemon(t, configFile(t, s.ClientURL(), pipelines.String()))
	c.send("features.digits", pixelsWith(t, 6, 2, float32(math.NaN())))
	for nulls, want := range map[string][4]int{ // rows out, dead, skipped; dead letters
		"reject": {5, 1, 0, 1}, "impute": {6, 0, 0, 0}, "skip": {5, 0, 1, 0},
	} {
		c.settled("FEATURES", nulls)
		var r reduced
		letters := 0
		for _, msg := range c.read("REDUCED") {
			if msg.subject == "reduced."+nulls {
				r.add(t, msg.data)
			}
		}
		for _, msg := range c.read("DEAD") {
			if msg.subject == "dead."+nulls {
				letters++
			}
		}
		if len(r.id) != want[0] || letters != want[3] {
			t.Errorf("%s: %d rows and %d dead letters, want %d and %d", nulls, len(r.id), letters, want[0], want[3])
		}
		for i, result := range []string{"out", "dead", "skip"} {
			d.awaitMetric(fmt.Sprintf(`embedd_rows_total{pipeline=%q,result=%q}`, nulls, result), fmt.Sprint(want[i]))
		}
		for _, y := range r.y {
			if math.IsNaN(float64(y)) {
				t.Errorf("%s: NaN came out", nulls)
			}
		}
	}
	d.stop()
}

// TestOversized: a stored message that is larger than the server now accepts blocks nothing. It was stored under a
// higher limit, and a pull with a byte limit below one message ends silently.
func TestOversized(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"8MiB", "32MiB"} {
		t.Run("limits.message "+limit, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			before := startServer(t, func(o *server.Options) { o.StoreDir, o.MaxPayload = dir, 16<<20 })
			c := dial(t, before.ClientURL())
			c.streams()
			g := digits(t)
			large := columnsOf(t, 2, 64, texts("label", "1", "2"), texts("text", "short", strings.Repeat("x", 9<<20)))
			for i := range 21 {
				if i == 10 {
					c.send("features.digits", large)
				} else {
					c.send("features.digits", g.message(t, i, i+1, true))
				}
			}
			c.nc.Close()
			stopServer(before)

			s := startServer(t, func(o *server.Options) { o.StoreDir = dir }) // max_payload 1 MiB
			c = dial(t, s.ClientURL())
			d := startDaemon(t, configFile(t, s.ClientURL(), `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  limits: {message: `+limit+`, in_flight: `+limit+`}
  model: {file: `+packedModel(t, "lda", 3)+`}`))
			c.settled("FEATURES", "digits")
			out, dead := c.read("REDUCED"), letters(t, c.read("DEAD"))
			if len(dead) != 1 || dead[0].header.Get(wire.HeaderSource) != "FEATURES:11" || len(dead[0].data) < 9<<20 {
				t.Fatalf("%d dead letters, want one of FEATURES:11 with the whole body", len(dead))
			}
			t.Logf("%s: %s", dead[0].header.Get(wire.HeaderCode), dead[0].header.Get(wire.HeaderError))
			if limit == "8MiB" {
				checkLetter(t, "9 MiB", dead[0], wire.TooLarge, nil, "")
				if !bytes.Equal(dead[0].data, large) {
					t.Error("the dead letter has other bytes")
				}
				out = append(out, c.read("DEAD")...)
			} else {
				// It is read, one of its two rows fits, and the other becomes the dead letter.
				checkLetter(t, "9 MiB", dead[0], wire.TooWide, nil, "1")
			}
			once(t, "FEATURES", 1, 21, out)
			d.stop()
		})
	}
}

// TestSplit checks that an output over the limit of its stream is published in parts: all rows in order, each part
// within the limit, and the same parts from another pipeline with the same configuration.
func TestSplit(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	const limit = 24 << 10
	c.stream("FEATURES", nil, "features.>")
	c.stream("REDUCED", func(o *jetstream.StreamConfig) { o.MaxMsgSize = limit }, "reduced.>")
	c.stream("DEAD", nil, "dead.>")
	pca, lda := packedModel(t, "pca", 9), packedModel(t, "lda", 9)
	d := startDaemon(t, configFile(t, s.ClientURL(), `
one:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.one, dead: dead.one}
  model: {file: `+pca+`}
two:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.two, dead: dead.two}
  model: {file: `+lda+`}`))
	g := digits(t)
	sizes := []int{1, 100, g.n, 900}
	for _, n := range sizes {
		c.send("features.digits", g.message(t, 0, n, true))
	}
	c.settled("FEATURES", "one")
	c.settled("FEATURES", "two")
	ways := map[string][]stored{}
	for _, msg := range c.read("REDUCED") {
		ways[msg.subject] = append(ways[msg.subject], msg)
		if len(msg.data) > limit {
			t.Errorf("a part of %d bytes, and the stream takes %d", len(msg.data), limit)
		}
	}
	var parts [2][]int
	for w, subject := range []string{"reduced.one", "reduced.two"} {
		once(t, "FEATURES", 1, len(sizes), ways[subject])
		rows := map[string][]int32{}
		for _, msg := range ways[subject] {
			var r reduced
			r.add(t, msg.data)
			source := msg.header.Get(wire.HeaderSource)
			rows[source] = append(rows[source], r.id...)
			parts[w] = append(parts[w], len(r.id))
			schema, _ := decode(t, msg.data)
			if v, _ := schema.Metadata().GetValue(wire.HeaderPart); v != msg.header.Get(wire.HeaderPart) {
				t.Errorf("schema metadata Embedd-Part is %q and the header %q", v, msg.header.Get(wire.HeaderPart))
			}
		}
		for i, n := range sizes {
			ids := rows[fmt.Sprintf("FEATURES:%d", i+1)]
			if len(ids) != n {
				t.Errorf("%s: input %d of %d rows came out with %d", subject, i+1, n, len(ids))
			}
			for j, id := range ids {
				if id != int32(j) {
					t.Fatalf("%s: input %d, row %d came out at %d", subject, i+1, id, j)
				}
			}
		}
	}
	if !slices.Equal(parts[0], parts[1]) || len(parts[0]) <= len(sizes) {
		t.Errorf("one pipeline made parts of %v rows, the other of %v; want the same, and more than %d", parts[0],
			parts[1], len(sizes))
	}
	t.Logf("rows by part: %v", parts[0])
	if n := c.count("DEAD"); n != 0 {
		t.Errorf("%d dead letters, want none", n)
	}
	d.stop()
}

// TestAttempts checks that a dead letter counts how often processing its input failed: earlier deliveries that were
// returned unprocessed do not count.
func TestAttempts(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	c.send("features.digits", []byte("no Arrow"))
	consumer := must(c.js.CreateConsumer(within(t, ample), "FEATURES", jetstream.ConsumerConfig{
		Durable: "embedd_digits", Description: "embedd pipeline digits", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait:       time.Second,
		FilterSubject: "features.digits",
	}))(t)
	for msg := range must(consumer.Fetch(1))(t).Messages() {
		if err := msg.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	c.send("features.digits", []byte("no Arrow either"))
	d := startDaemon(t, configFile(t, s.ClientURL(), `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {file: `+packedModel(t, "lda", 3)+`}`))
	c.settled("FEATURES", "digits")
	want := map[string]string{"no Arrow": "1", "no Arrow either": "1"}
	for _, letter := range c.read("DEAD") {
		if got := letter.header.Get(wire.HeaderAttempts); got != want[string(letter.data)] {
			t.Errorf("%q: %q attempts, want %q", letter.data, got, want[string(letter.data)])
		}
		delete(want, string(letter.data))
	}
	if len(want) > 0 {
		t.Errorf("no dead letters of %v", want)
	}
	d.stop()
}
