package stream

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
)

// rowsOfText are the features of the rows of these tests, with numbers that need all digits of a float64.
var rowsOfText = [][4]float64{{1, 100.25, math.Pi, -1e-7}, {2, 0, 1. / 3, 4}, {3, 100, 5e5, 1e-300}}

// bitsOfArrow are the outputs of the Arrow form of these rows.
func bitsOfArrow(t *testing.T, p *testPipeline) (bits []uint32) {
	t.Helper()
	list := arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Float64)
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: list}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, row := range rowsOfText {
		x := b.Field(0).(*array.FixedSizeListBuilder)
		x.Append(true)
		x.ValueBuilder().(*array.Float64Builder).AppendValues(row[:], nil)
	}
	rec := b.NewRecord()
	defer rec.Release()
	stage, err := plugin.New(plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}}, Fixed: p.Stage.Fixed})
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	m, err := stage.FromRecord(rec)
	if err != nil {
		t.Fatal(err)
	}
	r, err := stage.Transform(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Reduced.Y[0] {
		bits = append(bits, math.Float32bits(v))
	}
	return bits
}

// jsonRow is a row of rowsOfText as an object.
func jsonRow(i int) string {
	x, _ := json.Marshal(rowsOfText[i][:])
	return fmt.Sprintf(`{"id": "é\u0001%d", "x": %s,"label":%d}`, i, x, i%2)
}

// TestFormats: a pipeline reads and writes each format, with the output bits of the Arrow form of the same numbers, and
// content types that name the format. A row that cannot be read is a dead letter with its bytes, and a message that
// cannot be read one of itself.
func TestFormats(t *testing.T) {
	t.Parallel()
	lines := jsonRow(0) + "\n" + jsonRow(1) + "\n" + jsonRow(2) + "\n"
	for _, c := range []struct {
		in, out wire.Format
		message string
		want    string // with %v for each output
		bad     string // a message with a bad row among those of message
		rows    string // the dead letter of that row
		code    wire.Code
		junk    string
	}{
		{wire.FormatJSON, wire.FormatArrow, "[" + jsonRow(0) + ",\n" + jsonRow(1) + "," + jsonRow(2) + "]", "",
			"[" + jsonRow(0) + `,{"x":[1,2,3,"q"],"id":7}]`, `[{"x":[1,2,3,"q"],"id":7}]`, wire.NotNumeric, "{"},
		{wire.FormatJSON, wire.FormatJSON, `{"columns":["x"],"index":["a",2,null],"data":` + data() + `}`,
			`{"columns":["embedding"],"index":["a",2,null],"data":[[[%v]],[[%v]],[[%v]]]}`,
			`[{"x":[1,2,3,4],"a":1},{"x":[1,2]}]`, `[{"x":[1,2]}]`, wire.FeatureCount, "\xff"},
		{wire.FormatNDJSON, wire.FormatNDJSON, lines,
			`{"id": "é\u00010","label":0,"embedding":[%v]}` + "\n" + `{"id": "é\u00011","label":1,"embedding":[%v]}` + "\n" +
				`{"id": "é\u00012","label":0,"embedding":[%v]}` + "\n",
			lines + "{\"x\": \n" + "\n" + `{"x":[0,0,0,0],"x":1}`, "{\"x\": \n" + `{"x":[0,0,0,0],"x":1}` + "\n", wire.NotJSON,
			"\n\x00\n"},
		{wire.FormatCSV, wire.FormatCSV, csvOf(), "id,embedding_0\r\na,%v\n\"b\"\"\n\",%v\n,%v\n",
			csvOf() + "a,1\n", "x[0],x[1],x[2],x[3],id\na,1\n", wire.NotCSV, "x[0]\n\"1\n"},
	} {
		t.Run(string(c.in+" "+c.out), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.make(jetstream.StreamConfig{Name: "dead"})
			p := s.serving(func(c2 *Pipeline) {
				c2.Stage.Spec.Format, c2.Stage.Output.Format = c.in, c.out
				c2.Stage.Spec.Label = ""
			})
			for _, body := range []string{c.message, c.bad, c.junk} {
				s.put(&nats.Msg{Subject: "in.x", Header: nats.Header{"Content-type": {"x"}}, Data: []byte(body)})
			}
			s.settled()
			out := s.stored("out", "out.x", 2)
			if got := out[0].Header.Get(wire.HeaderContentType); got != c.out.ContentType() {
				t.Errorf("content type %q", got)
			}
			bits := bitsOfArrow(t, p)
			if c.out == wire.FormatArrow {
				checkBits(t, out[0].Data, bits)
			} else {
				var numbers []any
				for _, b := range bits {
					numbers = append(numbers, fmt.Sprint(math.Float32frombits(b)))
				}
				want := strings.ReplaceAll(fmt.Sprintf(c.want, numbers...), "\r", "")
				if string(out[0].Data) != want {
					t.Errorf("%s, want %s", out[0].Data, want)
				}
			}
			letters := s.stored("dead", "dead.x", 2)
			h := letters[0].Header
			if string(letters[0].Data) != c.rows || h.Get(wire.HeaderCode) != string(c.code) ||
				h.Get(wire.HeaderKind) != string(wire.KindRows) || h.Get(wire.HeaderContentType) != c.in.ContentType() {
				t.Errorf("rows %q with %v", letters[0].Data, h)
			}
			if h := letters[1].Header; string(letters[1].Data) != c.junk || h.Get(wire.HeaderKind) != string(wire.KindMessage) ||
				h.Get(wire.HeaderCode) == string(wire.Internal) {
				t.Errorf("message %q with %v", letters[1].Data, h)
			}
		})
	}
}

// data is rowsOfText as pandas' split has them.
func data() string {
	var rows [][][4]float64
	for _, row := range rowsOfText {
		rows = append(rows, [][4]float64{row})
	}
	text, _ := json.Marshal(rows)
	return string(text)
}

// csvOf is rowsOfText as CSV.
func csvOf() string {
	text := "x[0],x[1],x[2],x[3],id\n"
	for i, id := range []string{"a", "\"b\"\"\n\"", ""} {
		for _, v := range rowsOfText[i] {
			text += fmt.Sprint(v) + ","
		}
		text += id + "\n"
	}
	return text
}

// checkBits checks the outputs of an Arrow message.
func checkBits(t *testing.T, msg []byte, want []uint32) {
	t.Helper()
	d, err := arrowio.NewDecoder(arrowio.Spec{Features: []string{"embedding"}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Decode(msg, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []uint32
	for _, v := range m.Batches()[0].Features()[0].F32 {
		got = append(got, math.Float32bits(v))
	}
	a, _ := binary.Append(nil, binary.LittleEndian, got)
	b, _ := binary.Append(nil, binary.LittleEndian, want)
	if string(a) != string(b) {
		t.Errorf("outputs %x, want %x", got, want)
	}
}
