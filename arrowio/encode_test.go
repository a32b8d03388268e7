package arrowio

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rewrite"
	"github.com/embedd/embedd/arrowio/wire"
)

func columnsOf(t testing.TB, msg []byte) string {
	t.Helper()
	schema, _ := records(t, msg)
	var names []string
	for _, f := range schema.Fields() {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

func TestKeep(t *testing.T) {
	msg := message(t, "x0", from(t, f32, `[1]`), "x1", from(t, f32, `[2]`), "label", from(t, str, `["a"]`), "id",
		from(t, i32, `[7]`), "all", from(t, i32, `[7]`))
	for _, c := range []struct {
		keep []string
		want string
	}{
		{nil, "label id all embedding"},
		{[]string{"all"}, "label id all embedding"},
		{[]string{"none"}, "embedding"},
		{[]string{"id", "gone"}, "id embedding"},
		{[]string{"l*", "x*"}, "label embedding"},
		{[]string{"all", "x1"}, "x1 label id all embedding"},
	} {
		m := decode(t, newDecoder(t, Spec{Features: []string{"x*"}, Label: "label"}), msg)
		out, err := newEncoder(t, Output{Keep: c.keep}).Encode(numbered(m, 2), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := columnsOf(t, out); got != c.want {
			t.Errorf("keep %q: %s, not %s", c.keep, got, c.want)
		}
	}
}

func TestNameTaken(t *testing.T) {
	m := decode(t, newDecoder(t, Spec{Features: []string{"x"}}),
		message(t, "x", from(t, f32, `[1]`), "embedding", from(t, str, `["a"]`), "e_1", from(t, str, `["a"]`)))
	_, err := newEncoder(t, Output{}).Encode(numbered(m, 2), nil)
	wantCode(t, err, wire.NameTaken, `"embedding"`, "output.column")
	_, err = newEncoder(t, Output{Column: "e", Columns: true}).Encode(numbered(m, 2), nil)
	wantCode(t, err, wire.NameTaken, `"e_1"`)
	for _, o := range []Output{{Column: "e"}, {Keep: []string{"e_*"}}, {Column: "f", Columns: true}} {
		if _, err := newEncoder(t, o).Encode(numbered(m, 2), nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := newEncoder(t, Output{}).Rejected(m, [][]int{{0}}, nil); err != nil {
		t.Errorf("a dead letter has no output column: %v", err)
	}
}

func TestOutputColumns(t *testing.T) {
	m := decode(t, newDecoder(t, Spec{Features: []string{"x"}}), fixtures(t)["fsl"])
	r := numbered(m, 3)
	r.Drop = [][]int{{0, 2}, nil}
	out, err := newEncoder(t, Output{Columns: true, Column: "y"}).Encode(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := columnsOf(t, out); got != "label id y_0 y_1 y_2" {
		t.Error(got)
	}
	_, recs := records(t, out)
	var got []float32
	for j := 2; j < 5; j++ {
		got = append(got, recs[0].Column(j).(*array.Float32).Value(1))
	}
	if !slices.Equal(got, []float32{30, 31, 32}) {
		t.Error(got)
	}
}

// A dead letter of rows has the schema of the message, its features and its metadata, and only those rows.
func TestRejected(t *testing.T) {
	for name, msg := range fixtures(t) {
		d := newDecoder(t, Spec{})
		m := decode(t, d, msg)
		var rows [][]int
		var want []rowOf
		inSchema, in := records(t, msg)
		for k, b := range m.Batches() {
			var r []int
			for i := range b.Rows() {
				if i%4 == 1 {
					r = append(r, i)
					want = append(want, rowOf{in[k], i})
				}
			}
			rows = append(rows, r)
		}
		out, err := newEncoder(t, Output{}).Rejected(m, rows, []wire.Pair{{Key: wire.HeaderCode, Value: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		outSchema, recs := records(t, out)
		if !inSchema.Equal(outSchema) {
			t.Errorf("%s: %v, not %v", name, outSchema, inSchema)
		}
		got := rowsOf(recs)
		if len(got) != len(want) {
			t.Fatalf("%s: %d rows, not %d", name, len(got), len(want))
		}
		for k := range got {
			for j := range inSchema.Fields() {
				a, b := want[k], got[k]
				if !sameValue(a.rec.Column(j), a.row, b.rec.Column(j), b.row) {
					t.Errorf("%s: row %d of %s changed", name, k, inSchema.Field(j).Name)
				}
			}
		}
	}
}

// Split points depend on the input and the configuration, not on the metadata, the numbers or the compression.
func TestSplitPointsAreFixed(t *testing.T) {
	m := decode(t, newDecoder(t, Spec{Features: []string{"x*"}}), sample(t, 5000, 3, false, true))
	points := func(o Output, scale float32, meta string) (rows []int) {
		r := numbered(m, 4)
		for i := range r.Y[0] {
			r.Y[0][i] *= scale
		}
		msgs, err := newEncoder(t, o).Split(r, 32<<10, func(k, n int) []wire.Pair {
			return []wire.Pair{{Key: wire.HeaderPart, Value: fmt.Sprint(k, "/", n)}, {Key: "m", Value: meta}}
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, msg := range msgs {
			_, recs := records(t, msg)
			rows = append(rows, int(recs[0].NumRows()))
		}
		return rows
	}
	want := points(Output{}, 1, "")
	if len(want) < 4 {
		t.Errorf("parts of %v rows", want)
	}
	for _, got := range [][]int{points(Output{}, 0, ""), points(Output{}, 1, strings.Repeat("m", 3000)),
		points(Output{Compression: "zstd"}, 0, "")} {
		if !slices.Equal(got, want) {
			t.Errorf("%v, not %v", got, want)
		}
	}
}

func TestTooWide(t *testing.T) {
	wide := strings.Repeat("w", 5000)
	m := decode(t, newDecoder(t, Spec{Features: []string{"x"}}),
		message(t, "x", from(t, f32, `[1,2,3]`), "s", from(t, str, `["a","b","`+wide+`"]`)))
	e := newEncoder(t, Output{})
	none := func(int, int) []wire.Pair { return nil }
	_, err := e.Split(numbered(m, 2), 4000, none)
	wantCode(t, err, wire.TooWide, "row 2", "max_payload")
	two := decode(t, newDecoder(t, Spec{Features: []string{"x"}}), message(t, "x", from(t, f32, `[1,2,3]`), "s",
		from(t, str, `["`+wide+`","b","`+wide+`"]`)))
	_, err = e.Split(numbered(two, 2), 4000, none)
	if wantCode(t, err, wire.TooWide, "row 0"); len(err.(*Error).Also) != 1 || err.(*Error).Also[0].Row != 2 {
		t.Errorf("rows %v too", err.(*Error).Also)
	}
	many := decode(t, newDecoder(t, Spec{Features: []string{"x"}}),
		message(t, "x", from(t, f32, "["+strings.Repeat("1,", 199)+"1]"),
			"s", from(t, str, `["`+strings.Repeat(wide+`","`, 199)+wide+`"]`)))
	_, err = e.Split(numbered(many, 2), 4000, none)
	if wantCode(t, err, wire.TooWide, "row 0"); len(err.(*Error).Also) != 127 {
		t.Errorf("%d rows too", len(err.(*Error).Also))
	}
	second := numbered(decode(t, newDecoder(t, Spec{Features: []string{"x"}}), fixtures(t)["fsl"]), 2)
	second.Drop = [][]int{upTo(40), nil}
	_, err = e.Split(second, 1000, none)
	wantCode(t, err, wire.TooWide, "row 0", "batch 1")
	r := numbered(m, 2)
	r.Drop = [][]int{{2}}
	if _, err := e.Split(r, 4000, none); err != nil {
		t.Error(err)
	}
	_, err = e.Split(r, 4000, func(int, int) []wire.Pair { return []wire.Pair{{Key: "k", Value: wide}} })
	wantCode(t, err, wire.TooLarge, "metadata")
	_, err = e.Split(numbered(m, 2), 10, none)
	wantCode(t, err, wire.TooWide)
}

func TestEncodeRefusesWhatDoesNotFit(t *testing.T) {
	m := decode(t, newDecoder(t, Spec{Features: []string{"x"}}), fixtures(t)["fsl"])
	e := newEncoder(t, Output{})
	for _, change := range []func(*Reduced){
		func(r *Reduced) { r.Dim = 0 },
		func(r *Reduced) { r.Y = r.Y[1:] },
		func(r *Reduced) { r.Y[0] = r.Y[0][1:] },
		func(r *Reduced) { r.Drop = [][]int{{1}} },
		func(r *Reduced) { r.Drop = [][]int{{1, 1}, nil} },
		func(r *Reduced) { r.Drop = [][]int{{40}, nil} },
	} {
		r := numbered(m, 2)
		change(&r)
		_, err := e.Encode(r, nil)
		var fail *Error
		if !errors.As(err, &fail) || fail.Code != wire.Internal {
			t.Errorf("%v", err)
		}
	}
	if _, err := NewEncoder(Output{Compression: "gzip"}); err == nil {
		t.Error("gzip is accepted")
	}
	if _, err := NewEncoder(Output{Keep: []string{"["}}); err == nil {
		t.Error("a broken glob is accepted")
	}
}

// TestNothing: without a message the error says so.
func TestNothing(t *testing.T) {
	e := newEncoder(t, Output{})
	for _, m := range []*Message{nil, {}} {
		_, encode := e.Encode(Reduced{Message: m, Dim: 1}, nil)
		_, record := e.Record(Reduced{Message: m, Dim: 1}, nil)
		_, split := e.Split(Reduced{Message: m, Dim: 1}, 1000, nil)
		_, text := newEncoder(t, Output{Format: wire.FormatCSV}).Encode(Reduced{Message: m, Dim: 1}, nil)
		_, rejected := e.Rejected(m, nil, nil)
		_, whole := Arrow(m)
		_, csv := Text(m, wire.FormatCSV)
		for what, err := range map[string]error{"Encode": encode, "Record": record, "Split": split, "Encode of text": text,
			"Rejected": rejected, "Arrow": whole, "Text": csv} {
			checkError(t, what, err, "there is no message; give one that Decode or FromRecord returned")
		}
	}
}

// Metadata of a batch is preserved.
func TestBatchMetadata(t *testing.T) {
	msg := message(t, "x", from(t, f32, `[1]`), "k", from(t, i32, `[1]`))
	fs := frames(t, msg)
	b := flatbuffers.NewBuilder(256)
	r := rewrite.Record{Rows: 1}
	c := decode(t, newDecoder(t, Spec{}), msg).Batches()[0].data
	r.Whole(&c.Chunk, 0)
	r.Whole(&c.Chunk, 1)
	head, body := r.Header(b, r.Buffers, nil)
	value := b.CreateString("v")
	pairs := rewrite.References(b, []flatbuffers.UOffsetT{rewrite.Pair(b, b.CreateString("batch key"), value)})
	with := append([]byte(nil), msg[:8+len(fs[0].Meta)]...)
	with = rewrite.AppendFrame(with, b, ipc.HeadRecord, head, body, pairs)
	for _, x := range r.Buffers {
		with = rewrite.Pad(append(with, x...), len(x))
	}
	out, err := newEncoder(t, Output{}).Encode(numbered(decode(t, newDecoder(t, Spec{Features: []string{"x"}}), with),
		1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out, []byte("batch key")) {
		t.Error("the batch's metadata is gone")
	}
	if got := columnsOf(t, out); got != "k embedding" {
		t.Error(got)
	}
}

// The Go builder shares vtables between tables of different kinds: here a dictionary encoding and a metadata pair have
// equal ones.
func TestSharedVtables(t *testing.T) {
	dict := from(t, &arrow.DictionaryType{IndexType: i32, ValueType: str}, `["a","b"]`)
	md := arrow.NewMetadata([]string{"k"}, []string{"v"})
	schema := arrow.NewSchema([]arrow.Field{{Name: "m", Type: i32, Metadata: md},
		{Name: "d", Type: dict.DataType(), Metadata: md}, {Name: "e", Type: dict.DataType()}}, &md)
	msg, err := FromRecords(schema, array.NewRecord(schema, []arrow.Array{from(t, i32, `[1,2]`), dict, dict}, 2))
	if err != nil {
		t.Fatal(err)
	}
	e := newEncoder(t, Output{})
	for range 3 { // the output's tables must be readable too
		m := decode(t, newDecoder(t, Spec{Label: "d"}), msg)
		if l, _ := m.Batches()[0].Label(1); l != "b" {
			t.Errorf("label %q", l)
		}
		if msg, err = e.Rejected(m, [][]int{{0, 1}}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// Only the dictionaries of kept columns are in the output.
func TestDictionariesOfDroppedColumnsStay(t *testing.T) {
	dict := func(json string) arrow.Array {
		return from(t, &arrow.DictionaryType{IndexType: i32, ValueType: str}, json)
	}
	msg := message(t, "x", from(t, f32, `[1]`), "a", dict(`["left behind"]`), "b", dict(`["taken along"]`))
	out, err := newEncoder(t, Output{Keep: []string{"b"}}).Encode(
		numbered(decode(t, newDecoder(t, Spec{Features: []string{"x"}}), msg), 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(out, []byte("left behind")) || !bytes.Contains(out, []byte("taken along")) {
		t.Error("the wrong dictionary left")
	}
	records(t, out)
}

// Run-end encoded columns lose rows as other columns do: the remaining rows of one run remain one run.
func TestRunsLoseRows(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	for range 50 {
		rows := 1 + r.IntN(40)
		ends, values := array.NewInt16Builder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator)
		for end := 0; end < rows; {
			end = min(end+1+r.IntN(6), rows)
			ends.Append(int16(end))
			if r.IntN(4) == 0 {
				values.AppendNull()
			} else {
				values.Append(fmt.Sprint("run to ", end))
			}
		}
		runs := array.NewRunEndEncodedArray(ends.NewArray(), values.NewArray(), rows, 0)
		msg := message(t, "runs", runs)
		m := decode(t, newDecoder(t, Spec{}), msg)
		reduced := numbered(m, 2)
		reduced.Drop = make([][]int, 1)
		var kept []int
		for i := range rows {
			if r.IntN(3) == 0 {
				reduced.Drop[0] = append(reduced.Drop[0], i)
			} else {
				kept = append(kept, i)
			}
		}
		out, err := newEncoder(t, Output{}).Encode(reduced, nil)
		if err != nil {
			t.Fatal(err)
		}
		if seen := sameRows(t, msg, out, ""); !slices.Equal(seen, kept) {
			t.Fatalf("rows %v, not %v", seen, kept)
		}
		if len(kept) > 0 {
			_, recs := records(t, out)
			if n := recs[0].Column(0).(*array.RunEndEncoded).RunEndsArr().Len(); n > runs.RunEndsArr().Len() {
				t.Fatalf("%d runs of %d", n, runs.RunEndsArr().Len())
			}
		}
	}
}

// TestReservedMetadata: metadata of an input's schema that has the name of a header of embedd or NATS is not copied, as
// when the output of one pipeline is the input of another.
func TestReservedMetadata(t *testing.T) {
	theirs := arrow.NewMetadata([]string{"owner", wire.HeaderStale, "embedd-part", "Nats-Msg-Id"},
		[]string{"a", "9", "1/2", "b"})
	x := from(t, f32, `[1]`)
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: f32}}, &theirs)
	msg, err := FromRecords(schema, array.NewRecord(schema, []arrow.Array{x}, 1))
	if err != nil {
		t.Fatal(err)
	}
	m := decode(t, newDecoder(t, Spec{Features: []string{"x"}}), msg)
	e := newEncoder(t, Output{})
	own := []wire.Pair{{Key: wire.HeaderEpoch, Value: "1"}}
	for _, write := range []func() ([]byte, error){
		func() ([]byte, error) { return e.Encode(numbered(m, 1), own) },
		func() ([]byte, error) { return e.Rejected(m, [][]int{{0}}, own) },
	} {
		out, err := write()
		if err != nil {
			t.Fatal(err)
		}
		got, _ := records(t, out)
		want := arrow.NewMetadata([]string{"owner", wire.HeaderEpoch}, []string{"a", "1"})
		if !got.Metadata().Equal(want) {
			t.Errorf("metadata is %v, want %v", got.Metadata(), want)
		}
	}
}

// TestFramesAgain: an encoder that has written outputs of a schema before writes the same bytes as a new one, whatever
// rows and metadata came before, from several goroutines concurrently.
func TestFramesAgain(t *testing.T) {
	user := arrow.NewMetadata([]string{"owner", "source"}, []string{"user", "theirs"})
	x := arrow.Field{Name: "x", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32)}
	name := arrow.Field{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true}
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int32}, name, x}, &user)
	d := newDecoder(t, Spec{Features: []string{"x"}})
	var inputs []*Message
	for rows := range 6 {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := range rows {
			b.Field(0).(*array.Int32Builder).Append(int32(i))
			if i%3 == 2 {
				b.Field(1).AppendNull()
			} else {
				b.Field(1).(*array.StringBuilder).Append(strings.Repeat("n", 5*i))
			}
			list := b.Field(2).(*array.FixedSizeListBuilder)
			list.Append(true)
			list.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{1, 2}, nil)
		}
		rec := b.NewRecord()
		msg, err := FromRecords(schema, rec, rec)
		rec.Release()
		b.Release()
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, decode(t, d, msg))
	}
	kept := newEncoder(t, Output{})
	keys := []string{"source", "owner", "model", "part", ""}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 5))
			for range 300 {
				reduced := numbered(inputs[r.IntN(len(inputs))], 2)
				reduced.Drop = make([][]int, 2)
				for row := range reduced.Message.Batches()[0].Rows() {
					if r.IntN(3) == 0 {
						reduced.Drop[0] = append(reduced.Drop[0], row)
					}
				}
				var meta []wire.Pair
				for _, key := range keys[:r.IntN(len(keys)+1)] {
					meta = append(meta, wire.Pair{Key: key, Value: strings.Repeat(strconv.Itoa(r.IntN(10)), r.IntN(3))})
				}
				got, err := kept.Encode(reduced, meta)
				want, fail := newEncoder(t, Output{}).Encode(reduced, meta)
				if err != nil || fail != nil || !bytes.Equal(got, want) {
					t.Errorf("with %v: %d bytes, %v; a new encoder writes %d others, %v", meta, len(got), err, len(want), fail)
					return
				}
			}
		})
	}
	wg.Wait()
}

// The length of outputs is used to count memory: a compressed one has no unused capacity of its uncompressed form.
func TestCompressedTakesItsLength(t *testing.T) {
	m := decode(t, newDecoder(t, Spec{Features: []string{"x*"}}), sample(t, 2000, 3, false, false))
	r := numbered(m, 8)
	for i := range r.Y[0] {
		r.Y[0][i] = 1
	}
	for _, c := range []string{"none", "lz4", "zstd"} {
		e := newEncoder(t, Output{Compression: c})
		for range 3 { // including reused memory
			msg, err := e.Encode(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if room := cap(msg) - len(msg); room > len(msg)/4+64 {
				t.Errorf("%s: a message of %d bytes holds %d", c, len(msg), cap(msg))
			}
			e.Reuse(msg)
		}
	}
}

// TestSplitInEqualParts: rows of one size are split into as many parts as their size needs.
func TestSplitInEqualParts(t *testing.T) {
	d := newDecoder(t, Spec{Features: []string{"x"}})
	const rows = 60
	m := decode(t, d, message(t, "x", from(t, f32, "["+strings.Repeat("1,", rows-1)+"1]"),
		"s", from(t, str, `["`+strings.Repeat(strings.Repeat("s", 1000)+`","`, rows-1)+strings.Repeat("s", 1000)+`"]`)))
	for limit, want := range map[int]int{40 << 10: 2, 28 << 10: 3, 18 << 10: 5, 17 << 10: 5, 15 << 10: 6} {
		parts, err := newEncoder(t, Output{}).Split(numbered(m, 2), limit, func(int, int) []wire.Pair { return nil })
		if err != nil || len(parts) != want {
			t.Errorf("60 rows of 1,000 bytes in %d parts of %d bytes, want %d: %v", len(parts), limit, want, err)
		}
	}
}

// TestFromRecordsOfWhatIsNotRead: a record with a dictionary of views and a column that cannot be read is an error.
func TestFromRecordsOfWhatIsNotRead(t *testing.T) {
	deep := arrow.DataType(arrow.PrimitiveTypes.Int8)
	for range 100 {
		deep = arrow.ListOf(deep)
	}
	views := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.StringView}
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: views}, {Name: "deep", Type: deep}}, nil)
	rec := array.NewRecord(schema, []arrow.Array{
		array.NewDictionaryArray(views, from(t, views.IndexType, "[0]"), from(t, views.ValueType, `["a"]`)),
		array.MakeArrayOfNull(memory.DefaultAllocator, deep, 1)}, 1)
	if msg, err := FromRecords(schema, rec); err == nil || msg != nil {
		t.Errorf("%d bytes: %v", len(msg), err)
	}
}

// TestRefusedOutputs: an output that does not fit its message is refused, with what differs.
func TestRefusedOutputs(t *testing.T) {
	x := from(t, f32, `[1,2]`)
	schema, recs := records(t, message(t, "x", x))
	two, err := FromRecords(schema, recs[0], recs[0])
	if err != nil {
		t.Fatal(err)
	}
	d := newDecoder(t, Spec{})
	one, m := decode(t, d, message(t, "x", x)), decode(t, d, two)
	named := decode(t, d, message(t, "embedding", x, "x", x))
	twice := decode(t, d, message(t, "x", x, "x", x))
	text := decode(t, newDecoder(t, Spec{Format: wire.FormatCSV}), []byte("x,y_1\n1,2\n3,4\n"))
	y := [][]float32{{1, 2}, {3, 4}}
	all := Output{Keep: []string{"all"}}
	for _, c := range []struct {
		name string
		out  Output
		r    Reduced
		want string
	}{
		{"fits", all, Reduced{m, 1, y, nil}, ""},
		{"no dimension", all, Reduced{m, 0, y, nil}, "0 dimensions, 2 results and 0 lists of dropped rows for 2 batches"},
		{"dimensions", all, Reduced{m, 65537, y, nil},
			"65537 dimensions, 2 results and 0 lists of dropped rows for 2 batches"},
		{"one result", all, Reduced{m, 1, y[:1], nil},
			"1 dimensions, 1 results and 0 lists of dropped rows for 2 batches"},
		{"one list", all, Reduced{m, 1, y, [][]int{{0}}},
			"1 dimensions, 2 results and 1 lists of dropped rows for 2 batches"},
		{"short result", all, Reduced{m, 1, [][]float32{{1, 2}, {3}}, nil},
			"batch 1 has 2 rows and a result of 1 numbers for 1 dimensions"},
		{"row twice", all, Reduced{m, 1, y, [][]int{nil, {1, 1}}},
			"row 1 after row 1 in a batch of 2; list rows in ascending order, each once"},
		{"row beyond", all, Reduced{m, 1, y, [][]int{{2}, nil}},
			"row 2 after row -1 in a batch of 2; list rows in ascending order, each once"},
		{"row before", all, Reduced{m, 1, y, [][]int{{-1}, nil}},
			"row -1 after row -1 in a batch of 2; list rows in ascending order, each once"},
		{"name of the output", all, Reduced{named, 1, y[:1], nil},
			`column "embedding": a kept column has the name of the output column; rename it, set another ` +
				`output.column, or do not keep it`},
		{"name as text", Output{Keep: []string{"all"}, Format: "json"}, Reduced{named, 1, y[:1], nil},
			`column "embedding": a kept column has the name of the output column; rename it, set another ` +
				`output.column, or do not keep it`},
		{"two of a name", Output{Keep: []string{"all"}, Format: "json"}, Reduced{twice, 1, y[:1], nil},
			`column "x": two columns have this name, which text cannot tell apart; rename one, or do not ` +
				`keep it`},
		{"name of a dimension", Output{Column: "y", Format: "csv"}, Reduced{text, 2, [][]float32{{1, 2, 3, 4}}, nil},
			`column "y_1": a kept column has the name of the output column; rename it, set another ` +
				`output.column, or do not keep it`},
	} {
		_, err := newEncoder(t, c.out).Encode(c.r, nil)
		checkError(t, c.name, err, c.want)
	}
	e := newEncoder(t, Output{})
	_, err = e.Rejected(m, [][]int{{0}}, nil)
	checkError(t, "rows of one batch", err, "rows for 1 batches, and the message has 2")
	_, err = e.Rejected(m, [][]int{{0}, {2}}, nil)
	checkError(t, "a row beyond", err, "row 2 after row -1 in a batch of 2; list rows in ascending order, each once")
	_, err = e.Record(Reduced{m, 1, y, nil}, nil)
	checkError(t, "a record of two batches", err,
		"a message of 2 batches is not one record; encode it, or give records one by one")
	if rec, err := e.Record(Reduced{one, 1, y[:1], [][]int{{0}}}, nil); err != nil || rec.NumRows() != 1 ||
		rec.Column(1).(*array.FixedSizeList).ListValues().(*array.Float32).Value(0) != 2 {
		t.Errorf("a record without its first row: %v, %v", rec, err)
	}
	_, err = Arrow(decode(t, newDecoder(t, Spec{Features: []string{"x"}, Format: wire.FormatCSV}), []byte("x\n1\ny\n")))
	checkError(t, "a row that cannot be read", err, `row 2: "y" is no number`)
}

// TestOffsetsOfEmptySlices: pyarrow writes a column without rows with the offset at which another library cut it. It is
// accepted, and 0 in the output, since the readers of those libraries refuse it.
func TestOffsetsOfEmptySlices(t *testing.T) {
	m := decode(t, newDecoder(t, Spec{Features: []string{"x"}}), fixtures(t)["empty_slices"])
	msg, err := newEncoder(t, Output{}).Encode(numbered(m, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	offsets := func(m *Message) (all []int64) {
		c := &m.batches[1].data.Chunk
		for i, f := range c.Layout.Fields {
			if rows, _ := c.Node(i); rows == 0 && (f.Kind == ipc.KindBinary || f.Kind == ipc.KindList) {
				all = append(all, ipc.Offset(c.Buffer(i, 1), f.Width, 0))
			}
		}
		return all
	}
	in, out := offsets(m), offsets(decode(t, newDecoder(t, Spec{}), msg))
	if !slices.Equal(in, []int64{3, 3, 0, 3, 3, 0}) || !slices.Equal(out, make([]int64, 6)) {
		t.Errorf("offsets %v became %v", in, out)
	}
}

// TestUncountedNulls: the library of JavaScript writes -1 as the null count of a slice of a column of type null. The
// output has the count.
func TestUncountedNulls(t *testing.T) {
	counts := func(msg []byte, field int) uint64 {
		nodes := frames(t, msg)[1].Head.Vector(1, 16, "")
		return le.Uint64(nodes.Bytes()[16*field+8:])
	}
	in := fixtures(t)["slice_js"]
	m := decode(t, newDecoder(t, Spec{Features: []string{"x"}}), in)
	out, err := newEncoder(t, Output{}).Encode(numbered(m, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	if from, to := int64(counts(in, 2)), counts(out, 0); from != -1 || to != 5 {
		t.Errorf("a null count of %d became %d", from, to)
	}
}
