package arrowio

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/wire"
)

// sample is one message of rows x m float32 features, as one list column or as m columns, with or without a string
// label.
func sample(t testing.TB, rows, m int, list, label bool) []byte {
	t.Helper()
	var fields []arrow.Field
	if list {
		fields = append(fields, arrow.Field{Name: "x",
			Type: arrow.FixedSizeListOf(int32(m), arrow.PrimitiveTypes.Float32)})
	} else {
		for j := range m {
			fields = append(fields, arrow.Field{Name: fmt.Sprint("x", j), Type: arrow.PrimitiveTypes.Float32})
		}
	}
	if label {
		fields = append(fields, arrow.Field{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true})
	}
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range rows {
		if list {
			b.Field(0).(*array.FixedSizeListBuilder).Append(true)
		}
		for j := range m {
			if list {
				b.Field(0).(*array.FixedSizeListBuilder).ValueBuilder().(*array.Float32Builder).Append(r.Float32())
			} else {
				b.Field(j).(*array.Float32Builder).Append(r.Float32())
			}
		}
		if label {
			b.Field(len(fields) - 1).(*array.StringBuilder).Append(fmt.Sprint("class ", i%10))
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	msg, err := FromRecords(schema, rec)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

var shapes = []struct {
	name    string
	rows, m int
	list    bool
}{
	{"fsl_n64_m64", 64, 64, true},
	{"fsl_n1024_m256", 1024, 256, true},
	{"fsl_n1024_m784", 1024, 784, true},
	{"columns_n64_m64", 64, 64, false},
	{"columns_n1024_m784", 1024, 784, false},
}

func BenchmarkDecode(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			msg := sample(b, s.rows, s.m, s.list, false)
			d := newDecoder(b, Spec{Features: []string{"x*"}})
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decode(msg, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFaults(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			msg := sample(b, s.rows, s.m, s.list, false)
			d := newDecoder(b, Spec{Features: []string{"x*"}})
			m, err := d.Decode(msg, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(msg)))
			for b.Loop() {
				if len(m.Batches()[0].findFaults()) != 0 {
					b.Fatal("faults in clean data")
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name+"_d2", func(b *testing.B) {
			d := newDecoder(b, Spec{Features: []string{"x*"}, Label: "label"})
			m, err := d.Decode(sample(b, s.rows, s.m, s.list, true), nil)
			if err != nil {
				b.Fatal(err)
			}
			e, r, meta := newEncoder(b, Output{}), numbered(m, 2),
				[]wire.Pair{{Key: wire.HeaderWire, Value: wire.Version}, {Key: wire.HeaderModel, Value: "7"}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Encode(r, meta); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeEncode(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name+"_d2", func(b *testing.B) {
			d := newDecoder(b, Spec{Features: []string{"x*"}, Label: "label"})
			msg := sample(b, s.rows, s.m, s.list, true)
			m, err := d.Decode(msg, nil)
			if err != nil {
				b.Fatal(err)
			}
			e, r := newEncoder(b, Output{}), numbered(m, 2)
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			for b.Loop() {
				if r.Message, err = d.Decode(msg, nil); err != nil {
					b.Fatal(err)
				}
				if _, err := e.Encode(r, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkKeptText decodes and encodes rows with 8 KB of text, whose bytes are checked and copied.
func BenchmarkKeptText(b *testing.B) {
	const rows, m = 64, 64
	for name, piece := range map[string]string{"ascii": "plain text, ", "latin": "naïve façade, ", "cjk": "日本語の文章"} {
		b.Run(name, func(b *testing.B) {
			kept := array.NewStringBuilder(memory.DefaultAllocator)
			defer kept.Release()
			for range rows {
				kept.Append(strings.Repeat(piece, 8192/len(piece)))
			}
			x := array.NewFixedSizeListBuilder(memory.DefaultAllocator, m, arrow.PrimitiveTypes.Float32)
			defer x.Release()
			for i := range rows * m {
				if i%m == 0 {
					x.Append(true)
				}
				x.ValueBuilder().(*array.Float32Builder).Append(float32(i))
			}
			msg := message(b, "x", x.NewArray(), "text", kept.NewArray())
			d := newDecoder(b, Spec{Features: []string{"x"}})
			r := numbered(decode(b, d, msg), 2)
			e := newEncoder(b, Output{})
			b.SetBytes(int64(len(msg)))
			for b.Loop() {
				r.Message = decode(b, d, msg)
				out, err := e.Encode(r, nil)
				if err != nil {
					b.Fatal(err)
				}
				e.Reuse(out)
			}
		})
	}
}
